"""What a person is told of a run, once, and when it is over."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest

from mqdlq.alerts import EVENTS, Facts, alerts_of, of_no_run, record, standing, told_before
from mqdlq.execute import make_pass, settle
from mqdlq.guards import note_causes
from mqdlq.handlers.operation import Alerts, Event
from world import World

RULES = "WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n"


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    return World(tmp_path)


def told(world: World, *, failed: bool = False, adds_up: bool = True, growth: int = 2) -> list[str]:
    """Make a run to its end, tell of it, and return the titles."""
    world.clock.now += timedelta(hours=1)
    execution = world.plan(RULES)
    note_causes(execution.run, ledger=world.ledger)
    make_pass(execution)
    settle(execution)
    facts = Facts(execution.run, "a short text", failed, adds_up)
    thresholds = Alerts(growth=growth, oldest_age=timedelta(hours=20))
    found = alerts_of(facts, thresholds, ledger=world.ledger, now=world.clock())
    lasting = standing(facts, thresholds, ledger=world.ledger, now=world.clock())
    events = [alert.event for alert in found]
    record(execution.run.run_id, events, lasting, world.ledger, world.clock())
    assert told_before(execution.run.run_id, world.ledger) == set(events)
    assert all(alert.text == "a short text" for alert in found)
    return [alert.title.removeprefix("test: ").removesuffix(" (DLQ @ QM1)") for alert in found]


def test_the_first_messages_and_their_cause_are_told(world: World) -> None:
    world.dead_letter()

    assert told(world) == [
        "1 messages on a queue that was empty",
        "first MQRC_Q_FULL (2053)",
    ]


def test_a_known_cause_is_told_once(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    told(world)
    world.dead_letter(dest_q="ELSEWHERE", reason=2053)
    world.dead_letter(dest_q="ELSEWHERE", reason=2085)

    assert told(world, growth=9) == ["first MQRC_UNKNOWN_OBJECT_NAME (2085)"]


def test_growth_is_told_from_its_threshold_on(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    told(world)
    world.dead_letter(dest_q="ELSEWHERE", body=b"2")
    assert told(world) == []
    world.dead_letter(dest_q="ELSEWHERE", body=b"3")
    world.dead_letter(dest_q="ELSEWHERE", body=b"4")

    assert told(world) == ["2 messages more than at the last run"]


def test_what_lasts_is_told_when_it_begins_and_when_it_is_over(world: World) -> None:
    world.put("DLQ", b"no dead letter", PutDate=b"20261121")
    world.dead_letter(dest_q="ELSEWHERE")
    assert told(world)[-1] == "1 messages unprocessable"
    assert told(world) == []
    world.mqsc("CLEAR QLOCAL(DLQ)")
    world.dead_letter(dest_q="ELSEWHERE")

    assert told(world) == ["no more unprocessable"]


def test_an_old_message_that_stays_is_told(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    told(world)
    world.clock.now += timedelta(hours=30)

    assert told(world) == ["a message is there since 2026-11-21 11:00 UTC"]


def test_a_failed_run_and_a_wrong_account_are_told_and_so_is_their_end(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    told(world)

    assert told(world, failed=True) == ["the run failed"]
    assert told(world, failed=True) == []
    assert told(world, failed=True, adds_up=False) == ["the account does not add up"]
    assert told(world) == ["no more conservation"]


def test_every_event_of_a_handlers_file_is_known() -> None:
    assert set(get_args(Event)) == set(EVENTS)


def refuse(world: World, run_id: str, *, is_heard: bool = True) -> list[str]:
    """Have a run fail before it has begun, tell of it, and return the titles."""
    world.clock.now += timedelta(hours=1)
    world.ledger.record_refusal(run_id, "test", "MQCONN failed", world.clock())
    found = of_no_run("test", run_id, "a short text", world.ledger)
    events = [alert.event for alert in found] if is_heard else []
    record(run_id, events, ["failed"], world.ledger, world.clock())
    return [alert.title for alert in found]


def test_runs_that_cannot_begin_are_told_once_and_when_it_is_over(world: World) -> None:
    told(world)

    assert refuse(world, "one") == ["test: the run could not begin"]
    assert refuse(world, "two") == []
    assert told(world) == ["no more failed"]
    assert told(world) == []
    assert refuse(world, "three") == ["test: the run could not begin"]


def test_what_no_notifier_could_deliver_is_told_at_the_next_run(world: World) -> None:
    refuse(world, "one", is_heard=False)

    assert refuse(world, "two") == ["test: the run could not begin"]
