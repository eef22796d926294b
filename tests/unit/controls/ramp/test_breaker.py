"""A breaker stops the messages of a cause that fail or come back, and tries one after a pause."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mqdlq.model import Outcome
from mqdlq.reading.report.building import read_report
from mqdlq.reading.report.html_report import render_html
from mqdlq.reading.report.text_report import render_text
from mqdlq.reasons import words_of
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.world import NOON, World
from tests.unit.controls.loops.returning import send_back
from tests.unit.controls.ramp.test_ramp import (
    RULES,
    dead_letters,
    pass_at,
    states,
    whys,
)

pytestmark = [
    pytest.mark.stages,
    pytest.mark.parametrize("world", ["ibmmq"], indirect=True),
]

BREAKER = {"breaker": {"failures": 3, "pause": 600, "watch": 60}}


def test_failed_puts_open_a_breaker_and_use_no_more_attempts(world: World) -> None:
    dead_letters(world, 10, dest_q="CLOSED")
    dead_letters(world, 2)
    execution = world.plan(RULES, **BREAKER)

    result = make_pass(execution)

    assert result.attempts == 5
    assert result.next_pass_at == NOON + timedelta(minutes=10)
    assert settle(execution) == {Outcome.DELIVERED: 2, Outcome.NOT_ATTEMPTED: 10}
    (why,) = whys(world)
    assert why == (
        "breaker: 3 puts in a row to CLOSED @ QM1 failed, the last with MQRC_PUT_INHIBITED (2051);"
        " next try at 2026-11-21 12:10:00 UTC"
    )


def test_a_breaker_tries_one_message_and_closes_if_it_stays_away(world: World) -> None:
    dead_letters(world, 10, dest_q="CLOSED")
    execution = world.plan(RULES, **BREAKER)
    pass_at(execution, world, 0)
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")

    tried = [pass_at(execution, world, minute) for minute in (9, 10, 11)]

    assert tried == [(0, 10), (1, 9), (9, 0)]
    assert settle(execution) == {Outcome.DELIVERED: 10}
    assert [words_of(state.why) for state in states(world)] == [
        "breaker: closed, all messages may move"
    ]


def test_a_ramp_that_is_added_after_a_breaker_has_closed_begins_at_its_first_step(
    world: World,
) -> None:
    dead_letters(world, 3, dest_q="CLOSED")
    execution = world.plan(RULES, **BREAKER)
    pass_at(execution, world, 0)
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")
    assert [pass_at(execution, world, minute) for minute in (10, 11)] == [(1, 2), (2, 0)]
    settle(execution)
    dead_letters(world, 5, dest_q="CLOSED")

    with_a_ramp = world.plan(RULES, ramp={"steps": [1, 2], "watch": 60}, **BREAKER)

    assert [pass_at(with_a_ramp, world, minute)[0] for minute in (12, 13, 14)] == [1, 2, 2]


def test_a_breaker_opens_again_if_its_try_fails(world: World) -> None:
    dead_letters(world, 10, dest_q="CLOSED")
    execution = world.plan(RULES, **BREAKER)
    pass_at(execution, world, 0)

    tried = pass_at(execution, world, 10)

    assert tried == (1, 10)
    (state,) = states(world)
    assert words_of(state.why) == (
        "breaker: a put to CLOSED @ QM1 failed, the last with MQRC_PUT_INHIBITED (2051);"
        " next try at 2026-11-21 12:20:00 UTC"
    )


def test_a_message_that_is_too_long_says_nothing_about_the_others(world: World) -> None:
    for body in (b"x" * 50, b"y") * 3:
        world.dead_letter(body, dest_q="SMALL")
    world.mqsc("DEFINE QLOCAL(SMALL) MAXMSGL(20)")
    execution = world.plan(RULES, breaker={"failures": 2})

    assert pass_at(execution, world, 0) == (6, 3)
    assert states(world) == []


def test_a_delivery_ends_a_row_of_failures(world: World) -> None:
    dead_letters(world, 2, dest_q="CLOSED")
    execution = world.plan(RULES, **BREAKER)
    pass_at(execution, world, 0)
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")
    pass_at(execution, world, 2)
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(DISABLED)")
    dead_letters(world, 2, dest_q="CLOSED")

    pass_at(world.plan(RULES, **BREAKER), world, 4)

    assert states(world) == []


MESSAGES = [100, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.slow])]


@pytest.mark.parametrize("messages", MESSAGES)
def test_of_messages_that_all_come_back_hardly_any_leave(world: World, messages: int) -> None:
    world.mqsc("ALTER QLOCAL(DLQ) MAXDEPTH(20000)")
    dead_letters(world, messages)
    execution = world.plan(RULES, ramp={"watch": 60}, loops={"limit": 3})
    record_causes(execution.run, ledger=world.ledger)

    moved = attempts = 0
    result = make_pass(execution)
    while result.next_pass_at is not None and result.next_pass_at < NOON + timedelta(hours=1):
        attempts += result.attempts
        moved += send_back(world, after=timedelta(0))
        world.clock.now = result.next_pass_at
        result = make_pass(execution)
    moved += send_back(world, after=timedelta(0))
    attempts += result.attempts

    assert moved == attempts == 6
    assert settle(execution) == {Outcome.DELIVERED: 6, Outcome.NOT_ATTEMPTED: messages - 6}
    words = "breaker: 1 of 1 message came back from PAYMENTS @ QM1; next try at 2026-11-21 13:06:00"
    assert whys(world) == [f"{words} UTC"]
    assert world.depths("DLQ", "PAYMENTS") == (messages, 0)
    report = read_report(
        "run-1", ledger=world.ledger, lake_root=world.lake_root, stages={}, now=world.clock.now
    )
    assert report.account is not None
    assert report.account.adds_up
    assert [group.messages for group in report.attention_groups] == [messages - 6]
    text = " ".join(render_text(report).split())
    line = "MQRC_Q_FULL (2053) for PAYMENTS @ QM1, to PAYMENTS @ QM1: breaker: 1 of 1 message came"
    assert line in text
    assert f"<li>{line}" in render_html(report)


def test_a_cause_whose_messages_come_back_moves_on_after_its_target_is_repaired(
    world: World,
) -> None:
    dead_letters(world, 20)
    first = world.plan(RULES, ramp={"steps": [1, 4], "watch": 60})
    pass_at(first, world, 0)
    send_back(world, after=timedelta(0))
    pass_at(first, world, 1)
    settle(first)

    second = world.plan(RULES, ramp={"steps": [1, 4], "watch": 60})
    moved = [pass_at(second, world, minute)[0] for minute in (2, 11, 12, 13)]

    assert moved == [0, 1, 4, 15]
    assert settle(second) == {Outcome.DELIVERED: 20}


def test_a_message_that_comes_back_through_another_queue_opens_the_breaker_of_each(
    world: World,
) -> None:
    """The handlers of two dead-letter queues move the messages of a cycle in turn."""
    world.mqsc("DEFINE QLOCAL(DLQ2)")
    ramp = {"ramp": {"steps": [1], "watch": 60}}
    dead_letters(world, 2)
    first = world.plan(RULES, **ramp)
    pass_at(first, world, 0)
    send_back(world, dlq="DLQ2", after=timedelta(0))
    world.handle(f"INPUTQ(DLQ2) {RULES}", **ramp)
    send_back(world, after=timedelta(0))

    assert pass_at(first, world, 1) == (0, 1)
    assert [state.phase for state in states(world)] == ["open"]


def test_a_message_that_comes_back_to_the_queue_of_another_handler_opens_the_breaker(
    world: World,
) -> None:
    world.mqsc("DEFINE QLOCAL(DLQ2)")
    dead_letters(world, 2)
    first = world.plan(RULES, ramp={"steps": [1], "watch": 60})
    pass_at(first, world, 0)
    send_back(world, dlq="DLQ2")
    world.handle("INPUTQ(DLQ2) WAIT(NO)\nACTION(IGNORE)", loops={})

    assert pass_at(first, world, 1) == (0, 1)
    (state,) = states(world)
    assert words_of(state.why).startswith(
        "breaker: 1 of 1 message came back from PAYMENTS @ QM1; next try"
    )


@pytest.mark.parametrize("lag", [timedelta(milliseconds=1), -timedelta(seconds=30)])
def test_a_message_that_comes_back_at_once_or_by_another_clock_opens_the_breaker(
    world: World, lag: timedelta
) -> None:
    """The time in its MQDLH is cut, or of another machine: it is before that of the move."""
    world.mqsc("DEFINE QLOCAL(DLQ2)")
    dead_letters(world, 2)
    first = world.plan(RULES, ramp={"steps": [1], "watch": 60})
    world.clock.now += timedelta(milliseconds=8)
    make_pass(first)
    send_back(world, dlq="DLQ2", after=lag)
    world.handle("INPUTQ(DLQ2) WAIT(NO)\nACTION(IGNORE)", loops={})

    assert pass_at(first, world, 2) == (0, 1)


def test_an_equal_message_that_another_queue_had_before_the_move_opens_no_breaker(
    world: World,
) -> None:
    world.mqsc("DEFINE QLOCAL(DLQ2)")
    dead_letters(world, 2)
    first = world.plan(RULES, ramp={"steps": [1], "watch": 60})
    make_pass(first)
    send_back(world, dlq="DLQ2", after=-timedelta(hours=2))
    world.handle("INPUTQ(DLQ2) WAIT(NO)\nACTION(IGNORE)", loops={})

    assert pass_at(first, world, 2) == (1, 0)


def test_a_message_that_is_forwarded_to_another_handler_opens_no_breaker(world: World) -> None:
    """It keeps its MQDLH, so nothing has dead-lettered it again."""
    dead_letters(world, 2)
    forward = f"{RULES.splitlines()[0]}\nACTION(FWD) FWDQ(PARKED) HEADER(YES)"
    first = world.plan(forward, ramp={"steps": [1], "watch": 60})
    pass_at(first, world, 0)
    world.handle("INPUTQ(PARKED) WAIT(NO)\nACTION(IGNORE)", loops={})

    assert pass_at(first, world, 1) == (1, 0)


def test_a_message_that_never_left_the_queue_opens_no_breaker(world: World) -> None:
    """It is equal to a message that has left, and an earlier run has settled it."""
    same: dict[str, Any] = {"MsgId": b"fixed".ljust(24)}
    rules = "WAIT(NO)\nREASON(2051) ACTION(IGNORE)\nACTION(RETRY)"
    world.dead_letter(b"same", reason=2051, **same)
    assert list(world.handle(rules, **BREAKER).values()) == ["left_by_rule"]
    world.dead_letter(b"same", **same)
    assert "delivered" in world.handle(rules, **BREAKER).values()
    dead_letters(world, 2)

    outcomes = world.handle(rules, **BREAKER)

    assert sorted(outcomes.values()) == ["delivered", "delivered", "left_by_rule"]
    assert states(world) == []


def open_breakers(world: World, rules: str) -> list[str]:
    """Complete a run; return the causes of the breakers that its report lists as open."""
    execution = world.plan(f"WAIT(NO)\n{rules}", **BREAKER)
    record_causes(execution.run, ledger=world.ledger)
    make_pass(execution)
    settle(execution)
    report = read_report(
        execution.run.run_id,
        ledger=world.ledger,
        lake_root=world.lake_root,
        stages={},
        now=world.clock.now,
    )
    return [row.cause.split()[0] for row in report.ramps if row.is_open]


def test_a_breaker_is_not_reported_after_its_messages_get_another_target(world: World) -> None:
    to_closed, to_parked = (
        f"ACTION(FWD) FWDQ({queue}) HEADER(NO)" for queue in ("CLOSED", "PARKED")
    )
    dead_letters(world, 4)
    dead_letters(world, 3, reason=2051)

    opened, still_open = (open_breakers(world, to_closed) for _ in range(2))
    corrected = open_breakers(world, f"REASON(2051) {to_closed}\n{to_parked}")

    assert sorted(opened) == sorted(still_open) == ["MQRC_PUT_INHIBITED", "MQRC_Q_FULL"]
    assert corrected == ["MQRC_PUT_INHIBITED"]
    assert world.depths("DLQ", "PARKED") == (3, 4)


def test_a_message_that_comes_back_for_another_reason_opens_the_breaker_that_moved_it(
    world: World,
) -> None:
    dead_letters(world, 3, reason=2051)
    execution = world.plan(RULES, ramp={"steps": [1], "watch": 60})
    pass_at(execution, world, 0)
    send_back(world, after=timedelta(0))

    assert pass_at(execution, world, 1) == (0, 2)
    assert [state.phase for state in states(world)] == ["open"]
