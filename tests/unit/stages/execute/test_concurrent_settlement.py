"""Test that a run's account is right if another run moves its messages meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support import settled_backlog
from tests.support.world import World

pytestmark = pytest.mark.slow


def call_after(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    calls: dict[tuple[str, str], int],
    do: Callable[[], object],
) -> list[tuple[str, str]]:
    """Call a function once, when one of these ledger methods has returned n times.

    A method is named `repository.method`.
    """
    done: list[tuple[str, str]] = []
    left = dict(calls)

    def watch(place: tuple[str, str]) -> None:
        repository = getattr(world.ledger, place[0])
        read = getattr(repository, place[1])

        def reading(*args: Any, **kwargs: Any) -> Any:
            found = read(*args, **kwargs)
            left[place] -= 1
            if left[place] == 0 and not done:
                done.append(place)
                do()
            return found

        monkeypatch.setattr(repository, place[1], reading)

    for place in calls:
        watch(place)
    return done


def test_a_message_that_another_run_confirms_meanwhile_belongs_to_that_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt is intended in the first reading and confirmed in the second."""
    world.dead_letter()
    first, second = world.plan("ACTION(RETRY)"), world.plan("ACTION(RETRY)")
    world.interrupted_pass(second, "MQCMIT:1:2009:after")
    # The first reading of departed messages is for the work list.
    reads = {("messages", "departed_elsewhere"): 2, ("attempts", "intended"): 1}
    done = call_after(world, monkeypatch, reads, lambda: make_pass(second))

    assert settle(first) == {Outcome.LEASED_BY_RUN: 1}
    assert done


def test_the_twin_that_another_run_moved_meanwhile_belongs_to_that_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other twin is on the queue, so no application took it."""
    world.mqsc("DEFINE QLOCAL(SMALL) MAXDEPTH(1)")
    for body in (b"first ", b"second"):
        world.dead_letter(body, dest_q="SMALL", MsgId=b"t" * 24)
    rules = "RETRYINT(5)\nACTION(RETRY) RETRY(9)"
    first, second = world.plan(rules), world.plan(rules)
    done = call_after(world, monkeypatch, {("accounts", "of_run"): 1}, lambda: make_pass(second))

    settle(first)

    assert done
    assert world.bodies("SMALL") == [b"first "]
    assert world.outcomes(first.run) == {1: "leased_by_run", 2: "retry_pending"}


def test_a_settled_message_that_another_run_moved_belongs_to_that_run(world: World) -> None:
    """A run by other rules does not know it as settled."""
    settled_backlog.put_backlog(world)
    settled_backlog.run_to_end(world)
    run = world.start(settled_backlog.RULES)
    world.clock.sleep(1)
    world.snapshot(run)
    world.accept(run)
    assert settled_backlog.count_rows(world, run) == (0, 3)
    world.handle("WAIT(NO)\nDESTQ(NOWHERE) ACTION(FWD) FWDQ(PARKED) HEADER(YES)")

    outcomes = settle(world.execution(run))

    assert outcomes == {
        Outcome.LEFT_BY_RULE: 1,
        Outcome.UNPROCESSABLE: 1,
        Outcome.LEASED_BY_RUN: 1,
    }
