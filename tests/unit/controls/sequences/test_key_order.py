"""With a key, later messages wait behind an earlier one that has not moved."""

from __future__ import annotations

from typing import Any

import pytest

import embedded_mq
from mqdlq.headers import RulesHeader2
from mqdlq.stages.execute import Execution, make_pass, settle
from tests.support.world import World
from tests.unit.controls.loops.returning import send_back
from tests.unit.controls.sequences.grouped import BOTH_CLIENTS, whys, world_fixture
from tests.unit.stages.execute.messages.with_properties import add_properties

pytestmark = pytest.mark.stages

__all__ = ["world_fixture"]

NARROW = "DEFINE QLOCAL(NARROW) MAXMSGL(4)"
KEY: dict[str, Any] = {"sequences": {"key": "MQMD.CorrelId"}}
RETRY = "WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(2)"
WAITS = "it waits behind an earlier message with the same MQMD.CorrelId"


def letter(world: World, body: bytes, key: bytes = b"", **fields: Any) -> None:
    world.dead_letter(body, CorrelId=key.ljust(24, b"\0"), **fields)


def pass_with(execution: Execution, fault: str) -> None:
    embedded_mq.faults.set(fault)
    make_pass(execution)
    embedded_mq.faults.set("")


def pass_to_the_end(world: World, execution: Execution) -> list[str]:
    result = make_pass(execution)
    while result.next_pass_at is not None:
        world.clock.now = result.next_pass_at
        result = make_pass(execution)
    settle(execution)
    return list(world.outcomes(execution.run).values())


@BOTH_CLIENTS
def test_later_messages_wait_for_the_retries_of_an_earlier_one(world: World) -> None:
    letter(world, b"1", b"a")
    letter(world, b"2", b"a")
    letter(world, b"3", b"b")
    letter(world, b"4")
    execution = world.plan(RETRY, **KEY)

    pass_with(execution, "MQPUT1[PAYMENTS]:1:2030:before")
    first = world.bodies("PAYMENTS")
    outcomes = pass_to_the_end(world, execution)

    assert first == [b"3", b"4"]
    assert world.bodies("PAYMENTS") == [b"3", b"4", b"1", b"2"]
    assert outcomes == ["delivered"] * 4


def test_without_a_key_later_messages_overtake_one_that_waits_for_a_retry(world: World) -> None:
    letter(world, b"1", b"a")
    letter(world, b"2", b"a")
    execution = world.plan(RETRY)

    pass_with(execution, "MQPUT1[PAYMENTS]:1:2030:before")
    pass_to_the_end(world, execution)

    assert world.bodies("PAYMENTS") == [b"2", b"1"]


def test_later_messages_wait_behind_an_exhausted_one_until_the_run_ends(world: World) -> None:
    world.mqsc(NARROW)
    letter(world, b"too long", b"a", dest_q="NARROW")
    letter(world, b"2", b"a", dest_q="NARROW")
    letter(world, b"3", b"a", dest_q="ORDERS")

    outcomes = world.handle(RETRY, **KEY)

    assert list(outcomes.values()) == ["exhausted", "not_attempted", "delivered"]
    assert whys(world)[1] == WAITS
    # The next run tries the first one again, so that the second one still waits.
    assert list(world.handle(RETRY, **KEY).values()) == ["exhausted", "not_attempted"]


def test_later_messages_wait_behind_one_that_another_control_holds(world: World) -> None:
    closed = [{"queue": "PAYMENTS", "in_flight": 1}]
    letter(world, b"1", b"a")
    letter(world, b"2", b"a")
    letter(world, b"3", b"a", dest_q="ORDERS")
    execution = world.plan(RETRY, limits={"destinations": closed}, **KEY)

    result = make_pass(execution)
    settle(execution)

    assert (result.pending, result.attempts) == (1, 2)
    assert world.bodies("PAYMENTS") == [b"1"]


def test_a_message_counts_for_the_destinations_of_all_its_remaining_rules(world: World) -> None:
    """The first message goes to ORDERS in the end, before the message for ORDERS."""
    rules = "WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(1)\nACTION(FWD) FWDQ(ORDERS) HEADER(NO)"
    letter(world, b"1", b"a", dest_q="CLOSED")
    letter(world, b"2", b"a", dest_q="ORDERS")
    letter(world, b"3", b"a", dest_q="PAYMENTS")

    outcomes = world.handle(rules, **KEY)

    assert list(outcomes.values()) == ["forwarded", "delivered", "delivered"]
    assert world.bodies("ORDERS") == [b"1", b"2"]


def test_an_exhausted_message_counts_for_all_its_rules_if_the_next_run_tries_them(
    world: World,
) -> None:
    rules = "WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(1)\nACTION(FWD) FWDQ(CLOSED) RETRY(1)"
    letter(world, b"1", b"a")
    letter(world, b"2", b"a")
    execution = world.plan(rules, **KEY)

    pass_with(execution, "MQPUT1[PAYMENTS]:1:2030:before")

    assert pass_to_the_end(world, execution) == ["exhausted", "not_attempted"]
    assert list(world.handle(rules, **KEY).values()) == ["delivered"] * 2
    assert world.bodies("PAYMENTS") == [b"1", b"2"]


def test_if_attempts_count_across_runs_a_message_counts_for_its_remaining_rules(
    world: World,
) -> None:
    rules = "WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(1)\nACTION(FWD) FWDQ(CLOSED) RETRY(1)"
    letter(world, b"1", b"a")
    letter(world, b"2", b"a")
    execution = world.plan(rules, count_attempts="across_runs", **KEY)

    pass_with(execution, "MQPUT1[PAYMENTS]:1:2030:before")

    assert pass_to_the_end(world, execution) == ["exhausted", "delivered"]


def test_a_message_that_an_ignore_leaves_after_a_retry_is_tried_first_by_the_next_run(
    world: World,
) -> None:
    rules = "WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(1)\nACTION(IGNORE)"
    letter(world, b"1", b"a")
    letter(world, b"2", b"a")
    execution = world.plan(rules, **KEY)

    pass_with(execution, "MQPUT1[PAYMENTS]:1:2030:before")

    assert pass_to_the_end(world, execution) == ["left_by_rule", "not_attempted"]
    world.handle(rules, **KEY)
    assert world.bodies("PAYMENTS") == [b"1", b"2"]


def test_messages_do_not_wait_behind_one_that_no_rule_moves(world: World) -> None:
    rules = "WAIT(NO) RETRYINT(60)\nREASON(2085) ACTION(IGNORE)\nREASON(2053) ACTION(RETRY)"
    letter(world, b"1", b"a", reason=2085)
    letter(world, b"2", b"a", reason=2030)
    letter(world, b"3", b"a")

    assert list(world.handle(rules, **KEY).values()) == ["left_by_rule", "unmatched", "delivered"]


def test_messages_do_not_wait_behind_a_quarantined_one(world: World) -> None:
    keys: dict[str, Any] = {"loops": {"limit": 1}, **KEY}
    letter(world, b"1", b"a")
    world.handle(RETRY, **keys)
    send_back(world)
    letter(world, b"2", b"a")

    assert list(world.handle(RETRY, **keys).values()) == ["quarantined", "delivered"]


def test_a_discard_waits_for_no_message(world: World) -> None:
    rules = "WAIT(NO) RETRYINT(60)\nREASON(2085) ACTION(DISCARD)\nACTION(RETRY)"
    letter(world, b"1", b"a", dest_q="CLOSED")
    letter(world, b"2", b"a", dest_q="CLOSED", reason=2085)

    assert list(world.handle(rules, **KEY).values()) == ["exhausted", "discarded"]


def test_messages_wait_behind_one_that_another_run_tries_again(world: World) -> None:
    letter(world, b"1", b"a")
    first = world.plan(RETRY, **KEY)
    pass_with(first, "MQPUT1[PAYMENTS]:1:2030:before")
    letter(world, b"2", b"a")
    second = world.plan(RETRY, **KEY)

    result = make_pass(second)

    assert (result.attempts, result.pending) == (0, 1)
    pass_to_the_end(world, first)
    assert pass_to_the_end(world, second) == ["leased_by_run", "delivered"]
    assert world.bodies("PAYMENTS") == [b"1", b"2"]


def test_a_run_does_not_wait_for_a_message_after_the_lease_of_another_run_has_ended(
    world: World,
) -> None:
    letter(world, b"1", b"a", dest_q="CLOSED")
    first = world.plan(RETRY, **KEY)
    make_pass(first)
    letter(world, b"2", b"a", dest_q="CLOSED")
    second = world.plan(RETRY, **KEY)

    assert make_pass(second).pending == 1
    assert pass_to_the_end(world, first) == ["exhausted"]
    assert make_pass(second).next_pass_at is None
    settle(second)
    assert list(world.outcomes(second.run).values()) == ["leased_by_run", "not_attempted"]


def test_messages_wait_behind_one_that_is_held_while_its_queue_is_blocked(world: World) -> None:
    letter(world, b"1", b"a", dest_q="CLOSED")
    letter(world, b"2", b"a", dest_q="CLOSED")
    execution = world.plan(RETRY, hold_while_blocked=True, **KEY)
    make_pass(execution)
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")

    assert pass_to_the_end(world, execution) == ["delivered"] * 2
    assert world.bodies("CLOSED") == [b"1", b"2"]


def test_a_given_action_moves_a_named_message_although_an_earlier_one_stays(world: World) -> None:
    letter(world, b"1", b"a")
    letter(world, b"2", b"a")
    world.handle("WAIT(NO)\nACTION(IGNORE)", **KEY)
    named = world.ledger.messages.of_run("run-1")[1].message_key.hex()

    action = "ACTION(FWD) FWDQ(ORDERS) HEADER(NO)"
    world.handle(RETRY, message_keys=(named,), action=action, **KEY)

    assert world.bodies("ORDERS") == [b"2"]


# -- keys of an MQRFH2

BY_ORDER: dict[str, Any] = {"sequences": {"key": "MQRFH2.usr.orderId"}}


def with_folder(body: bytes, folder: str) -> bytes:
    padded = folder.ljust(-4 * (-len(folder) // 4))
    return RulesHeader2(546, 819, "MQSTR", folders=(padded,)).encode(encoding=546, ccsid=819) + body


def order(world: World, body: bytes, number: str, before: str = "", **fields: Any) -> None:
    folder = f"<usr><x>{before}</x><orderId dt='string'>{number}</orderId></usr>"
    inner = (546, 819, "MQHRF2")
    world.dead_letter(with_folder(body, folder), inner=inner, **fields)


@pytest.mark.parametrize("before", ["", "long" * 4000], ids=["short", "long"])
def test_a_key_of_an_mqrfh2_keeps_the_order(world: World, before: str) -> None:
    """An MQRFH2 that is longer than a run usually reads is read, too."""
    world.mqsc("DEFINE QLOCAL(NARROW) MAXMSGL(100000)")
    order(world, b"x" * 101_000, "17", before, dest_q="NARROW")
    order(world, b"2", "17", before, dest_q="NARROW")
    order(world, b"3", "18", before, dest_q="NARROW")
    world.dead_letter(b"no key", dest_q="NARROW")

    outcomes = world.handle(RETRY, **BY_ORDER)

    assert list(outcomes.values()) == ["exhausted", "not_attempted", "delivered", "delivered"]
    assert whys(world)[1] == "it waits behind an earlier message with the same MQRFH2.usr.orderId"


def test_a_key_in_a_long_folder_that_has_no_properties_keeps_the_order(world: World) -> None:
    """The queue manager leaves such a folder in the body, where a run reads it."""
    folder = f"<own><x>{'long' * 4000}</x><orderId>17</orderId></own>"
    for body, queue in ((b"1", "CLOSED"), (b"2", "PAYMENTS"), (b"3", "CLOSED")):
        world.dead_letter(with_folder(body, folder), inner=(546, 819, "MQHRF2"), dest_q=queue)
    key = {"sequences": {"key": "MQRFH2.own.orderId"}}
    execution = world.plan(RETRY, hold_while_blocked=True, **key)

    make_pass(execution)
    settle(execution)

    assert whys(world)[2] == "it waits behind an earlier message with the same MQRFH2.own.orderId"


@BOTH_CLIENTS
def test_a_key_is_read_from_the_message_properties(world: World) -> None:
    world.dead_letter(b"1", dest_q="CLOSED")
    add_properties(world, (b"orderId", "17  ", "MQTYPE_STRING", -1))
    order(world, b"2", "17", dest_q="CLOSED")
    order(world, b"3", "18")
    execution = world.plan(RETRY, hold_while_blocked=True, **BY_ORDER)

    result = make_pass(execution)
    settle(execution)

    assert result.pending == 2
    assert whys(world)[1] == "it waits behind an earlier message with the same MQRFH2.usr.orderId"
    assert world.bodies("PAYMENTS")[0].endswith(b"3")


@BOTH_CLIENTS
@pytest.mark.parametrize("kind", ["long property", "cut folder", "bytes"])
def test_a_message_whose_key_cannot_be_read_stays(world: World, kind: str) -> None:
    if kind == "long property":
        world.dead_letter(b"1")
        add_properties(world, (b"orderId", "x" * 5000, "MQTYPE_STRING", -1))
    else:
        header = with_folder(b"", "<usr><orderId>1</orderId></usr>")
        is_cut = kind == "cut folder"
        broken = header[:-8] if is_cut else header.replace((1208).to_bytes(4, "little"), bytes(4))
        world.dead_letter(broken, inner=(546, 819, "MQHRF2"))
    world.dead_letter(b"2")

    outcomes = world.handle(RETRY, **BY_ORDER)

    assert list(outcomes.values()) == ["not_attempted", "delivered"]
    why = "the headers in which it may have MQRFH2.usr.orderId cannot be read"
    assert whys(world)[0] == why
