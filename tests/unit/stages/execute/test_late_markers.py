"""Test that a marker that appears after its run was settled updates the ledger."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pyarrow.parquet as pq
import pytest

from mqdlq.ledger.tables import LearnedCount
from mqdlq.model import Outcome
from mqdlq.reading.outcome_files import export_outcomes
from mqdlq.reading.report.building import read_report
from mqdlq.reading.report.html_report import render_html
from mqdlq.reading.report.json_report import render_json
from mqdlq.reading.report.text_report import render_text
from mqdlq.stages.execute import Execution, make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.slow

TWIN = b"t" * 24


def lost(world: World, rules: str = "ACTION(RETRY)") -> tuple[Execution, Callable[[], None]]:
    """Settle a run while its unit's marker is hidden; return the run and a function to show it."""
    execution = world.plan(rules)
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    ((md, marker),) = world.messages("MQDLQ.STATE")
    world.mqsc("CLEAR QLOCAL(MQDLQ.STATE)")
    make_pass(execution)
    assert settle(execution) == {Outcome.UNKNOWN: 1}
    world.clock.sleep(60)
    return execution, lambda: world.put("MQDLQ.STATE", marker, MsgId=md.MsgId)


def report(world: World, run_id: str) -> tuple[str, str, str]:
    """Return a run's report as text, HTML and JSON."""
    found = read_report(
        run_id,
        ledger=world.ledger,
        lake_root=world.lake_root,
        stages={},
        now=world.clock.now + timedelta(seconds=1),
    )
    return render_text(found), render_html(found), render_json(found)


def test_a_late_marker_informs_a_later_run_and_keeps_the_old_outcome(world: World) -> None:
    world.dead_letter()
    first, show = lost(world)
    show()
    world.dead_letter(b"another")

    outcomes = world.handle("ACTION(RETRY)")

    assert outcomes == {1: "delivered"}
    assert world.outcomes(first.run) == {1: "unknown"}
    assert world.ledger.outcomes.corrected("run-1") == {1}
    told = LearnedCount("run-1", "run-2", Outcome.DELIVERED, "PAYMENTS", "QM1", 1)
    assert world.ledger.outcomes.learned_counts("run-2") == [told]
    assert world.ledger.outcomes.learned_counts("run-1") == [told]
    assert world.depths("MQDLQ.STATE") == (1,)  # the late marker was cleared


def test_the_report_of_the_later_run_names_the_result(world: World) -> None:
    world.dead_letter()
    _, show = lost(world)
    show()
    world.dead_letter(b"another")
    world.handle("ACTION(RETRY)")

    sentence = (
        "1 message of run run-1, booked as unknown, is now known: delivered to PAYMENTS @ QM1."
    )
    text, html, document = report(world, "run-2")
    assert sentence in " ".join(text.split())
    assert sentence in html
    assert '"of_run": "run-1"' in document


def test_the_earlier_report_no_longer_lists_the_message_under_needs_attention(world: World) -> None:
    world.dead_letter()
    _, show = lost(world)
    assert "NEEDS ATTENTION" in report(world, "run-1")[0]
    show()
    world.dead_letter(b"another")
    world.handle("ACTION(RETRY)")

    text, html, _ = report(world, "run-1")

    sentence = (
        "1 message, booked as unknown, is known since run run-2: delivered to PAYMENTS @ QM1."
    )
    assert sentence in " ".join(text.split())
    assert sentence in html
    assert "NEEDS ATTENTION" not in text
    assert "1 in the snapshot = 1 unknown" in text  # recorded outcomes stay


def test_an_equal_message_that_arrives_later_is_new(world: World) -> None:
    """The first message departed, so an equal message begins a new residence."""
    world.dead_letter(b"same", MsgId=TWIN)
    _, show = lost(world)
    show()
    world.dead_letter(b"another")
    world.handle("ACTION(RETRY)")
    world.dead_letter(b"same", MsgId=TWIN)

    execution = world.plan("ACTION(RETRY)")

    (message,) = world.ledger.messages.of_run(execution.run.run_id)
    assert (message.residence, message.message_id) == (1, 3)


def test_a_run_with_a_plan_older_than_the_proof_skips_the_message(world: World) -> None:
    """The plan took a new, equal message for the message in doubt."""
    world.dead_letter(b"same", MsgId=TWIN)
    _, show = lost(world)
    world.dead_letter(b"same", MsgId=TWIN)
    later = world.plan("ACTION(RETRY)")
    show()

    make_pass(later)

    assert settle(later) == {Outcome.LEASED_BY_RUN: 1}
    assert world.ledger.messages.departed_elsewhere("run-2") == {1: "run-1"}
    assert world.bodies("DLQ")[0].endswith(b"same")
    assert world.handle("ACTION(RETRY)") == {1: "delivered"}
    assert world.bodies("PAYMENTS") == [b"same", b"same"]


def test_a_late_marker_informs_every_run_in_doubt(world: World) -> None:
    world.dead_letter(b"same", MsgId=TWIN)
    _, show = lost(world)
    world.dead_letter(b"same", MsgId=TWIN)
    second = world.plan("ACTION(RETRY)")
    world.lose_first()
    make_pass(second)
    assert settle(second) == {Outcome.UNKNOWN: 1}
    show()
    world.dead_letter(b"another")

    world.handle("ACTION(RETRY)")

    assert [count.of_run for count in world.ledger.outcomes.learned_counts("run-3")] == [
        "run-1",
        "run-2",
    ]


def test_the_history_counts_a_late_proven_message_as_delivered(world: World) -> None:
    world.dead_letter()
    _, show = lost(world)
    show()
    world.dead_letter(b"another")
    world.handle("ACTION(RETRY)")

    export_outcomes(world.ledger, str(world.directory))

    rows = pq.read_table(world.directory / "outcomes.parquet").to_pylist()
    assert [(row["run_id"], row["outcome"]) for row in rows] == [
        ("run-1", "delivered"),
        ("run-2", "delivered"),
    ]
