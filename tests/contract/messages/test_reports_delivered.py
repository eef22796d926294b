"""Where a report goes: to another queue manager, to the dead-letter queue, or nowhere."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

COA, COD, EXPIRATION = 0x100, 0x800, 0x200000
COA_WITH_FULL_DATA = 0x700
PASS_DISCARD_AND_EXPIRY, DISCARD_MSG = 0x4000, 0x8000000
DEAD_LETTER_QUEUE = "DEFINE QLOCAL(DLQ)\nALTER QMGR DEADQ(DLQ)\n"
DLH = struct.Struct("<4sii48s48sii8si28s8s8s")


def got(app: Application, queue: str) -> list[tuple[bytes, Any]]:
    """Get all messages from a queue."""
    opened, found = app.open(queue, "INPUT_SHARED"), []
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        while True:
            found.append(app.get(opened))
    opened.close()
    return found


@pytest.mark.parametrize(
    ("mqsc", "reason"),
    [
        ("", 2085),
        ("DEFINE QLOCAL(REPLIES) PUT(DISABLED)", 2051),
        ("DEFINE QLOCAL(REPLIES) MAXDEPTH(0)", 2053),
        ("DEFINE QLOCAL(REPLIES) MAXMSGL(3)", 2030),
        ("DEFINE QMODEL(REPLIES)", 2057),
    ],
)
def test_a_report_that_cannot_be_delivered_becomes_a_dead_letter(
    mq: World, app: Application, mqsc: str, reason: int
) -> None:
    """IBM MQ docs, "DeadLetterQName": report messages are treated like all others."""
    mq.mqsc(DEAD_LETTER_QUEUE + mqsc)
    put = {"ReplyToQ": b"REPLIES", "Format": b"MQSTR   ", "CodedCharSetId": 819}
    sent = app.put("A", b"body", Report=COA_WITH_FULL_DATA, **put)

    ((letter, md),) = got(app, "DLQ")

    header = DLH.unpack(letter[:172])
    assert header[:5] == (b"DLH ", 1, reason, b"REPLIES".ljust(48), b"QM1".ljust(48))
    assert header[5:9] == (546, 819, b"MQSTR   ", 7)
    assert letter[172:] == b"body"
    assert (md.Format, md.MsgType, md.Feedback) == (b"MQDEAD  ", 4, 259)
    assert (md.CorrelId, app.depth("A")) == (sent.MsgId, 1)


@pytest.mark.parametrize(
    ("mqsc", "options"),
    [
        ("", 0),
        ("ALTER QMGR DEADQ(MISSING)", 0),
        (DEAD_LETTER_QUEUE + "ALTER QLOCAL(DLQ) PUT(DISABLED)", 0),
        (DEAD_LETTER_QUEUE, PASS_DISCARD_AND_EXPIRY | DISCARD_MSG),
    ],
)
def test_discarding_an_undeliverable_report_keeps_the_message(
    mq: World, app: Application, mqsc: str, options: int
) -> None:
    """IBM MQ docs, "Report (MQMD)": MQRO_DISCARD_MSG is passed on to the report."""
    mq.mqsc(mqsc)

    app.put("A", Report=COA | options, ReplyToQ=b"REPLIES")

    assert app.depth("A") == 1


def test_a_report_goes_to_the_reply_queue_manager(mq: World, app: Application) -> None:
    """IBM MQ docs, "ReplyToQMgr (MQMD)": by its transmission queue."""
    mq.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)")

    app.put("A", Report=COA, ReplyToQ=b"REPLIES", ReplyToQMgr=b"QM2")

    ((envelope, md),) = got(app, "QM2")
    assert envelope[8:104] == b"REPLIES".ljust(48) + b"QM2".ljust(48)
    assert (md.Format, len(envelope)) == (b"MQXMIT  ", 428)


def test_a_message_on_a_transmission_queue_has_not_arrived(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQXQH": no COA or COD is made for a transmission queue; one on expiry is."""
    mq.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)")
    there = app.open("ORDERS", "OUTPUT", q_mgr="QM2")
    app.put(there, Report=COA | COD, ReplyToQ=b"B")
    got(app, "QM2")

    assert app.depth("B") == 0


def test_reports_of_a_unit_of_work_count_towards_maxumsgs(mq: World, app: Application) -> None:
    """IBM MQ docs, "MaxUncommittedMsgs": COA and COD do, reports on expiry do not."""
    mq.mqsc("ALTER QMGR MAXUMSGS(3)")
    asked = {"Report": COA | COD, "ReplyToQ": b"B"}
    app.put("A", b"1", "SYNCPOINT", **asked)
    with app.failing("MQRC_SYNCPOINT_LIMIT_REACHED"):
        app.put("A", b"2", "SYNCPOINT", **asked)
    app.put("A", b"3", "SYNCPOINT")
    app.handle.commit()
    assert (app.depth("A"), app.depth("B")) == (2, 1)

    app.put("A", b"4", **asked)
    queue = app.open("A", "INPUT_SHARED")
    app.get(queue, "SYNCPOINT")
    app.get(queue, "SYNCPOINT")
    with app.failing("MQRC_SYNCPOINT_LIMIT_REACHED"):
        app.get(queue, "SYNCPOINT")
    app.handle.commit()
    assert (app.depth("A"), app.depth("B")) == (1, 3)


def test_a_put_and_a_get_outside_units_of_work_are_reported_at_once(app: Application) -> None:
    """IBM MQ docs, "Report (MQMD)": MQRO_COA and MQRO_COD without a unit of work."""
    app.put("A", Report=COA | COD, ReplyToQ=b"B")
    got(app, "A")

    assert [md.Feedback for _, md in got(app, "B")] == [259, 260]


@pytest.mark.embedded_only
def test_a_report_has_the_properties_with_mqcopy_report(app: Application) -> None:
    """IBM MQ docs, "CopyOptions (MQPD)": MQCOPY_REPORT, one of the default; see mqi-coverage.md."""
    handle = app.mqi.MessageHandle(app.handle)
    for name, copying in ((b"with", 22), (b"without", 2)):
        descriptor = app.mqi.PD(CopyOptions=copying)
        handle.properties.set(name, "x", app.number("MQTYPE_STRING"), pd=descriptor)
    md = app.md(Report=COA, ReplyToQ=b"B")
    app.open("A", "OUTPUT").put(b"body", md, app.pmo(NewMsgHandle=handle.msg_handle))

    shown = app.mqi.MessageHandle(app.handle)
    gmo = app.gmo("PROPERTIES_IN_HANDLE", MsgHandle=shown.msg_handle)
    app.open("B", "INPUT_SHARED").get(None, app.md(), gmo)
    assert shown.properties.get(b"with") == "x"
    with app.failing("MQRC_PROPERTY_NOT_AVAILABLE"):
        shown.properties.get(b"without")


@pytest.mark.slow
def test_a_killed_process_leaves_neither_message_nor_report(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQBACK": what was put by the queue manager goes with the unit of work."""
    script = f'app.put("A", b"", "SYNCPOINT", Report={COA}, ReplyToQ=b"B"); app.handle.commit()'
    mq.run(script, MQDLQ_FAULTS="MQCMIT:1:kill:before")
    assert (app.depth("A"), app.depth("B")) == (0, 0)

    mq.run(script, MQDLQ_FAULTS="MQCMIT:1:kill:after")
    assert (app.depth("A"), app.depth("B")) == (1, 1)
