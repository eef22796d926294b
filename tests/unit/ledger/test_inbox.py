"""The ledger says what is on all queues by cause, when it arrived, and what people say of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.tables import AuditEvent, CauseChange, CauseNumbers
from mqdlq.model import AuditKind, ChangeKind
from tests.unit.ledger.test_ledger import NOON, run

pytestmark = pytest.mark.slow

HOUR = timedelta(hours=1)


@pytest.fixture(name="ledger")
def _ledger(ledger_url: str) -> Iterator[Ledger]:
    with open_ledger(ledger_url) as ledger:
        yield ledger


def numbers(messages: int, cause: str = "full", **values: Any) -> CauseNumbers:
    given = {"attention": messages, "first_at": NOON, "last_at": NOON, **values}
    return CauseNumbers("dead_letter", 2053, cause, "ORDERS", "QM1", messages, **given)


def book(
    ledger: Ledger,
    name: str,
    at: datetime,
    *found: CauseNumbers,
    arrivals: dict[tuple[str, datetime], int] | None = None,
    **fields: Any,
) -> None:
    """Record a run, unless it is recorded, and book what it counted at a time."""
    known = ledger.runs.get(name)
    made = known or run(name, started_at=at, **fields)
    if known is None:
        ledger.runs.record(made)
    ledger.inbox.book(made, found, at, arrivals or {}, is_judged=True)


def messages(ledger: Ledger) -> dict[tuple[str, str], int]:
    return {(row.run_id, row.numbers.cause_id): row.numbers.messages for row in ledger.inbox.all()}


def test_a_later_look_at_a_queue_replaces_the_numbers_of_an_earlier_one(ledger: Ledger) -> None:
    book(ledger, "r1", NOON, numbers(5), numbers(2, "other"))
    book(ledger, "r2", NOON + HOUR, numbers(3, first_at=NOON + HOUR, last_at=NOON + HOUR))

    assert messages(ledger) == {("r2", "full"): 3, ("r2", "other"): 0}
    full = next(row.numbers for row in ledger.inbox.all() if row.numbers.cause_id == "full")
    assert (full.first_at, full.last_at) == (NOON, NOON + HOUR)


def test_an_earlier_look_and_another_queue_replace_nothing(ledger: Ledger) -> None:
    book(ledger, "r1", NOON, numbers(5))
    book(ledger, "r2", NOON - HOUR, numbers(9))
    book(ledger, "r3", NOON + HOUR, numbers(1), queue="OTHER")
    book(ledger, "r4", NOON + HOUR, numbers(2), handler="another")

    assert messages(ledger) == {("r1", "full"): 5, ("r3", "full"): 1, ("r4", "full"): 2}


def test_a_report_that_is_written_again_counts_once(ledger: Ledger) -> None:
    for _ in range(2):
        book(ledger, "r1", NOON, numbers(5), arrivals={("full", NOON): 5})
        book(ledger, "r2", NOON + HOUR, numbers(-2), message_keys=("aa",))

    assert messages(ledger) == {("r1", "full"): 5, ("r2", "full"): -2}
    assert ledger.inbox.messages(["full"]) == {"full": 3}
    assert ledger.inbox.arrivals(["full"], ["demo"], NOON) == {"full": {NOON: 5}}


def test_a_run_for_some_messages_counts_until_the_next_look_at_the_whole_queue(
    ledger: Ledger,
) -> None:
    book(ledger, "r1", NOON, numbers(5))
    book(ledger, "r2", NOON + HOUR, numbers(-2), message_keys=("aa",))
    assert ledger.inbox.messages(["full"]) == {"full": 3}

    book(ledger, "r3", NOON + 2 * HOUR, numbers(3))
    book(ledger, "r4", NOON + HOUR, numbers(-1), message_keys=("bb",))

    assert messages(ledger) == {("r3", "full"): 3}


def test_messages_that_came_since_the_last_look_need_attention_until_they_are_judged(
    ledger: Ledger,
) -> None:
    book(ledger, "r1", NOON, numbers(5, attention=1))
    second = run("r2", started_at=NOON + HOUR)
    ledger.runs.record(second)
    ledger.inbox.book(second, [numbers(8)], NOON + HOUR, is_judged=False)

    assert [row.numbers.attention for row in ledger.inbox.all()] == [4]


def test_a_cause_that_is_gone_is_known_for_a_month(ledger: Ledger) -> None:
    book(ledger, "r1", NOON, numbers(5))
    book(ledger, "r2", NOON + 30 * 24 * HOUR)
    assert messages(ledger) == {("r2", "full"): 0}
    book(ledger, "r3", NOON + 31 * 24 * HOUR)

    assert messages(ledger) == {}


def test_arrivals_are_summed_by_hour_for_the_handlers_that_are_asked_for(ledger: Ledger) -> None:
    book(ledger, "r1", NOON, arrivals={("full", NOON): 5, ("full", NOON - HOUR): 1})
    book(ledger, "r2", NOON + HOUR, arrivals={("full", NOON): 2})
    book(ledger, "r3", NOON, arrivals={("full", NOON): 7}, handler="hidden")

    since = NOON - 24 * HOUR
    asked = ledger.inbox.arrivals(["full", "nothing"], ["demo"], since)
    assert asked == {"full": {NOON: 7, NOON - HOUR: 1}}
    assert ledger.inbox.arrivals(["full"], ["demo", "hidden"], NOON) == {"full": {NOON: 14}}


def test_arrivals_are_kept_for_eight_days(ledger: Ledger) -> None:
    book(ledger, "r1", NOON, arrivals={("full", NOON): 5, ("full", NOON - 9 * 24 * HOUR): 1})
    assert ledger.inbox.arrivals(["full"], ["demo"], NOON - 99 * 24 * HOUR) == {"full": {NOON: 5}}
    book(ledger, "r2", NOON + 9 * 24 * HOUR)

    assert ledger.inbox.arrivals(["full"], ["demo"], NOON) == {}


def change(kind: ChangeKind, minute: int, who: str = "ann", **values: Any) -> CauseChange:
    return CauseChange("full", NOON + timedelta(minutes=minute), who, kind, **values)


def test_of_two_changes_of_a_state_both_are_recorded_and_the_last_one_counts(
    ledger: Ledger,
) -> None:
    event = AuditEvent(NOON, AuditKind.CAUSE_CHANGED, "bob", "demo", details="resolved")
    taken = change(ChangeKind.ACKNOWLEDGED, 1)
    note = change(ChangeKind.NOTE, 2, value="known")
    resolved = change(ChangeKind.RESOLVED, 2, "bob", messages=4)
    ledger.cause_changes.add([taken])
    ledger.cause_changes.add([note, resolved], [event])

    assert ledger.cause_changes.of_cause("full") == [resolved, note, taken]
    assert ledger.cause_changes.last() == {"full": [note, resolved]}
    assert event in list(ledger.audit_trail.page(AuditFilter(what=AuditKind.CAUSE_CHANGED)))


def test_a_mute_ends_once_and_not_if_another_state_came_first(ledger: Ledger) -> None:
    ledger.cause_changes.add([change(ChangeKind.MUTED, 1, value="more 5")])
    ended = change(ChangeKind.MUTE_ENDED, 2, "mqdlq")

    assert [ledger.cause_changes.end_mute(ended) for _ in range(2)] == [True, False]
    assert ledger.cause_changes.of_cause("full")[0] == ended
