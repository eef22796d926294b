"""Test that messages wait, untried, until their destination takes them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handler
from mqdlq.model import Outcome
from mqdlq.reading.report.building import control_lines, summarize_run
from mqdlq.stages.execute import make_pass, settle
from tests.support.diagnosed import without_alteration
from tests.support.world import NOON, World

pytestmark = pytest.mark.stages

RULES = "WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(5)"
MINUTE = timedelta(minutes=1)
KEYS = {"hold_until_fixed": {"look_every": MINUTE}, "ramp": {"steps": [1], "watch": MINUTE}}


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path, client="ibmmq")
    with world.ledger:
        yield world


def put(world: World, queue: str, number: int = 3) -> None:
    for one in range(number):
        world.dead_letter(b"%d" % one, dest_q=queue)


def test_no_message_is_tried_while_its_destination_refuses_it(world: World) -> None:
    put(world, "CLOSED")
    execution = world.plan(RULES, **KEYS)

    first, second = world.passes(execution, 2)

    assert (first.attempts, first.pending, first.awaited) == (0, 3, (("CLOSED", "QM1"),))
    assert first.next_pass_at == NOON + timedelta(minutes=1)
    assert (second.attempts, second.pending) == (0, 3)
    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 3}
    words = [one.why.words for one in world.ledger.outcomes.of_run("run-1").values()]
    assert set(map(without_alteration, words)) == {
        "it waits until its destination takes it: CLOSED has PUT(DISABLED)"
    }
    assert world.ledger.attempts.of_run("run-1") == []


def test_after_the_fix_one_message_goes_first_and_then_the_others(world: World) -> None:
    put(world, "CLOSED")
    execution = world.plan(RULES, **KEYS)
    (held,) = world.passes(execution, 1)
    assert held.attempts == 0

    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")
    (one,) = world.passes(execution, 1)
    (others,) = world.passes(execution, 1)

    assert (one.attempts, one.awaited, others.attempts, others.pending) == (1, (), 2, 0)
    assert settle(execution) == {Outcome.DELIVERED: 3}
    said = dict(control_lines(summarize_run("run-1", world.ledger, world.lake_root)))["Diagnosis"]
    said = list(map(without_alteration, said))
    assert said == [
        (
            "puts to CLOSED @ QM1, 2026-11-21 12:00:00 UTC: a put would be refused now: CLOSED has"
            " PUT(DISABLED); ALTER QLOCAL('CLOSED') PUT(ENABLED)"
        ),
        (
            "puts to CLOSED @ QM1, 2026-11-21 12:01:00 UTC: nothing refuses a put any more: CLOSED"
            " has room for 5,000 more messages: 0 of 5,000, PUT(ENABLED)"
        ),
        *said[2:],
    ]


def test_what_breaks_again_is_held_again_with_the_new_fact(world: World) -> None:
    put(world, "CLOSED")
    execution = world.plan(RULES, **KEYS)
    world.passes(execution, 1)
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED) MAXDEPTH(1)")
    (one,) = world.passes(execution, 1)

    (full,) = world.passes(execution, 1)

    assert (one.attempts, full.attempts, full.pending) == (1, 0, 2)
    assert settle(execution) == {Outcome.DELIVERED: 1, Outcome.NOT_ATTEMPTED: 2}
    words = {one.why.words for one in world.ledger.outcomes.of_run("run-1").values()}
    fact = "CLOSED holds 1 of 1 messages (MAXDEPTH); nobody has it open for input"
    assert words == {"attempt 1", f"it waits until its destination takes it: {fact}"}


def test_messages_of_other_destinations_do_not_wait(world: World) -> None:
    put(world, "CLOSED", 1)
    put(world, "ORDERS", 1)

    result = make_pass(world.plan(RULES, **KEYS))

    assert (result.attempts, result.pending, result.awaited) == (1, 1, (("CLOSED", "QM1"),))


def test_a_message_that_waits_for_something_else_makes_the_next_pass_due(world: World) -> None:
    put(world, "CLOSED", 1)
    world.dead_letter(b"x" * 20, dest_q="ORDERS")
    world.mqsc("ALTER QLOCAL(ORDERS) MAXMSGL(10)")

    result = make_pass(world.plan(RULES, **KEYS))

    assert (result.attempts, result.pending, result.awaited) == (1, 2, ())


def test_a_run_may_wait_for_a_fix_although_its_handler_does_not(world: World) -> None:
    put(world, "CLOSED", 2)

    execution = world.plan(
        RULES, until_fixed=True, action="ACTION(RETRY) RETRY(1)", where="reason=2053"
    )
    held = make_pass(execution)
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")
    world.clock.now = held.next_pass_at or NOON
    one = make_pass(execution)

    assert (held.attempts, held.pending, one.attempts) == (0, 2, 1)


def test_a_handler_that_waits_for_a_fix_needs_a_ramp(tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text("ACTION(RETRY)\n")
    (tmp_path / "a.yaml").write_text("connection: mq\nrules: a.rules\nhold_until_fixed: {}\n")

    with pytest.raises(HandlerError) as refused:
        load_handler("a", tmp_path)

    assert (
        "hold_until_fixed needs ramp, so that one message is tried when its destination takes"
        " messages again; add ramp: {}"
    ) in str(refused.value)


def test_a_handler_says_how_often_it_looks(world: World) -> None:
    put(world, "CLOSED", 1)

    seldom = {"hold_until_fixed": {"look_every": timedelta(hours=2)}, "ramp": {"steps": [1]}}
    result = make_pass(world.plan(RULES, **seldom))

    assert result.next_pass_at == NOON + timedelta(hours=2)
