"""Test that reports and the page of a run say what was repaired."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mqdlq.controls.repair.changes import repair_in_words
from mqdlq.reading.report.building import Report, read_report, summarize_run
from mqdlq.reading.report.json_report import render_json
from mqdlq.reading.report.text_report import render_text
from mqdlq.stages.execute import Execution, make_pass, settle
from tests.support.world import World
from tests.unit.controls.repair.approved_repairs import plan_repair

pytestmark = pytest.mark.stages


def report_on(world: World, execution: Execution) -> Report:
    """Return the report of a run that has ended."""
    return read_report(
        execution.run.run_id,
        ledger=world.ledger,
        lake_root=world.lake_root,
        stages={"execute": "success"},
        now=world.clock(),
    )


def test_a_report_counts_the_repaired_messages_by_their_changes(world: World) -> None:
    world.dead_letter(b"body", inner=(546, 37, "ORDERS"))
    world.dead_letter(b"longer", inner=(546, 37, "ORDERS"))
    world.dead_letter(b"closed", inner=(546, 37, "ORDERS"), dest_q="CLOSED")
    world.dead_letter(b"right", inner=(546, 1208, "MQSTR"))
    execution = plan_repair(world, {"format": "MQSTR", "coded_char_set_id": 1208})
    make_pass(execution)
    settle(execution)

    report = report_on(world, execution)

    repaired, refused = map(repair_in_words, report.repairs)
    assert repaired == (
        "3 messages with Format: ORDERS → MQSTR, CodedCharSetId: 37 → 1208; body unchanged; 2"
        " delivered, originals in the archive; 1 not delivered"
    )
    assert refused == (
        "1 message not repaired: the repair changes nothing: Format MQSTR, CodedCharSetId 1208 and"
        " the destination are the same already"
    )
    assert "Repairs" in render_text(report)
    assert json.loads(render_json(report))["repairs"][0] == {
        "changes": "Format: ORDERS → MQSTR, CodedCharSetId: 37 → 1208",
        "refusal": "",
        "refusal_code": "",
        "messages": 3,
        "delivered": 2,
        "unknown": 0,
    }
    summary = summarize_run(execution.run.run_id, world.ledger, world.lake_root)
    assert summary.repairs == report.repairs


def test_a_report_does_not_call_a_message_undelivered_if_that_is_not_known(world: World) -> None:
    world.dead_letter(b"body", inner=(546, 37, "ORDERS"))
    execution = plan_repair(world, {"coded_char_set_id": 1208})
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    world.clear("MQDLQ.STATE")
    make_pass(execution)
    settle(execution)

    (row,) = report_on(world, execution).repairs

    changes = "CodedCharSetId: 37 → 1208"
    assert repair_in_words(row) == f"1 message with {changes}; body unchanged; 1 not known"


def test_a_dry_run_names_the_condition_that_the_snapshot_does_not_show(world: World) -> None:
    world.dead_letter(b"not a header", inner=(546, 37, "ORDERS"))
    execution = plan_repair(world, {"format": "MQHRF2"}, dry_run=True)
    settle(execution)

    (fact,) = world.ledger.outcomes.of_run(execution.run.run_id).values()
    assert fact.why.words == (
        "dry run; it would be repaired: Format: ORDERS → MQHRF2; body unchanged, 12 bytes; only if"
        " its data begin with a valid MQRFH2"
    )


@pytest.mark.parametrize(
    ("repair", "shown"),
    [
        ({"format": "MQSTR"}, r"1 message with Format: A\nB\x1b[1m → MQSTR; body unchanged; "),
        ({"coded_char_set_id": 37}, r"the repair changes nothing: Format A\nB\x1b[1m, "),
    ],
)
def test_control_characters_of_a_format_are_escaped(
    world: World, repair: dict[str, Any], shown: str
) -> None:
    world.dead_letter(b"body", inner=(546, 37, "A\nB\x1b[1m"))
    execution = plan_repair(world, repair)
    make_pass(execution)
    settle(execution)

    (row,) = report_on(world, execution).repairs

    assert shown in repair_in_words(row)
    (fact,) = world.ledger.outcomes.of_run(execution.run.run_id).values()
    assert r"A\nB\x1b[1m" in fact.why.words
    assert fact.why.words.isprintable()
