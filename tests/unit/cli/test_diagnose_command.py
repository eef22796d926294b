"""Test `mqdlq diagnose`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqdlq.causes import find_cause
from mqdlq.cli import app, diagnose
from mqdlq.lake import whole_rows
from mqdlq.reading.report.building import control_lines, summarize_run
from mqdlq.stages.diagnosing import diagnose_run
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.diagnosed import without_alteration
from tests.support.world import World

pytestmark = pytest.mark.stages

FULL = find_cause("dead_letter", 2053, "ORDERS", "QM1").cause_id
CLOSED = find_cause("dead_letter", 2051, "CLOSED", "QM1").cause_id


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Provide a handler `test` whose last run has left messages for a full and a closed queue."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path / "rules"))
    world = World(tmp_path, client="ibmmq")
    monkeypatch.setenv("MQDLQ_LEDGER_URL", world.ledger_url)
    monkeypatch.setattr(diagnose, "now", world.clock)
    monkeypatch.setattr(diagnose, "read_settings", lambda _: world.settings)
    with world.ledger:
        world.mqsc("ALTER QLOCAL(ORDERS) MAXDEPTH(0)")
        for number in range(2):
            world.dead_letter(b"%d" % number, dest_q="ORDERS")
        world.dead_letter(b"2", dest_q="CLOSED", reason=2051)
        world.handle("WAIT(NO)\nACTION(RETRY) RETRY(1)")
        (tmp_path / "rules" / "test.yaml").write_text("connection: mq\nrules: test.rules\n")
        yield world


def mqdlq(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["diagnose", "test", *arguments])


def test_the_largest_causes_are_diagnosed_with_commands_and_inquiries(world: World) -> None:
    done = mqdlq()

    assert done.exit_code == 0, done.output
    assert without_alteration(done.output) == (
        f"DLQ @ QM1, snapshot {world.recorded_snapshot('run-1').snapshot_id}\n"
        "\n"
        f"MQRC_Q_FULL (2053) for ORDERS @ QM1: 2 messages [{FULL}]\n"
        "  a put would be refused now\n"
        "  - ORDERS holds 0 of 0 messages (MAXDEPTH); nobody has it open for input\n"
        "      * Lets ORDERS hold 1,000 messages instead of 0; it starts no reader.\n"
        "      ALTER QLOCAL('ORDERS') MAXDEPTH(1000)\n"
        "    12:00:00 MQCMD_INQUIRE_Q ORDERS: 1 response, 0 ms\n"
        "    12:00:00 MQCMD_INQUIRE_Q_STATUS ORDERS: 1 response, 0 ms\n"
        "\n"
        f"MQRC_PUT_INHIBITED (2051) for CLOSED @ QM1: 1 message [{CLOSED}]\n"
        "  a put would be refused now\n"
        "  - CLOSED has PUT(DISABLED)\n"
        "      * Allows puts to CLOSED again.\n"
        "      ALTER QLOCAL('CLOSED') PUT(ENABLED)\n"
        "    12:00:00 MQCMD_INQUIRE_Q CLOSED: 1 response, 0 ms\n"
    )


def test_the_next_diagnosis_says_what_differs(world: World) -> None:
    assert mqdlq("--cause", FULL[:6]).exit_code == 0
    world.mqsc("ALTER QLOCAL(ORDERS) MAXDEPTH(9)")
    world.clock.sleep(60)

    done = mqdlq("--cause", FULL, "--format", "json")

    (found,) = json.loads(done.output)
    assert (found["outlook"], found["messages"]) == ("cleared", 2)
    (changed,) = found["changed"]
    assert changed.startswith("queue ORDERS: MAXDEPTH 0 → 9")
    assert "since 2026-11-21 12:00:00 UTC" not in mqdlq("--cause", FULL).output
    kept = world.ledger.diagnoses.of_cause("test", "QM1", "DLQ", FULL)
    assert [(one.first_at, one.last_at) for one in kept] == [
        (world.clock.now, world.clock.now),
        (world.clock.now - timedelta(minutes=1), world.clock.now - timedelta(minutes=1)),
    ]


def test_one_message_is_diagnosed_and_nothing_is_kept(world: World) -> None:
    (key, *_) = [row["message_key"].hex() for row in _rows(world)]

    done = mqdlq("--message", key[:20], "--format", "json")

    (found,) = json.loads(done.output)
    assert (found["messages"], found["cause_id"]) == (1, FULL)
    assert world.ledger.diagnoses.of_cause("test", "QM1", "DLQ", FULL) == []


def test_a_cause_that_no_message_has_is_named(world: World) -> None:
    snapshot = world.recorded_snapshot("run-1").snapshot_id

    done = mqdlq("--cause", "abc", "--message", "00")

    assert done.exit_code == 2
    assert done.output == (
        f"mqdlq: snapshot {snapshot} of test has no message with cause 'abc' and key '00'\n"
    )


def test_a_report_has_what_was_diagnosed_since_its_run_began(world: World) -> None:
    run = world.ledger.runs.get("run-1")
    assert run is not None
    record_causes(run, ledger=world.ledger)

    diagnose_run(run, world.settings, world.ledger, world.clock)

    said = dict(control_lines(summarize_run("run-1", world.ledger, world.lake_root)))
    assert list(map(without_alteration, said["Diagnosis"])) == [
        (
            "MQRC_Q_FULL (2053) for ORDERS @ QM1, 2026-11-21 12:00:00 UTC: a put would be refused"
            " now: ORDERS holds 0 of 0 messages (MAXDEPTH); nobody has it open for input; ALTER"
            " QLOCAL('ORDERS') MAXDEPTH(1000)"
        ),
        (
            "MQRC_PUT_INHIBITED (2051) for CLOSED @ QM1, 2026-11-21 12:00:00 UTC: a put would be"
            " refused now: CLOSED has PUT(DISABLED); ALTER QLOCAL('CLOSED') PUT(ENABLED)"
        ),
    ]


def _rows(world: World) -> list[dict[str, bytes]]:
    location = world.recorded_snapshot("run-1").location
    return list(whole_rows(location, ["message_key"]))
