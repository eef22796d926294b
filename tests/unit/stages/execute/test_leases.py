"""Test that other runs skip a message while its own run waits to try it again."""

from __future__ import annotations

import pytest

from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.slow

RULES = "RETRYINT(60) WAIT(NO)\nACTION(RETRY) RETRY(3)"


def test_a_run_skips_messages_leased_by_another_run(world: World) -> None:
    world.dead_letter(b"waiting", dest_q="CLOSED")
    first = world.plan(RULES)
    make_pass(first)
    world.dead_letter(b"new")

    second = world.handle(RULES)

    assert second == {1: "leased_by_run", 2: "delivered"}
    assert len(world.ledger.attempts.of_run("run-1")) == 1
    owned = world.ledger.outcomes.of_run("run-2")[1]
    assert owned.why.words == "run run-1 has it and waits to try it again"


def test_a_settled_run_leases_no_message(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    first = world.plan(RULES)
    make_pass(first)
    settle(first)

    second = world.plan(RULES)

    assert make_pass(second).attempts == 1


def test_the_leases_of_a_lost_run_expire(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    make_pass(world.plan(RULES))
    world.clock.sleep(61 + 5 * 60)

    assert make_pass(world.plan(RULES)).attempts == 1


def test_a_run_that_died_in_a_pass_leases_no_message(world: World) -> None:
    for _ in range(3):
        world.dead_letter()
    first = world.plan("ACTION(RETRY)")
    world.interrupted_pass(first, "MQCMIT:2:2009:before")

    second = world.plan("ACTION(RETRY)")
    make_pass(second)

    assert settle(second) == {Outcome.DELIVERED: 2}


def test_a_waiting_run_continues_with_its_leased_messages(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    execution = world.plan(RULES)
    world.passes(execution, 1)
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")

    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1}


def test_a_run_leases_only_messages_that_it_will_try_again(world: World) -> None:
    """One message is exhausted in the second pass, the other waits for the third."""
    world.dead_letter(b"exhausted", dest_q="CLOSED")
    world.dead_letter(b"waiting", dest_q="CLOSED", reason=2051)
    rules = "RETRYINT(60) WAIT(NO)\nREASON(2053) ACTION(RETRY) RETRY(2)\nACTION(RETRY) RETRY(3)"
    first = world.plan(
        rules.replace("ACTION(RETRY) RETRY(3)", "REASON(2051) ACTION(RETRY) RETRY(3)")
    )
    world.passes(first, 2)

    second = world.handle("ACTION(FWD) FWDQ(PARKED)")

    assert second == {1: "forwarded", 2: "leased_by_run"}


def twins(world: World) -> None:
    """Put two identical messages; their destination accepts one."""
    world.mqsc("ALTER QLOCAL(PAYMENTS) MAXDEPTH(1)")
    for body in (b"first ", b"second"):
        world.dead_letter(body, MsgId=b"t" * 24)


def test_a_twin_stays_with_its_run_after_the_other_has_departed(world: World) -> None:
    twins(world)
    first = world.plan(RULES)
    make_pass(first)
    assert world.depths("DLQ", "PAYMENTS") == (1, 1)

    assert world.handle(RULES) == {1: "leased_by_run"}
    settle(first)
    assert world.outcomes(first.run) == {1: "delivered", 2: "retry_pending"}


def test_a_message_moved_by_another_run_is_not_confused_with_its_twin(world: World) -> None:
    twins(world)
    late = world.plan(RULES)
    early = world.plan(RULES)
    make_pass(early)
    settle(early)
    assert world.outcomes(early.run) == {1: "delivered", 2: "retry_pending"}
    world.mqsc("ALTER QLOCAL(PAYMENTS) MAXDEPTH(5)")

    make_pass(late)
    settle(late)

    assert world.outcomes(late.run) == {1: "leased_by_run", 2: "delivered"}
    assert world.bodies("PAYMENTS") == [b"first ", b"second"]
