"""Test rules that take their target from a message whose field is blank."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.slow

TO_THE_REPLY_QUEUE = "ACTION(FWD) FWDQ(&REPLYQ) FWDQM(&REPLYQM) HEADER(NO)"
ADVICE = (
    "the message does not name a queue; the pattern DESTQ(?*) or REPLYQ(?*) lets a rule match only"
    " messages that do"
)
ELSEWHERE = "DEFINE QLOCAL(QM2) USAGE(XMITQ)"


@pytest.mark.parametrize(
    ("rule", "fields", "reason"),
    [
        (TO_THE_REPLY_QUEUE, {"ReplyToQMgr": b"QM2"}, "MQRC_REMOTE_Q_NAME_ERROR (2184)"),
        (TO_THE_REPLY_QUEUE, {}, "MQRC_UNKNOWN_OBJECT_NAME (2085)"),
        ("ACTION(RETRY)", {"dest_q_mgr": "QM2"}, "MQRC_REMOTE_Q_NAME_ERROR (2184)"),
        ("ACTION(RETRY)", {}, "MQRC_UNKNOWN_OBJECT_NAME (2085)"),
    ],
)
@pytest.mark.parametrize("hold", [False, True])
def test_a_blank_queue_name_costs_each_attempt_and_no_get(
    world: World,
    *,
    rule: str,
    fields: dict[str, Any],
    reason: str,
    hold: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A blank name never unblocks, so attempts are not held; they end and the next rule acts."""
    world.mqsc(ELSEWHERE)
    world.dead_letter(dest_q="", **fields)
    caplog.set_level(logging.INFO)

    execution = world.plan(f"WAIT(NO)\n{rule} RETRY(2)", hold_while_blocked=hold)
    results = world.passes(execution, 2)

    assert [(result.attempts, result.pending) for result in results] == [(1, 1), (1, 0)]
    assert settle(execution) == {Outcome.EXHAUSTED: 1}
    (fact,) = world.ledger.outcomes.of_run("run-1").values()
    assert fact.why.words == f"2 attempts, the last to a blank queue name: {reason}: {ADVICE}"
    ((md, _),) = world.messages("DLQ")
    assert md.BackoutCount == 0
    assert (
        "AMQ8722: unable to put message 1 to a blank queue name: rule 1 (line 2), attempt 1,"
        f" {reason}: {ADVICE}"
    ) in caplog.messages
    assert f"1 puts to a blank queue name failed: {reason}" in caplog.messages


def test_before_a_discard_the_put_to_a_blank_queue_name_is_really_tried(world: World) -> None:
    """A message is never discarded because of an attempt that was not made."""
    world.mqsc(ELSEWHERE)
    world.dead_letter(dest_q="", dest_q_mgr="QM2")

    make_pass(world.plan("WAIT(NO)\nACTION(RETRY)\nACTION(DISCARD)"))

    assert [a.mqrc for a in world.ledger.attempts.of_run("run-1")] == [2184]
    ((md, _),) = world.messages("DLQ")
    assert md.BackoutCount == 1
    assert world.bodies("QM2") == []


def test_the_reply_queue_manager_of_a_datagram_can_be_matched(world: World) -> None:
    """The queue manager fills in ReplyToQMgr although the message names no ReplyToQ."""
    world.dead_letter(b"datagram")
    world.dead_letter(b"from elsewhere", ReplyToQMgr=b"QM2")

    outcomes = world.handle("REPLYQM(QM1) ACTION(RETRY)\nACTION(IGNORE)")

    assert outcomes == {1: "delivered", 2: "left_by_rule"}
    assert world.bodies("PAYMENTS") == [b"datagram"]
