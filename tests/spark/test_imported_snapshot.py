"""A snapshot made of a dump is evaluated in Spark like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqdlq import lake
from mqdlq.cli import app
from mqdlq.evaluation.evaluate import evaluate
from mqdlq.headers import DeadLetterHeader, MessageDescriptor
from mqdlq.lake import StepCount
from tests.support.wire.pasted_messages import print_amqsbcg

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

MD = MessageDescriptor(format="MQDEAD", encoding=785, coded_char_set_id=1047)
LETTERS = [
    (MD, DeadLetterHeader(2053, queue).encode(encoding=785, ccsid=1047))
    for queue in ("PAYMENTS", "ORDERS", "PAYMENTS")
]


def test_a_plan_is_made_of_an_imported_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_LAKE", str(tmp_path))
    rules = tmp_path / "rehearsed.rules"
    rules.write_text("DESTQ(PAY*) ACTION(FWD) FWDQ(PARKED)\n")
    dump = tmp_path / "dump.txt"
    dump.write_text(print_amqsbcg([*LETTERS, (MessageDescriptor(), b"stray")]))
    options = ["--queue-manager", "QM1", "--queue", "DLQ", "--rules", str(rules)]

    made = CliRunner().invoke(app, ["snapshots", "import", *options, "--format", "json", str(dump)])
    directory = json.loads(made.stdout)["directory"]
    plan = evaluate(directory, plan=lake.plan_directory(str(tmp_path), "rehearsal"))

    assert plan.dispositions == {"planned": 2, "unmatched": 1, "unprocessable": 1}
    assert plan.counts == (StepCount(1, "FWD", "PARKED", "", 1, 2),)
