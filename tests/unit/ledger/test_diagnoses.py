"""Test the diagnoses that the ledger keeps, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.inbox import DIAGNOSES_KEPT
from mqdlq.ledger.tables import KnownDiagnosis
from tests.support.run_records import NOON, run_record

ONE = KnownDiagnosis("demo", "QM1", "DLQ", "1a2b3c4d5e6f", NOON, NOON, "{}")
MINUTE = timedelta(minutes=1)


@pytest.fixture(name="ledger")
def _ledger(ledger_url: str) -> Iterator[Ledger]:
    with open_ledger(ledger_url) as ledger:
        yield ledger


def of_cause(ledger: Ledger) -> list[KnownDiagnosis]:
    return ledger.diagnoses.of_cause("demo", "QM1", "DLQ", ONE.cause_id)


def test_a_diagnosis_that_finds_the_same_extends_the_time_of_the_last_one(ledger: Ledger) -> None:
    ledger.diagnoses.keep(ONE, extends_last=False)
    later = replace(ONE, first_at=NOON + MINUTE, last_at=NOON + MINUTE)

    ledger.diagnoses.keep(later, extends_last=True)

    assert of_cause(ledger) == [replace(later, first_at=NOON)]


def test_the_last_diagnoses_of_a_cause_on_a_queue_are_kept(ledger: Ledger) -> None:
    others = [
        replace(ONE, queue="OTHER"),
        replace(ONE, handler="other"),
        replace(ONE, cause_id="0"),
    ]
    for one in others:
        ledger.diagnoses.keep(one, extends_last=False)
    for number in range(DIAGNOSES_KEPT + 2):
        ledger.diagnoses.keep(replace(ONE, found=f"{number}"), extends_last=False)

    found = of_cause(ledger)

    assert [one.found for one in found] == [
        f"{number}" for number in reversed(range(2, DIAGNOSES_KEPT + 2))
    ]
    assert ledger.diagnoses.of_cause("demo", "QM1", "OTHER", ONE.cause_id) == others[:1]


def test_a_run_has_the_diagnoses_on_its_queue_since_it_began(ledger: Ledger) -> None:
    run = run_record(started_at=NOON)
    before = replace(ONE, first_at=NOON - MINUTE, last_at=NOON - MINUTE)
    elsewhere = replace(ONE, queue="OTHER", cause_id="2")
    for one in (replace(before, cause_id="1"), elsewhere, ONE):
        ledger.diagnoses.keep(one, extends_last=False)

    assert ledger.diagnoses.since_start(run) == [ONE]
