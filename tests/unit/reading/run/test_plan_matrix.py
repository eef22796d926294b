"""A plan is laid out by rule, action and target, beside what the rules did."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from mqdlq.lake import PlanDescription, StepCount, finish_plan, plan_directory, start_plan
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import AcceptedPlan
from mqdlq.model import Outcome
from mqdlq.reading.report.building import summarize_run
from mqdlq.reading.run import MANY_TARGETS, PlanMatrix, plan_matrix
from tests.unit.reading.report.ended_runs import (
    RULES,
    EndedRun,
    delivered,
    discarded,
    exhausted,
    unmatched,
)

PLAN: Final = "20261121T024925Z-5eed-3f9a0b12c4d5"
LETTERS = [delivered(), delivered(), exhausted(outcome=Outcome.DELIVERED), discarded(), unmatched()]
COUNTS = (
    StepCount(1, "RETRY", "PAYMENTS.IN", "", 4, 2),
    StepCount(2, "RETRY", "PAYMENTS.HELD", "", 6, 1),
    StepCount(3, "FWD", MANY_TARGETS, "", 8, 0),
    StepCount(4, "DISCARD", "", "", 9, 1),
)


def write_plan(lake_root: str, *counts: StepCount, plan_id: str = PLAN) -> str:
    directory = plan_directory(lake_root, plan_id)
    start_plan(directory)
    planned = sum(count.messages for count in counts)
    dispositions = {"planned": planned, "unmatched": 1}
    finish_plan(
        directory,
        PlanDescription(plan_id, "9c" * 32, ("s",), "d", planned + 1, dispositions, counts),
    )
    return directory


def matrix_of(ledger: Ledger, lake_root: str, run: EndedRun) -> PlanMatrix:
    run_id = run.record(ledger, lake_root)
    summary = summarize_run(run_id, ledger, lake_root)
    return plan_matrix(summary.sources, summary.rules, ledger, lake_root)


def test_each_rule_has_its_planned_messages_and_its_outcomes(
    ledger: Ledger, lake_root: str
) -> None:
    write_plan(lake_root, *COUNTS)

    matrix = matrix_of(ledger, lake_root, EndedRun(LETTERS, seen=1))

    assert [
        (row.rule, row.line, row.target_q, row.planned, row.outcomes) for row in matrix.rows
    ] == [
        (1, 4, "PAYMENTS.IN", 2, {Outcome.DELIVERED: 2}),
        (2, 6, "PAYMENTS.HELD", 1, {Outcome.DELIVERED: 1}),
        (3, 8, MANY_TARGETS, 0, {}),
        (4, 9, "", 1, {Outcome.DISCARDED: 1}),
    ]
    assert [row.has_many_targets for row in matrix.rows] == [False, False, True, False]
    assert [row.rule for row in matrix.discards] == [4]
    assert (matrix.before, matrix.changes, matrix.trouble) == ("", (), "")


def test_the_largest_changes_against_the_run_before_come_first(
    ledger: Ledger, lake_root: str
) -> None:
    # Another table: the same rules at other places, and one that is gone.
    rules = "RETRYINT(5)\nDESTQ(GONE) ACTION(IGNORE)\n" + RULES.split("\n", 2)[2]
    earlier = EndedRun([unmatched()], run_id="demo-1", rules=rules)
    earlier.record(ledger, lake_root)
    run = ledger.runs.get("demo-1")
    assert run is not None
    before = replace(run, run_id="demo-0", started_at=run.started_at - timedelta(hours=1))
    ledger.runs.record(before)
    location = write_plan(
        lake_root,
        StepCount(1, "IGNORE", "", "", 2, 7),
        StepCount(2, "RETRY", "PAYMENTS.IN", "", 4, 5),
        plan_id="before",
    )
    plan = AcceptedPlan("demo-0", "before", "h", location, before.started_at)
    ledger.plans.record(before, plan, [])
    write_plan(lake_root, *COUNTS)

    matrix = matrix_of(ledger, lake_root, EndedRun(LETTERS, seen=1))

    assert matrix.before == "demo-0"
    assert [(row.text, row.before, row.planned, row.change) for row in matrix.changes] == [
        ("DESTQ(GONE) ACTION(IGNORE)", 7, 0, -7),
        ("REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)", 5, 2, -3),
        (matrix.rows[1].text, 0, 1, 1),
        ("DESTQ(QUOTES.STALE) ACTION(DISCARD)", 0, 1, 1),
    ]


def test_without_a_plan_the_matrix_has_what_the_rules_did(ledger: Ledger, lake_root: str) -> None:
    matrix = matrix_of(ledger, lake_root, EndedRun(LETTERS, seen=1))

    assert matrix.description is None
    assert matrix.trouble == f"the lake no longer has the plan {PLAN}"
    assert [(row.rule, row.planned, row.before) for row in matrix.rows] == [
        (1, 0, None),
        (2, 0, None),
        (4, 0, None),
    ]


def test_a_run_that_made_no_plan_says_so(ledger: Ledger, lake_root: str) -> None:
    matrix = matrix_of(ledger, lake_root, EndedRun(LETTERS, plan=False))

    assert (matrix.rows, matrix.trouble) == ((), "no plan was made")


def test_a_plan_that_cannot_be_read_is_named(ledger: Ledger, lake_root: str) -> None:
    (Path(write_plan(lake_root, *COUNTS)) / "_PLAN.json").write_text("{")

    matrix = matrix_of(ledger, lake_root, EndedRun(LETTERS, seen=1))

    assert matrix.trouble.startswith(f"the plan {PLAN} cannot be read: ")
