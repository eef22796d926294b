"""Alerts and notes keep quiet about muted causes, say so, and speak again when a mute ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq.causes import find_cause
from mqdlq.handlers.operation import Alerts
from mqdlq.ledger.tables import CauseChange
from mqdlq.model import ChangeKind
from mqdlq.reading.alerts import Alert, alerts_of
from mqdlq.reading.report.files import ReportFiles, write_report
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.world import NOON, World

pytestmark = pytest.mark.stages

RULES = "WAIT(NO)\nREASON(MQRC_Q_FULL) ACTION(RETRY)\n"
LOST = find_cause("dead_letter", 2085, "ELSEWHERE", "QM1").cause_id
STRAY = find_cause("no_dlh", 0, "", "").cause_id


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    with (world := World(tmp_path)).ledger:
        yield world


def mute(world: World, cause_id: str, value: str, messages: int = 0) -> None:
    change = CauseChange(cause_id, world.clock(), "ann", ChangeKind.MUTED, value, messages)
    world.ledger.cause_changes.add([change])


def ended(world: World, growth: int = 2) -> tuple[ReportFiles, dict[str, Alert]]:
    """Complete a run an hour after the last one; return its report and its alerts by event."""
    world.clock.now += timedelta(hours=1)
    execution = world.plan(RULES)
    record_causes(execution.run, ledger=world.ledger)
    make_pass(execution)
    settle(execution)
    run = execution.run
    report = write_report(
        run.run_id,
        ledger=world.ledger,
        lake_root=world.lake_root,
        stages={},
        clock=world.clock,
    )
    thresholds = Alerts(growth=growth, oldest_age=timedelta(days=999))
    found, lasting = alerts_of(run, report, thresholds, ledger=world.ledger, now=world.clock())
    events = [alert.event for alert in found]
    world.ledger.alerts.record(run.run_id, events, lasting, world.clock())
    return report, {alert.event.value: alert for alert in found}


def lose(world: World, number: int) -> None:
    for _ in range(number):
        world.dead_letter(bytes([len(world.messages("DLQ"))]), dest_q="ELSEWHERE", reason=2085)


def test_messages_of_a_muted_cause_raise_no_alert_and_the_note_says_so(world: World) -> None:
    lose(world, 1)
    ended(world)
    mute(world, LOST, "more 100", 1)
    lose(world, 4)
    report, alerts = ended(world)

    assert alerts == {}
    assert report.note["attention"] == ""
    assert "Quiet about 1 muted cause: 5 messages." in report.note["note"]
    assert report.needs_attention == 5
    assert report.attention_groups != ()


def test_other_causes_are_spoken_of_and_the_alert_says_what_is_muted(world: World) -> None:
    lose(world, 1)
    ended(world)
    mute(world, LOST, "more 100", 1)
    lose(world, 4)
    world.put("DLQ", b"no header")
    report, alerts = ended(world)

    assert alerts.keys() == {"unprocessable"}
    assert alerts["unprocessable"].title.startswith("test: 1 message unprocessable")
    assert alerts["unprocessable"].text.endswith("Quiet about 1 muted cause: 5 messages.")
    assert report.note["attention"] == "1 message to act on."


def test_a_mute_of_what_lasts_sends_no_recovery_and_its_end_speaks_again(world: World) -> None:
    world.put("DLQ", b"no header")
    assert "unprocessable" in ended(world)[1]
    mute(world, STRAY, f"until {(world.clock() + timedelta(hours=2)).isoformat()}", 1)
    assert ended(world)[1] == {}

    world.clock.now += timedelta(hours=1)
    _, alerts = ended(world)

    assert alerts.keys() == {"mute_ended", "unprocessable"}
    assert "a mute has ended: no MQDLH" in alerts["mute_ended"].title
    assert "recovery" not in ended(world)[1]
    last = world.ledger.cause_changes.of_cause(STRAY)[0]
    assert (last.kind, last.who) == (ChangeKind.MUTE_ENDED, "mqdlq")


def test_a_mute_that_more_messages_end_does_not_begin_again(world: World) -> None:
    lose(world, 1)
    ended(world)
    mute(world, LOST, "times 3", 1)
    lose(world, 2)
    assert "mute_ended" in ended(world)[1]
    world.clear("DLQ")
    lose(world, 1)

    report, alerts = ended(world)
    assert "mute_ended" not in alerts
    assert report.note["attention"] == "1 message to act on."
    assert world.clock() > NOON
