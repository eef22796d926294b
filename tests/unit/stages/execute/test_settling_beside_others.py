"""A run that settles its account while another one moves messages of it tells the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mqdlq.ledger import Ledger
from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support import backlog
from tests.support.world import World


def then(
    monkeypatch: pytest.MonkeyPatch, calls: dict[str, int], do: Callable[[], object]
) -> list[str]:
    """Do something once, as soon as one of these views of the ledger was read for the n-th time."""
    done: list[str] = []
    left = dict(calls)

    def watch(name: str) -> None:
        read = getattr(Ledger, name)

        def reading(ledger: Ledger, *args: Any, **kwargs: Any) -> Any:
            found = read(ledger, *args, **kwargs)
            left[name] -= 1
            if left[name] == 0 and not done:
                done.append(name)
                do()
            return found

        monkeypatch.setattr(Ledger, name, reading)

    for name in calls:
        watch(name)
    return done


def test_what_another_run_confirms_in_that_moment_is_that_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intended when the first view is read, confirmed when the second is: it is in one of them."""
    world.dead_letter()
    first, second = world.plan("ACTION(RETRY)"), world.plan("ACTION(RETRY)")
    world.interrupted_pass(second, "MQCMIT:1:2009:after")
    # The first reading of what departed is for the work list.
    reads = {"departed_elsewhere": 2, "intended": 1}
    done = then(monkeypatch, reads, lambda: make_pass(second))

    assert settle(first) == {Outcome.OWNED_BY_RUN: 1}
    assert done


def test_of_twins_the_one_that_another_run_has_just_moved_is_that_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is on the queue: it was not taken by anybody."""
    world.mqsc("DEFINE QLOCAL(SMALL) MAXDEPTH(1)")
    for body in (b"first ", b"second"):
        world.dead_letter(body, dest_q="SMALL", MsgId=b"t" * 24)
    rules = "RETRYINT(5)\nACTION(RETRY) RETRY(9)"
    first, second = world.plan(rules), world.plan(rules)
    done = then(monkeypatch, {"sighting": 1}, lambda: make_pass(second))

    settle(first)

    assert done
    assert world.bodies("SMALL") == [b"first "]
    assert world.outcomes(first.run) == {1: "owned_by_run", 2: "retry_pending"}


def test_a_parked_message_that_another_run_has_moved_is_that_runs(world: World) -> None:
    """A run by other rules does not know it as parked."""
    backlog.backlog(world)
    backlog.handle(world)
    run = world.start(backlog.RULES)
    world.clock.sleep(1)
    world.snapshot(run)
    world.accept(run)
    assert backlog.counts(world, run) == (0, 3)
    world.handle("WAIT(NO)\nDESTQ(NOWHERE) ACTION(FWD) FWDQ(PARKED) HEADER(YES)")

    outcomes = settle(world.execution(run))

    assert outcomes == {
        Outcome.LEFT_BY_RULE: 1,
        Outcome.UNPROCESSABLE: 1,
        Outcome.OWNED_BY_RUN: 1,
    }
