"""Test the text, JSON and errors of `mqdlq restore`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app
from mqdlq.local import foreground
from tests.support.restorations import DISCARD, discard, restore_and_count
from tests.support.world import World

pytestmark = pytest.mark.slow

TEN_HOURS = 360_300  # in tenths of a second, and half a minute more: messages do expire here


def said(world: World, *arguments: str) -> Result:
    environment = {"MQDLQ_HOME": str(world.directory), "COLUMNS": "100"}
    return CliRunner().invoke(app, ["restore", *arguments], env=environment)


def as_json(world: World, *arguments: str) -> list[dict[str, Any]]:
    shown = said(world, "list", "--format", "json", *arguments)
    assert shown.exit_code == 0, shown.output
    found: list[dict[str, Any]] = json.loads(shown.stdout)["archived"]
    return found


def lines(shown: Result) -> list[str]:
    return [line.rstrip() for line in shown.output.splitlines()]


def test_equal_messages_are_listed_together_with_their_state(world: World) -> None:
    discard(world, b"one", b"two", Expiry=TEN_HOURS)
    world.dead_letter(b"three", dest_q="ORDERS", reason=2085)
    world.handle(f"WAIT(NO)\nDESTQ(ORDERS) {DISCARD}")
    restore_and_count(world, run_id="run-1", to_queue="PARKED")
    world.dead_letter(b"four")
    world.interrupted_pass(world.plan(DISCARD), "MQPUT1[MQDLQ.STATE]:1:2195:before")

    assert lines(said(world, "list", "--queue", "DLQ", "--handler", "test")) == [
        "run-3",
        "archived 2026-11-21 12:00:00 UTC from DLQ @ QM1, 1 message",
        "1  MQRC_Q_FULL (2053) for PAYMENTS @ QM1",
        "   176 bytes, expiry unlimited: provisional",
        "",
        "run-2",
        "archived 2026-11-21 12:00:00 UTC from DLQ @ QM1, 1 message",
        "1  MQRC_UNKNOWN_OBJECT_NAME (2085) for ORDERS @ QM1, discarded by rule 1 (line 2)",
        "   177 bytes, expiry unlimited: can be restored",
        "",
        "run-1",
        "archived 2026-11-21 12:00:00 UTC from DLQ @ QM1, 2 messages",
        "2  MQRC_Q_FULL (2053) for PAYMENTS @ QM1, discarded by rule 1 (line 1)",
        (
            "   350 bytes, expiry left 10 h 0 min or more: restored to PARKED at 2026-11-21"
            " 12:00:00 UTC"
        ),
        "",
    ]
    assert lines(said(world, "list", "--reason", "2085", "--each"))[2:4] == [
        f"  {as_json(world, '--reason', 'MQRC_UNKNOWN_OBJECT_NAME')[0]['message_key']}",
        "  MQRC_UNKNOWN_OBJECT_NAME (2085) for ORDERS @ QM1, discarded by rule 1 (line 2)",
    ]
    assert "and 3 messages more: --most N shows N" in said(world, "list", "--most", "1").output
    assert said(world, "list", "--queue", "OTHER").output == "nothing is archived that fits\n"


def test_the_json_list_has_every_archived_message(world: World) -> None:
    discard(world, b"body", Expiry=TEN_HOURS)
    (copy,) = world.ledger.archive.copies()
    key = copy.message_key.hex()

    (found,) = as_json(world, "--message", key, "--run", "run-1", "--queue-manager", "QM1")

    assert 36_000 < found.pop("expiry_left_s") <= 36_030
    assert found == {
        "message_key": key,
        "run": "run-1",
        "handler": "test",
        "queue_manager": "QM1",
        "queue": "DLQ",
        "archived_at": "2026-11-21T12:00:00+00:00",
        "discarded_at": "2026-11-21T12:00:00+00:00",
        "delivered_repaired_at": None,
        "rule": 1,
        "rule_line": 1,
        "destination_queue": "PAYMENTS",
        "destination_queue_manager": "QM1",
        "reason": 2053,
        "reason_text": "MQRC_Q_FULL (2053)",
        "bytes": 176,
        "state": "can be restored",
        "why": None,
        "why_code": None,
        "restoration": None,
        "restored_at": None,
        "location": copy.location,
    }


def test_a_missing_copy_is_listed_as_unusable(world: World) -> None:
    discard(world, b"body")
    file = Path(world.ledger.archive.copies()[0].location)
    file.unlink()

    (found,) = as_json(world)

    assert (found["state"], found["reason"], found["bytes"]) == ("unusable", None, None)
    assert found["why"] == f"its copy is missing: {file} is not there"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("list", "--message", "1x"),
            (
                "mqdlq: '1x' is not a message_key; expected 64 hexadecimal digits, or the first of"
                " them [MQDLQ-271]"
            ),
        ),
        (
            ("list", "--reason", "MQRC_X"),
            (
                "mqdlq: --reason: MQRC_X is not a reason code; expected MQRC_Q_FULL or 2053"
                " [MQDLQ-909]"
            ),
        ),
        (("run", "demo"), "mqdlq: say what to restore: --run, --message, or both"),
    ],
)
def test_an_invalid_selection_is_refused(
    world: World, arguments: tuple[str, ...], text: str
) -> None:
    refused = said(world, *arguments)

    assert (refused.exit_code, refused.stderr) == (2, f"{text}\n")


@pytest.mark.parametrize("option", ["--handler", "--run", "--queue-manager", "--queue"])
def test_copies_of_others_are_left_out_of_the_list(world: World, option: str) -> None:
    discard(world, b"one")

    assert said(world, "list", option, "OTHER").output == "nothing is archived that fits\n"


def test_a_restoration_becomes_a_run_of_the_dag(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(world.directory))
    (world.directory / "night.rules").write_text("ACTION(IGNORE)\n")
    (world.directory / "night.yaml").write_text("connection: mq\nrules: night.rules\n")
    runs: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(foreground, "run", lambda *given: runs.append(given))

    given = ("--run", "r1", "--message", "ab" * 32, "--reason", "2053", "--to-queue", "Q")
    more = ("--to-queue-manager", "QM2", "--why", "ticket 4711")
    said(world, "run", "night", *given, *more, "--no-header", "--again", "--dry-run")
    refused = said(world, "run", "day")

    ((name, conf),) = runs
    assert name == "restore"
    assert conf == {
        "handler": "night",
        "header": False,
        "run": "r1",
        "message_keys": ["ab" * 32],
        "reason": "2053",
        "to_queue": "Q",
        "to_queue_manager": "QM2",
        "again": True,
        "why": "ticket 4711",
        "dry_run": True,
    }
    assert refused.exit_code == 2
    assert refused.stderr.endswith("day.yaml: no such handler; configured are: night [MQDLQ-303]\n")
