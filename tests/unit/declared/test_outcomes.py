"""Each declared outcome ends a message in a real run; an outcome that nothing books fails here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

import pytest

from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World
from tests.unit.controls.loops.returning import send_back

pytestmark = pytest.mark.slow

Story = Callable[[World], Collection[str]]


def handled(rules: str, *, dest_q: str = "PAYMENTS") -> Story:
    """Return the story of one dead letter that a run with these rules handles."""

    def tell(world: World) -> Collection[str]:
        world.dead_letter(dest_q=dest_q)
        return world.handle(f"WAIT(NO)\n{rules}").values()

    return tell


def named(world: World) -> Collection[str]:
    world.dead_letter(b"1")
    world.dead_letter(b"2")
    first = world.plan("ACTION(IGNORE)", dry_run=True).run
    key = world.ledger.messages.of_run(first.run_id)[0].message_key.hex()
    execution = world.plan("ACTION(RETRY)", message_keys=(key,))
    make_pass(execution)
    return settle(execution)


def returned(world: World) -> Collection[str]:
    world.dead_letter()
    world.handle("ACTION(RETRY)", loops={"limit": 1})
    send_back(world)
    return world.handle("ACTION(RETRY)", loops={"limit": 1}).values()


def leased(world: World) -> Collection[str]:
    world.dead_letter()
    late = world.plan("ACTION(RETRY)")
    world.handle("ACTION(RETRY)")
    make_pass(late)
    return settle(late)


def gone(after_s: int) -> Story:
    """Return the story of a message with an Expiry that leaves the queue after some time."""

    def tell(world: World) -> Collection[str]:
        world.dead_letter(Expiry=600)
        execution = world.plan("DESTQ(NOBODY) ACTION(RETRY)")
        world.clear("DLQ")
        world.clock.sleep(after_s)
        make_pass(execution)
        return settle(execution)

    return tell


def pending(world: World) -> Collection[str]:
    world.dead_letter(dest_q="CLOSED")
    execution = world.plan("RETRYINT(60) WAIT(NO)\nACTION(RETRY) RETRY(9)")
    make_pass(execution)
    return settle(execution)


def lost_answer(world: World) -> Collection[str]:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    world.clear("MQDLQ.STATE")
    make_pass(execution)
    return settle(execution)


def without_mqdlh(world: World) -> Collection[str]:
    world.put("DLQ", b"no dead letter")
    return world.handle("ACTION(RETRY)").values()


def dry(world: World) -> Collection[str]:
    world.dead_letter()
    return world.handle("ACTION(RETRY)", dry_run=True).values()


STORIES: Final[Mapping[Outcome, Story]] = {
    Outcome.DELIVERED: handled("ACTION(RETRY)"),
    Outcome.FORWARDED: handled("ACTION(FWD) FWDQ(PARKED)"),
    Outcome.DISCARDED: handled("ACTION(DISCARD)"),
    Outcome.LEFT_BY_RULE: handled("ACTION(IGNORE)"),
    Outcome.LEASED_BY_RUN: leased,
    Outcome.EXPIRED: gone(after_s=61),
    Outcome.TAKEN: gone(after_s=1),
    Outcome.NOT_ATTEMPTED: dry,
    Outcome.NOT_SELECTED: named,
    Outcome.RETRY_PENDING: pending,
    Outcome.UNPROCESSABLE: without_mqdlh,
    Outcome.UNMATCHED: handled("DESTQ(ANOTHER) ACTION(RETRY)"),
    Outcome.EXHAUSTED: handled("ACTION(RETRY) RETRY(1)", dest_q="CLOSED"),
    Outcome.QUARANTINED: returned,
    Outcome.UNKNOWN: lost_answer,
}


@pytest.mark.parametrize("outcome", Outcome)
def test_a_run_books_the_outcome(outcome: Outcome, world: World) -> None:
    assert outcome in STORIES, f"no run ends a message as {outcome}: tell how in STORIES"

    assert outcome in STORIES[outcome](world)
