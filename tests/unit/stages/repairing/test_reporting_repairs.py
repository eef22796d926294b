"""Test that reports and the page of a run say what was repaired."""

from __future__ import annotations

import json

from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.report import read_report, render_json, render_text
from mqdlq.stages.report.controls.repairs import repair_in_words
from mqdlq.stages.run_reading.summary import summarize_run
from tests.support.world import World
from tests.unit.stages.repairing.approved_repairs import plan_repair


def test_a_report_counts_the_repaired_messages_by_their_changes(world: World) -> None:
    world.dead_letter(b"body", inner=(546, 37, "ORDERS"))
    world.dead_letter(b"longer", inner=(546, 37, "ORDERS"))
    world.dead_letter(b"closed", inner=(546, 37, "ORDERS"), dest_q="CLOSED")
    world.dead_letter(b"right", inner=(546, 1208, "MQSTR"))
    execution = plan_repair(world, {"format": "MQSTR", "coded_char_set_id": 1208})
    make_pass(execution)
    settle(execution)

    report = read_report(
        execution.run.run_id,
        ledger=world.ledger,
        lake_root=world.lake_root,
        stages={"execute": "success"},
        now=world.clock(),
    )

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
        "messages": 3,
        "delivered": 2,
    }
    summary = summarize_run(execution.run.run_id, world.ledger, world.lake_root)
    assert summary.repairs == report.repairs
