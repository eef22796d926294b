"""MQPUT and MQPUT1: what the queue manager fills in, and why a put fails."""

from __future__ import annotations

import os
import pwd
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import embedded_mq
from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World


def test_the_queue_manager_completes_the_descriptor(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQMD": MsgId, Priority, Persistence, CodedCharSetId, ReplyToQMgr."""
    mq.mqsc("ALTER QLOCAL(A) DEFPRTY(7) DEFPSIST(YES)")
    md = app.put("A", ReplyToQ=b"REPLIES")

    assert re.fullmatch(rb"AMQ QM1 {9}.{8}", md.MsgId, re.DOTALL)
    assert (md.Priority, md.Persistence, md.CodedCharSetId) == (7, 1, 1208)
    assert (md.ReplyToQ, md.ReplyToQMgr) == (b"REPLIES".ljust(48), b"QM1".ljust(48))
    assert md.BackoutCount == 0


def test_a_blank_reply_queue_manager_is_filled_in_without_a_reply_queue(app: Application) -> None:
    """IBM MQ docs, "ReplyToQMgr (MQMD)": a blank one is replaced, also in a datagram."""
    md = app.put("A")

    assert (md.ReplyToQ, md.ReplyToQMgr) == (b"".ljust(48), app.name.encode().ljust(48))


def test_too_high_a_priority_is_kept_and_counts_as_the_highest(app: Application) -> None:
    """IBM MQ docs, "Priority (MQMD)": MQCC_WARNING, MQRC_PRIORITY_EXCEEDS_MAXIMUM."""
    app.put("A", b"eight", Priority=8)
    app.put("A", b"nine", Priority=9)
    with app.failing("MQRC_PRIORITY_EXCEEDS_MAXIMUM") as caught:
        app.put("A", b"twelve", Priority=12)

    assert caught.value.comp == app.number("MQCC_WARNING")
    assert app.bodies("A") == [b"nine", b"twelve", b"eight"]
    queue = app.open("A", "INPUT_SHARED")
    assert [app.get(queue)[1].Priority for _ in range(3)] == [9, 12, 8]


def test_identifiers_are_kept_unless_new_ones_are_asked_for(app: Application) -> None:
    """IBM MQ docs, "MQPMO_NEW_MSG_ID", "MQPMO_NEW_CORREL_ID"; MQMI_NONE asks for a new MsgId."""
    mine = {"MsgId": b"m" * 24, "CorrelId": b"c" * 24}

    kept = app.put("A", b"", **mine)
    new = app.put("A", b"", "NEW_MSG_ID", "NEW_CORREL_ID", **mine)
    again = app.put("A", b"")

    assert (kept.MsgId, kept.CorrelId) == (b"m" * 24, b"c" * 24)
    assert len({kept.MsgId, new.MsgId, new.CorrelId, again.MsgId}) == 4


@pytest.mark.embedded_only
def test_default_context_names_the_user_and_the_time_of_a_put(app: Application) -> None:
    """IBM MQ docs, "Message context": MQPMO_DEFAULT_CONTEXT; PutDate and PutTime are GMT.

    Here the user is this process's; over a channel it is the channel's.
    """
    md = app.put("A")

    user = pwd.getpwuid(os.geteuid()).pw_name.encode()
    uid = str(os.geteuid()).encode()
    assert md.UserIdentifier == user[:12].ljust(12)
    assert md.AccountingToken == (bytes([len(uid)]) + uid).ljust(31, b"\0") + b"\x06"
    assert (md.PutApplType, md.PutApplName) == (6, Path(sys.executable).name.encode().ljust(28))
    assert re.fullmatch(rb"20\d{6}", md.PutDate)
    assert re.fullmatch(rb"([01]\d|2[0-3])[0-5]\d[0-5]\d\d\d", md.PutTime)
    assert (md.ApplIdentityData, md.ApplOriginData) == (b" " * 32, b" " * 4)


FULL = "ALTER QLOCAL(A) MAXDEPTH(1)"


def test_a_put_to_a_full_queue_fails(mq: World, app: Application) -> None:
    """IBM MQ docs, "2053 (0805) (RC2053): MQRC_Q_FULL"; uncommitted puts of others count."""
    mq.mqsc(FULL)
    app.put("A", b"1", "SYNCPOINT")

    with mq.connect().failing("MQRC_Q_FULL"):
        mq.applications[-1].put("A", b"2")
    app.handle.backout()
    mq.applications[-1].put("A", b"2")
    with app.failing("MQRC_Q_FULL"):
        app.put("A", b"3", "SYNCPOINT")


@pytest.mark.slow
def test_a_queue_filled_by_a_dead_process_has_room(mq: World, app: Application) -> None:
    """IBM MQ docs, "2053 (0805) (RC2053)": what was put and backed out takes no room."""
    mq.mqsc(FULL)
    queue = app.open("A", "OUTPUT")
    mq.run('app.put("A", b"1", "SYNCPOINT")', MQDLQ_FAULTS="MQPUT1:1:kill:after")

    app.put(queue, b"2")
    assert app.bodies("A") == [b"2"]


def test_a_put_to_a_put_inhibited_queue_fails(mq: World, app: Application) -> None:
    """IBM MQ docs, "2051 (0803) (RC2051): MQRC_PUT_INHIBITED": an open handle feels it at once."""
    queue = app.open("A", "OUTPUT")
    mq.mqsc("ALTER QLOCAL(A) PUT(DISABLED)")

    with app.failing("MQRC_PUT_INHIBITED"):
        app.put(queue)
    mq.mqsc("ALTER QLOCAL(A) PUT(ENABLED)")
    app.put(queue)
    assert app.depth("A") == 1


def test_a_message_that_is_too_long_is_not_put(mq: World, app: Application) -> None:
    """IBM MQ docs, "2030 (07EE) (RC2030)" for the queue, "2031 (07EF) (RC2031)" for all queues."""
    mq.mqsc("ALTER QMGR MAXMSGL(32768)\nALTER QLOCAL(A) MAXMSGL(10)")
    app.put("A", b"x" * 10)

    with app.failing("MQRC_MSG_TOO_BIG_FOR_Q"):
        app.put("A", b"x" * 11)
    with app.failing("MQRC_MSG_TOO_BIG_FOR_Q_MGR"):
        app.put("B", b"x" * 32_769)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"Priority": -2}, "MQRC_PRIORITY_ERROR"),
        ({"Persistence": 3}, "MQRC_PERSISTENCE_ERROR"),
        ({"Expiry": 0}, "MQRC_EXPIRY_ERROR"),
        ({"MsgType": 0}, "MQRC_MSG_TYPE_ERROR"),
        ({"MsgType": 1}, "MQRC_MISSING_REPLY_TO_Q"),
        ({"Version": 3}, "MQRC_MD_ERROR"),
    ],
)
def test_an_invalid_message_descriptor_is_refused(
    app: Application, fields: dict[str, Any], reason: str
) -> None:
    """IBM MQ docs, "MQPUT": reason codes; "MQMD": the values each field may have."""
    with app.failing(reason):
        app.put("A", b"", **fields)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("SYNCPOINT", "NO_SYNCPOINT"), "MQRC_OPTIONS_ERROR"),
        (("DEFAULT_CONTEXT", "NO_CONTEXT"), "MQRC_OPTIONS_ERROR"),
        (("LOGICAL_ORDER",), "MQRC_OPTIONS_ERROR"),
        (("SUPPRESS_REPLYTO",), "MQRC_OPTIONS_ERROR"),
        (("MD_FOR_OUTPUT_ONLY",), "MQRC_OPTIONS_ERROR"),
    ],
)
def test_wrong_put_options_are_refused(
    app: Application, options: tuple[str, ...], reason: str
) -> None:
    """IBM MQ docs, "2046 (07FE) (RC2046): MQRC_OPTIONS_ERROR"."""
    with app.failing(reason):
        app.put("A", b"", *options)


def test_a_put_to_a_queue_not_open_for_output_fails(app: Application) -> None:
    """IBM MQ docs, "2039 (07F7) (RC2039): MQRC_NOT_OPEN_FOR_OUTPUT"."""
    with app.failing("MQRC_NOT_OPEN_FOR_OUTPUT"):
        app.put(app.open("A", "BROWSE"))


def test_a_fault_makes_the_nth_put_fail(app: Application) -> None:
    """The nth call from when the fault is set fails, and only that one."""
    embedded_mq.faults.set("MQPUT:2:2053:before, MQPUT:3:2195:after")
    queue = app.open("A", "OUTPUT")

    app.put(queue, b"1")
    with app.failing("MQRC_Q_FULL"):
        app.put(queue, b"2")
    with app.failing("MQRC_UNEXPECTED_ERROR"):
        app.put(queue, b"3")
    app.put(queue, b"4")
    assert app.bodies("A") == [b"1", b"3", b"4"]
