"""The history of a queue, from a real ledger."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.reading.history import Span
from mqdlq.model import Outcome
from tests.support.run_records import NOON
from tests.support.web.recorded_runs import RecordedRun

HOUR = timedelta(hours=1)
DAY = Span("demo", ("QM1", "DLQ"), NOON - 12 * HOUR, NOON + 12 * HOUR)


@pytest.fixture(name="ledger")
def ledger_fixture(ledger_url: str) -> Iterator[Ledger]:
    with open_ledger(ledger_url) as ledger:
        yield ledger


def test_depths_are_those_of_looks_and_last_browses(ledger: Ledger) -> None:
    RecordedRun(arrived=1).record(ledger)
    RecordedRun(name="later", at=NOON + HOUR, depth=0, is_work=False).record(ledger)

    assert ledger.histories.depths(DAY) == [
        (NOON + timedelta(seconds=1), 5, 5000),
        (NOON + timedelta(seconds=30), 3, None),
        (NOON + HOUR + timedelta(seconds=1), 0, 5000),
    ]


def test_runs_outside_the_range_and_of_other_queues_do_not_count(ledger: Ledger) -> None:
    RecordedRun(name="before", at=DAY.start - HOUR).record(ledger)
    RecordedRun(name="after", at=DAY.end).record(ledger)
    RecordedRun(name="queue", run={"queue": "OTHER"}).record(ledger)
    RecordedRun(handler="other").record(ledger)

    assert ledger.histories.depths(DAY) == []
    assert ledger.histories.accounts(DAY) == []
    assert ledger.histories.expiries(DAY) == []


def test_an_account_has_an_age(ledger: Ledger) -> None:
    RecordedRun().record(ledger)
    RecordedRun(name="old version", at=NOON + HOUR, verdict="").record(ledger)

    at = NOON + timedelta(seconds=30)
    assert ledger.histories.accounts(DAY) == [
        (at, NOON - HOUR),
        (at + HOUR, NOON),
    ]


@pytest.mark.parametrize(
    "other", [{"dry_run": True}, {"run_type": "backfill"}, {"message_keys": ("ab" * 32,)}]
)
def test_runs_that_do_not_act_on_the_queue_have_no_expiries(
    ledger: Ledger, other: dict[str, object]
) -> None:
    RecordedRun(run=other).record(ledger)

    assert ledger.histories.expiries(DAY) == []
    assert ledger.histories.accounts(DAY) == []


def test_expiries_are_those_of_the_last_report(ledger: Ledger) -> None:
    run = RecordedRun()
    run.record(ledger)
    first = ledger.accounts.verdict_of(run.run_id)
    assert first is not None
    ledger.accounts.record_verdict(run.run_id, first, {})

    assert ledger.histories.expiries(DAY) == []

    RecordedRun(name="2", at=NOON + HOUR, outcomes={Outcome.EXPIRED: 5}, rule=3).record(ledger)
    assert ledger.histories.expiries(DAY) == [(NOON + HOUR, 5)]
