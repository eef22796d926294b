"""Test that a message without a valid MQDLH is moved if a run names it with an action."""

from __future__ import annotations

import struct
from typing import Any

import pytest

import embedded_mq
from mqdlq.headers import DeadLetterHeader
from mqdlq.lake import snapshot_rows
from mqdlq.model import AttemptState, MessageClass, Outcome
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.restore.selection import list_copies
from tests.support.restorations import restore_and_count
from tests.support.world import World
from tests.unit.stages.execute.messages.with_properties import (
    ALL_KINDS,
    add_properties,
    seen_by_an_application,
)

pytestmark = pytest.mark.slow

RULES = "WAIT(NO)\nACTION(FWD) FWDQ(ORDERS) HEADER(NO)\n"
DLH = DeadLetterHeader(
    2053, "PAYMENTS", "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
).encode(
    encoding=546,
    ccsid=819,
)
DEAD = {"Format": b"MQDEAD  ", "Encoding": 546, "CodedCharSetId": 819}
MESSAGES: dict[MessageClass, tuple[bytes, dict[str, Any]]] = {
    MessageClass.NO_DLH: (b"no dead letter", {"Format": b"MQSTR   "}),
    MessageClass.TRUNCATED_DLH: (DLH[:100], DEAD),
    MessageClass.UNSUPPORTED_DLH_VERSION: (
        DLH[:4] + struct.pack("<i", 2) + DLH[8:] + b"body",
        DEAD,
    ),
    MessageClass.UNDECODABLE: (
        DLH[:4].decode().encode("cp500") + DLH[4:] + b"body",
        DEAD,
    ),
}
OF_EACH_CLASS = pytest.mark.parametrize("cls", MESSAGES)


def put(world: World, cls: MessageClass) -> str:
    """Put a dead letter, then an unprocessable message of the class; return the latter's key."""
    world.dead_letter(b"a dead letter")
    body, fields = MESSAGES[cls]
    world.put("DLQ", body, MsgId=b"U" * 24, UserIdentifier=b"alice", **fields)
    run = world.start(RULES, dry_run=True)
    world.snapshot(run)
    _, row = snapshot_rows(world.recorded_snapshot(run.run_id).location)
    assert row["class"] == cls
    return str(row["message_key"].hex())


@OF_EACH_CLASS
@pytest.mark.parametrize("header", ["", "HEADER(YES)", "HEADER(NO)"])
def test_an_unprocessable_message_is_forwarded_unchanged_whatever_header_says(
    world: World, cls: MessageClass, header: str
) -> None:
    key = put(world, cls)
    ((md, body),) = world.messages("DLQ")[1:]

    execution = world.plan(RULES, message_keys=(key,), action=f"ACTION(FWD) FWDQ(PARKED) {header}")
    make_pass(execution)

    assert settle(execution) == {Outcome.FORWARDED: 1, Outcome.NOT_SELECTED: 1}
    ((moved, same),) = world.messages("PARKED")
    assert (moved.pack(), same) == (md.pack(), body)
    assert world.depths("DLQ") == (1,)


def test_an_unprocessable_message_is_forwarded_with_its_properties(world: World) -> None:
    world.put("DLQ", b"no dead letter", Format=b"MQSTR   ")
    add_properties(world, *ALL_KINDS, copied="MQCOPY_FORWARD")
    before = seen_by_an_application(world)
    run = world.start(RULES, dry_run=True)
    world.snapshot(run)
    (row,) = snapshot_rows(world.recorded_snapshot(run.run_id).location)
    key = row["message_key"].hex()

    execution = world.plan(RULES, message_keys=(key,), action="ACTION(FWD) FWDQ(PARKED)")
    make_pass(execution)

    assert settle(execution) == {Outcome.FORWARDED: 1}
    assert seen_by_an_application(world, "PARKED") == before


@OF_EACH_CLASS
def test_a_discarded_unprocessable_message_is_archived_and_can_be_restored(
    world: World, cls: MessageClass
) -> None:
    key = put(world, cls)
    ((md, body),) = world.messages("DLQ")[1:]

    execution = world.plan(RULES, message_keys=(key,), action="ACTION(DISCARD)")
    make_pass(execution)

    assert settle(execution) == {Outcome.DISCARDED: 1, Outcome.NOT_SELECTED: 1}
    assert world.depths("DLQ") == (1,)
    (copy,) = list_copies(world.ledger.archive.copies(handler="test"), world.ledger)
    assert (copy.reason_text, copy.dest_q, copy.restorability) == (
        "no valid MQDLH",
        "",
        "can be restored",
    )
    assert restore_and_count(world) == {"restored": 1}
    ((again, same),) = world.messages("DLQ")[1:]
    assert (again.pack(), same) == (md.pack(), body)


@OF_EACH_CLASS
def test_an_unprocessable_message_can_be_ignored(world: World, cls: MessageClass) -> None:
    key = put(world, cls)

    execution = world.plan(RULES, message_keys=(key,), action="ACTION(IGNORE)")
    make_pass(execution)

    assert settle(execution) == {Outcome.LEFT_BY_RULE: 1, Outcome.NOT_SELECTED: 1}
    assert world.depths("DLQ") == (2,)


@OF_EACH_CLASS
def test_no_rule_applies_to_a_named_unprocessable_message(world: World, cls: MessageClass) -> None:
    key = put(world, cls)

    execution = world.plan(RULES, message_keys=(key,))
    make_pass(execution)

    assert settle(execution) == {Outcome.UNPROCESSABLE: 1, Outcome.NOT_SELECTED: 1}
    assert world.depths("DLQ", "ORDERS") == (2, 0)


def test_a_second_action_for_an_unprocessable_message_is_executed(world: World) -> None:
    key = put(world, MessageClass.NO_DLH)
    action = "ACTION(FWD) FWDQ(PARKED)"
    first = world.plan(RULES, message_keys=(key,), action="ACTION(IGNORE)")
    make_pass(first)
    settle(first)
    world.clock.sleep(1)

    again = world.plan(RULES, message_keys=(key,), action="ACTION(IGNORE)")
    make_pass(again)
    assert settle(again) == {Outcome.LEFT_BY_RULE: 1, Outcome.NOT_SELECTED: 1}
    world.clock.sleep(1)
    then = world.plan(RULES, message_keys=(key,), action=action)
    make_pass(then)
    assert settle(then) == {Outcome.FORWARDED: 1, Outcome.NOT_SELECTED: 1}


def test_a_failed_attempt_on_an_unprocessable_message_is_retried(world: World) -> None:
    key = put(world, MessageClass.NO_DLH)

    execution = world.plan(RULES, message_keys=(key,), action="ACTION(FWD) FWDQ(CLOSED) RETRY(2)")
    results = world.passes(execution, 2)

    assert [result.pending for result in results] == [1, 0]
    assert settle(execution) == {Outcome.EXHAUSTED: 1, Outcome.NOT_SELECTED: 1}
    (fact,) = world.ledger.outcomes.of_run(execution.run.run_id).values()
    assert fact.why.words == "2 attempts, the last to CLOSED: MQRC_PUT_INHIBITED (2051)"


@pytest.mark.parametrize("action", ["ACTION(FWD) FWDQ(PARKED)", "ACTION(DISCARD)"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_answer_is_lost_is_settled_by_the_next_pass(
    world: World, action: str, when: str
) -> None:
    key = put(world, MessageClass.TRUNCATED_DLH)
    execution = world.plan(RULES, message_keys=(key,), action=action)

    world.interrupted_pass(execution, f"MQCMIT:1:2009:{when}")
    make_pass(execution)

    moved = Outcome.DISCARDED if "DISCARD" in action else Outcome.FORWARDED
    assert settle(execution) == {moved: 1, Outcome.NOT_SELECTED: 1}
    assert world.depths("DLQ", "PARKED") == (1, int(moved is Outcome.FORWARDED))
    states = [attempt.state for attempt in world.ledger.attempts.of_run(execution.run.run_id)]
    assert states[-1] is AttemptState.CONFIRMED


def test_an_unprocessable_message_stays_if_the_target_is_missing(world: World) -> None:
    key = put(world, MessageClass.NO_DLH)

    execution = world.plan(RULES, message_keys=(key,), action="ACTION(FWD) FWDQ(NOWHERE)")
    make_pass(execution)

    assert settle(execution) == {Outcome.EXHAUSTED: 1, Outcome.NOT_SELECTED: 1}
    assert embedded_mq.depths("QM1")["DLQ"] == 2


def test_an_action_that_failed_is_tried_again_when_it_is_given_again(world: World) -> None:
    key = put(world, MessageClass.NO_DLH)
    rules, action = "WAIT(YES)\nACTION(RETRY)\n", "ACTION(FWD) FWDQ(CLOSED)"
    first = world.plan(rules, message_keys=(key,), action=action)
    make_pass(first)
    assert settle(first) == {Outcome.EXHAUSTED: 1, Outcome.NOT_SELECTED: 1}
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")

    again = world.plan(rules, message_keys=(key,), action=action)
    make_pass(again)

    assert settle(again) == {Outcome.FORWARDED: 1, Outcome.NOT_SELECTED: 1}
    assert world.depths("DLQ", "CLOSED") == (1, 1)


@OF_EACH_CLASS
def test_a_table_equal_to_the_action_does_not_apply_to_an_unprocessable_message(
    world: World, cls: MessageClass
) -> None:
    key, rules = put(world, cls), "WAIT(YES)\nACTION(IGNORE)\n"
    given = world.plan(rules, message_keys=(key,), action="ACTION(IGNORE)")
    make_pass(given)
    settle(given)
    world.clock.sleep(1)

    run = world.start(rules)
    manifest = world.snapshot(run)
    world.accept(run)

    assert run.rules_digest == given.run.rules_digest
    assert (manifest.full, manifest.settled) == (2, 0)
    assert settle(world.execution(run)) == {Outcome.LEFT_BY_RULE: 1, Outcome.UNPROCESSABLE: 1}
