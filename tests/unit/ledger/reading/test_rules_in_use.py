"""The rules tables of a handler: from when to when, and what each rule did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.reading.rules import TablePeriod
from mqdlq.ledger.tables import Ending, Prune, RecordedVerdict, Sighting, TakenSnapshot
from mqdlq.model import GIVEN_ACTION, AttemptState, Outcome
from tests.unit.ledger.test_ledger import NOON, accept, attempt, outcome, run

OLD, NEW = "a" * 64, "b" * 64
VERDICT = RecordedVerdict("ok", "", "", 2, True, 0, NOON)


def at(hours: int) -> datetime:
    return NOON + timedelta(hours=hours)


@pytest.fixture(name="ledger")
def _ledger(ledger_url: str) -> Iterator[Ledger]:
    """Yield a ledger with five runs: two by the old table, two by the new one, one by the old."""
    with open_ledger(ledger_url) as ledger:
        for hour, digest in enumerate([OLD, OLD, NEW, NEW, OLD]):
            ledger.runs.record(run(f"r{hour}", rules_digest=digest, started_at=at(hour)))
            if hour:
                ledger.snapshots.record(
                    TakenSnapshot(f"r{hour}", f"s{hour}", "lake", hour, at(hour))
                )
        given = run("named", rules_digest=NEW, rules_source=GIVEN_ACTION, started_at=at(1))
        ledger.runs.record(given)
        ledger.runs.record(run("other", handler="other", rules_digest=NEW, started_at=at(1)))
        yield ledger


def report(ledger: Ledger, run_id: str, counted: dict[tuple[int, Outcome], int]) -> None:
    rows = {Ending(rule, "RETRY", "Q", "", how): number for (rule, how), number in counted.items()}
    ledger.accounts.record_verdict(run_id, VERDICT, rows)


def test_a_table_that_comes_back_has_two_periods(ledger: Ledger) -> None:
    periods = ledger.rules_in_use.periods("demo")

    assert periods == [
        TablePeriod(OLD, "demo.rules", "r4", "r4", at(4), at(4), 1),
        TablePeriod(NEW, "demo.rules", "r2", "r3", at(2), at(3), 2),
        TablePeriod(OLD, "demo.rules", "r0", "r1", at(0), at(1), 2),
    ]
    assert [(one.first_run, one.last_run) for one in periods[1:]] == [("r2", "r3"), ("r0", "r1")]
    assert ledger.rules_in_use.periods("demo", limit=1) == periods[:1]
    assert ledger.rules_in_use.periods("nobody") == []


def test_the_newest_run_of_a_table_is_found(ledger: Ledger) -> None:
    newest = ledger.rules_in_use.newest_run

    assert [newest("demo"), newest("demo", NEW), newest("demo", "c" * 64)] == ["r4", "r3", ""]


def test_the_use_of_rules_is_that_of_the_last_reports(ledger: Ledger) -> None:
    report(ledger, "r2", {(1, Outcome.DELIVERED): 9})
    report(ledger, "r2", {(1, Outcome.DELIVERED): 1, (0, Outcome.UNMATCHED): 1})
    report(ledger, "r1", {(1, Outcome.DELIVERED): 5})

    assert ledger.rules_in_use.uses("demo", NEW) == [
        ("r2", at(2), 0, Outcome.UNMATCHED, 1),
        ("r2", at(2), 1, Outcome.DELIVERED, 1),
    ]
    counted = ledger.rules_in_use.counted("demo", NEW)
    assert counted == {
        "counted": 1,
        "without_report": 1,
        "messages": 2,
        "first_at": at(2),
        "last_at": at(2),
    }


def test_nothing_is_counted_of_a_table_that_no_run_has_read(ledger: Ledger) -> None:
    counted = ledger.rules_in_use.counted("demo", "c" * 64)

    assert counted == {
        "counted": 0,
        "without_report": 0,
        "messages": 0,
        "first_at": None,
        "last_at": None,
    }


def test_the_use_of_rules_includes_pruned_runs(ledger: Ledger) -> None:
    (message_id,) = accept(ledger, run("gone", rules_digest=OLD, started_at=at(-9)), b"g" * 32)
    ledger.outcomes.add("gone", [outcome(message_id)])
    for run_id, hour in (("gone", -9), ("r4", 4)):  # the last account of a queue is kept
        ledger.accounts.record(run_id, Sighting(0, 0, 0, 0, at(hour)))
    prune = ledger.prunes.begin(Prune("demo", "policy", "dan", at(9)))
    assert ledger.prunes.intend_runs(prune, ["gone"], at(9)) == ["gone"]
    ledger.prunes.erase("gone")

    assert ledger.rules_in_use.uses("demo", OLD) == [("gone", at(-9), 1, Outcome.DELIVERED, 1)]


def test_the_newest_runs_have_a_limited_number_of_messages(ledger: Ledger) -> None:
    chosen = ledger.rules_in_use.newest_runs

    assert chosen("demo", NEW, 5) == ["r3", "r2"]
    assert chosen("demo", NEW, 4) == ["r3"]
    assert chosen("demo", NEW, 0) == ["r3"]


def test_attempts_that_succeeded_or_failed_are_counted_by_rule(ledger: Ledger) -> None:
    first, second = accept(ledger, run("tried", rules_digest=NEW), b"1" * 32, b"2" * 32)
    made = [attempt(first, run_id="tried"), attempt(second, run_id="tried", unit="u2")]
    ledger.attempts.add(made)
    ledger.attempts.add(
        [
            replace(made[0], state=AttemptState.CONFIRMED),
            replace(made[1], state=AttemptState.FAILED, mqrc=2053),
        ]
    )

    assert ledger.rules_in_use.attempts(["tried", "r2"]) == {
        (1, AttemptState.CONFIRMED, 0): 1,
        (1, AttemptState.FAILED, 2053): 1,
    }
