"""Each declared event of an alert is raised by a run; an event that nothing raises fails here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final

import pytest

from mqdlq.handlers.operation import Event
from mqdlq.ledger.tables import CauseChange
from mqdlq.model import ChangeKind
from mqdlq.reading.alerts import Alert, build_approval_alert, send_start_failure
from tests.support.world import World
from tests.unit.controls.loops.returning import send_back
from tests.unit.reading.test_alerts import ended, names

pytestmark = pytest.mark.slow

Story = Callable[[World], Collection[str]]
HOLDS: Final = "WAIT(NO)\nDESTQ(NOBODY) ACTION(RETRY)\n"


def first_message(world: World) -> Collection[str]:
    world.dead_letter()
    return names(world, ended(world))


def many_more(world: World) -> Collection[str]:
    world.dead_letter(dest_q="NOWHERE")
    names(world, ended(world, HOLDS))
    for number in range(3):
        world.dead_letter(b"%d" % number, dest_q="NOWHERE")
    return names(world, ended(world, HOLDS), growth=3)


def old(world: World) -> Collection[str]:
    world.dead_letter(dest_q="NOWHERE")
    world.clock.now += timedelta(hours=19)
    return names(world, ended(world, HOLDS))


def expiring(world: World) -> Collection[str]:
    world.dead_letter(dest_q="NOWHERE", Expiry=432_000)
    return names(world, ended(world, HOLDS))


def without_mqdlh(world: World) -> Collection[str]:
    world.put("DLQ", b"no dead letter")
    return names(world, ended(world))


def exhausted(world: World) -> Collection[str]:
    world.dead_letter(dest_q="CLOSED")
    return names(world, ended(world, "WAIT(NO)\nACTION(RETRY) RETRY(1)\n"))


def returned(world: World) -> Collection[str]:
    world.dead_letter()
    names(world, ended(world, loops={"limit": 1}))
    send_back(world)
    return names(world, ended(world, loops={"limit": 1}))


def broken(world: World) -> Collection[str]:
    world.dead_letter(dest_q="CLOSED")
    rules = "WAIT(NO)\nACTION(RETRY) RETRY(9)\n"
    return names(world, ended(world, rules, breaker={"failures": 1, "pause": 60}))


def wrong_account(world: World) -> Collection[str]:
    world.dead_letter()
    return names(world, ended(world), failed=True, adds_up=False)


def refused(world: World) -> Collection[str]:
    events: list[str] = []

    def notify(found: Sequence[Alert]) -> list[Event]:
        events.extend(alert.event for alert in found)
        return []

    of_run, now = ("test", "run-1", "no such queue manager", notify), world.clock()
    send_start_failure(*of_run, ledger=world.ledger, now=now)
    return events


def asked(world: World) -> Collection[str]:
    return [build_approval_alert(world.start(HOLDS), ["1 message may be discarded"]).event]


def mute_over(world: World) -> Collection[str]:
    without_mqdlh(world)
    (cause_id,) = {row.numbers.cause_id for row in world.ledger.inbox.all()}
    until = f"until {world.clock().isoformat()}"
    muted = CauseChange(cause_id, world.clock(), "ann", ChangeKind.MUTED, until)
    world.ledger.cause_changes.add([muted])
    return names(world, ended(world))


def over(world: World) -> Collection[str]:
    without_mqdlh(world)
    world.clear("DLQ")
    return names(world, ended(world))


STORIES: Final[Mapping[Event, Story]] = {
    Event.FIRST_ARRIVAL: first_message,
    Event.NEW_CAUSE: first_message,
    Event.GROWTH: many_more,
    Event.OLDEST_AGE: old,
    Event.EXPIRING: expiring,
    Event.UNPROCESSABLE: without_mqdlh,
    Event.EXHAUSTED: exhausted,
    Event.QUARANTINED: returned,
    Event.BREAKER: broken,
    Event.UNACCOUNTED: wrong_account,
    Event.FAILED: refused,
    Event.MUTE_ENDED: mute_over,
    Event.APPROVAL: asked,
    Event.RECOVERY: over,
}


@pytest.mark.parametrize("event", Event)
def test_a_run_raises_the_event(event: Event, world: World) -> None:
    assert event in STORIES, f"no run raises {event}: tell how in STORIES"

    assert event in STORIES[event](world)
