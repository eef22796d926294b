"""Test the alerts about messages that expire, come back, or are held by a breaker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import World
from tests.unit.controls.loops.returning import send_back
from tests.unit.reading.test_alerts import ended, events, names, titles

pytestmark = pytest.mark.slow


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_each_run_sends_an_alert_if_other_messages_expire_before_the_next_run(world: World) -> None:
    world.dead_letter(dest_q="NOWHERE", Expiry=864_000)
    world.dead_letter(dest_q="NOWHERE", Expiry=432_000)
    first = titles(world)
    world.clear("DLQ")
    world.dead_letter(dest_q="NOWHERE", Expiry=864_000)

    second = titles(world)
    world.clear("DLQ")

    (title,) = (one for one in first if "expire" in one)
    assert title.startswith("2 messages expire before 2026-11-22 13:00:00 UTC, the first at 2026")
    (title,) = second
    assert title.startswith("1 message expires before 2026-11-22 14:00:00 UTC, the first at 2026")
    assert titles(world) == []


def test_a_run_without_a_schedule_sends_no_second_alert_about_the_same_expiring_messages(
    world: World,
) -> None:
    world.dead_letter(dest_q="NOWHERE", Expiry=432_000)
    first = names(world, ended(world))
    again = names(world, ended(world))
    key = world.ledger.messages.of_run("run-1")[0].message_key.hex()
    names(world, ended(world, message_keys=(key,)))
    after_a_named_run = names(world, ended(world))
    world.dead_letter(b"another", dest_q="NOWHERE", Expiry=432_000)
    another = names(world, ended(world))

    assert [("expiring" in found) for found in (first, again, after_a_named_run, another)] == [
        True,
        False,
        False,
        True,
    ]


def test_a_message_that_goes_to_the_quarantine_queue_raises_an_alert(world: World) -> None:
    loops = {"limit": 1, "then": {"forward": "PARKED"}}
    world.dead_letter()
    names(world, ended(world, loops=loops))
    send_back(world)

    found = [alert.title for alert in events(world, ended(world, loops=loops))]

    assert world.depths("DLQ", "PARKED") == (0, 1)
    assert "test: 1 message quarantined (DLQ @ QM1)" in found


def test_a_breaker_raises_an_alert_once_until_it_has_closed(world: World) -> None:
    rules = "WAIT(NO) RETRYINT(1)\nDESTQ(CLOSED) ACTION(RETRY) RETRY(9)\n"
    keys = {"breaker": {"failures": 1, "pause": 60, "watch": 1}}
    world.dead_letter(b"1", dest_q="CLOSED")
    world.dead_letter(b"2", dest_q="CLOSED")

    opened = events(world, ended(world, rules, **keys))
    again = names(world, ended(world, rules, **keys))
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")
    tried = names(world, ended(world, rules, **keys))
    closed = names(world, ended(world, rules, **keys))

    (title,) = (alert.title for alert in opened if alert.event == "breaker")
    assert title == (
        "test: MQRC_Q_FULL (2053) for CLOSED @ QM1, to CLOSED @ QM1: breaker: a put to CLOSED @ QM1"
        " failed, the last with MQRC_PUT_INHIBITED (2051); next try at 2026-11-21 13:01:00 UTC"
        " (DLQ @ QM1)"
    )
    assert (again, tried, closed) == ([], [], ["recovery"])
