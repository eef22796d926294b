"""An old name in users' files works for one release, with a warning that names both."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from mqdlq import lake, renamed
from mqdlq.cli import app
from mqdlq.directories import PROJECT
from mqdlq.errors import HandlerError
from mqdlq.handlers import check_handler, load_handler
from mqdlq.handlers.operation import Event
from mqdlq.lake.schema import PLAN
from mqdlq.model import Disposition, PlannedMessage
from mqdlq.plan import plan_hash

OLD = """\
connection: mq
rules: a.rules
attempts: ledger
messages_in_a_unit: 4
approval: {discard: yes, within: PT1H}
alerts:
  notify:
    - notifier: some.Notifier
      on: [conservation, failed]
"""
TABLE = "INPUTQ(DLQ)\nACTION(IGNORE)\n"


@pytest.fixture(name="handler")
def _handler(tmp_path: Path) -> Path:
    (tmp_path / "a.rules").write_text(TABLE, encoding="utf-8")
    path = tmp_path / "old.yaml"
    path.write_text(OLD, encoding="utf-8")
    return path


def test_the_old_keys_of_a_handler_mean_what_they_meant(handler: Path) -> None:
    found = load_handler("old", handler.parent)

    assert (found.count_attempts, found.max_messages_per_unit) == ("across_runs", 4)
    assert found.approval.timeout.total_seconds() == 3600
    assert found.alerts.notify[0].events == (Event.UNACCOUNTED, Event.FAILED)


def test_each_old_name_is_a_warning_with_its_place_and_both_names(handler: Path) -> None:
    found = check_handler(handler, handler.read_bytes()).diagnostics

    assert [(d.severity, d.code, d.line, d.column) for d in found] == [
        ("warning", "renamed", *place)
        for place in ((3, 1), (3, 11), (4, 1), (5, 26), (9, 7), (9, 12))
    ]
    assert [d.message.partition(";")[0] for d in found] == [
        "attempts is now count_attempts",
        "ledger is now across_runs",
        "messages_in_a_unit is now max_messages_per_unit",
        "within is now timeout",
        "on is now events",
        "conservation is now unaccounted",
    ]
    assert found[0].message.endswith("; mqdlq 0.2.0 will no longer take attempts")


def test_a_run_logs_each_warning_once(handler: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mqdlq"):
        load_handler("old", handler.parent)
        load_handler("old", handler.parent)

    assert [f"{handler}:4:1: warning:" in text for text in caplog.messages].count(True) == 1


@pytest.mark.parametrize(
    "both",
    [
        "attempts: run\ncount_attempts: per_run\n",
        "approval: {timeout: PT1H, within: PT1H}\n",
    ],
)
def test_an_old_key_beside_its_new_name_is_an_error(tmp_path: Path, both: str) -> None:
    (tmp_path / "h.yaml").write_text(f"connection: mq\nrules: a.rules\n{both}", encoding="utf-8")

    with pytest.raises(HandlerError, match=r"until mqdlq 0\.2\.0: give .* only"):
        load_handler("h", tmp_path)


def test_an_old_option_works_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_LAKE", str(tmp_path))

    found = CliRunner().invoke(app, ["rules", "suggest", "--since", "1d", "--park=A.QUEUE"])
    both = ["rules", "suggest", "--since", "1d", "--park", "A", "--parking-queue", "B"]
    refused = CliRunner().invoke(app, both)

    assert found.stderr.startswith(
        "mqdlq: warning: --park is now --parking-queue; mqdlq 0.2.0 will no longer take --park\n"
    )
    assert "No such option" not in found.stderr
    assert refused.exit_code == 2
    assert "--park is the old name of --parking-queue: give --parking-queue only" in refused.stderr


def test_a_plan_with_an_old_disposition_is_read_and_keeps_its_hash(tmp_path: Path) -> None:
    rows = [
        {"browse_seq": 1, "message_key": bytes(32), "disposition": "no_rule"},
        {"browse_seq": 2, "message_key": bytes([1]) * 32, "disposition": "unprocessable"},
    ]
    whole = [row | {"queue_manager": "QM1", "queue": "DLQ", "steps": []} for row in rows]
    pq.write_table(pa.Table.from_pylist(whole, schema=PLAN), tmp_path / "part-00000.parquet")
    hash_before = "78e9ed3f2662650a625fb60ff40f70f0fccdff490003a8248805a1c190e25941"
    description = {
        "plan_id": "p",
        "plan_hash": hash_before,
        "snapshot_ids": ["s"],
        "rules_digest": "",
        "messages": 2,
        "dispositions": {"planned": 0, "no_rule": 1, "unprocessable": 1},
        "counts": [],
        "schema_version": 1,
    }
    (tmp_path / "_PLAN.json").write_text(json.dumps(description), encoding="utf-8")

    found = list(lake.planned_messages(str(tmp_path)))

    first = PlannedMessage(1, bytes(32), "QM1", "DLQ", Disposition.UNMATCHED, ())
    assert found[0] == first
    assert plan_hash(found) == lake.read_plan(str(tmp_path)).plan_hash == hash_before
    assert lake.read_plan(str(tmp_path)).dispositions == {
        "planned": 0,
        "unmatched": 1,
        "unprocessable": 1,
    }


def test_the_changelog_lists_every_old_name_with_its_new_one() -> None:
    lines = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    pairs = {**renamed.OPTIONS, **renamed.STORED, **renamed.MANIFEST}
    pairs |= {old.rpartition(".")[2]: new for old, new in renamed.KEYS.items()}
    for choices in renamed.CHOICES.values():
        pairs |= choices

    missing = {
        old: new
        for old, new in pairs.items()
        if not any(f"`{old}`" in line and f"`{new}`" in line for line in lines)
    }

    assert not missing
