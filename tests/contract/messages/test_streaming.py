"""Streaming queues: STREAMQ and STRMQOS of a queue that is put to."""

from __future__ import annotations

import pytest

from embedded_mq.errors import MqscError
from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

MUSTDUP = "ALTER QLOCAL(A) STREAMQ(B) STRMQOS(MUSTDUP)"
BESTEF = "ALTER QLOCAL(A) STREAMQ(B)"


@pytest.mark.parametrize("definition", [MUSTDUP, BESTEF])
@pytest.mark.parametrize("options", [("SYNCPOINT",), ("NO_SYNCPOINT",)])
def test_a_copy_goes_to_the_stream_queue(
    mq: World, app: Application, definition: str, options: tuple[str, ...]
) -> None:
    """IBM MQ docs, "Configuring streaming queues": the same message, but for Expiry and Report."""
    mq.mqsc(definition)
    report = app.number("MQRO_COA") | app.number("MQRO_PASS_MSG_ID")
    put = app.put(
        "A", b"body", *options, Expiry=600, Report=report, ReplyToQ=b"C", CorrelId=b"c" * 24
    )
    app.handle.commit()

    body, copy = app.get(app.open("B", "INPUT_SHARED"))
    assert (body, copy.MsgId, copy.CorrelId) == (b"body", put.MsgId, b"c" * 24)
    assert (copy.PutTime, copy.UserIdentifier) == (put.PutTime, put.UserIdentifier)
    assert (copy.Expiry, copy.Report) == (-1, app.number("MQRO_PASS_MSG_ID"))
    body, original = app.get(app.open("A", "INPUT_SHARED"))
    assert (body, original.Report) == (b"body", report)


def test_a_backed_out_put_leaves_no_copy(mq: World, app: Application) -> None:
    """IBM MQ docs, "Stream queues and transactions"; the copy does not count for MAXUMSGS."""
    mq.mqsc(f"{MUSTDUP}\nALTER QMGR MAXUMSGS(2)")
    for _ in range(2):
        app.put("A", b"", "SYNCPOINT")
    with app.failing("MQRC_SYNCPOINT_LIMIT_REACHED"):
        app.put("A", b"", "SYNCPOINT")

    assert (app.depth("A"), app.depth("B")) == (2, 2)
    app.handle.backout()
    assert (app.depth("A"), app.depth("B")) == (0, 0)


@pytest.mark.parametrize("options", [("SYNCPOINT",), ("NO_SYNCPOINT",)])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("ALTER QLOCAL(B) MAXDEPTH(0)", "MQRC_Q_FULL"),
        ("ALTER QLOCAL(B) PUT(DISABLED)", "MQRC_PUT_INHIBITED"),
        ("ALTER QLOCAL(B) MAXMSGL(1)", "MQRC_MSG_TOO_BIG_FOR_Q"),
        ("DELETE QLOCAL(B)", "MQRC_UNKNOWN_OBJECT_NAME"),
        ("ALTER QLOCAL(A) MAXDEPTH(0)", "MQRC_Q_FULL"),
    ],
)
def test_under_mustdup_a_message_is_put_only_with_its_copy(
    mq: World, app: Application, options: tuple[str, ...], fault: str, reason: str
) -> None:
    """IBM MQ docs, "Configuring streaming queues": MQCC_FAILED with an appropriate reason code."""
    mq.mqsc(f"{MUSTDUP}\n{fault}")

    with app.failing(reason):
        app.put("A", b"body", *options)
    app.handle.commit()

    assert app.depth("A") == 0
    if not fault.startswith("DELETE"):
        assert app.depth("B") == 0


@pytest.mark.parametrize("options", [("SYNCPOINT",), ("NO_SYNCPOINT",)])
def test_under_bestef_a_message_is_put_even_without_its_copy(
    mq: World, app: Application, options: tuple[str, ...]
) -> None:
    """IBM MQ docs, "Configuring streaming queues": STRMQOS(BESTEF), the default."""
    mq.mqsc(f"{BESTEF}\nALTER QLOCAL(B) PUT(DISABLED)")

    app.put("A", b"body", *options)
    app.handle.commit()

    assert (app.bodies("A"), app.depth("B")) == ([b"body"], 0)


def test_a_copy_may_go_to_an_alias_or_to_another_queue_manager(mq: World, app: Application) -> None:
    """IBM MQ docs, "Streaming to remote and alias queues"."""
    mq.mqsc("""DEFINE QLOCAL(QM2) USAGE(XMITQ); DEFINE QREMOTE(THERE) RNAME(Q) RQMNAME(QM2)
DEFINE QALIAS(ALIAS) TARGET(B); ALTER QLOCAL(A) STREAMQ(ALIAS)""")
    app.put("A", b"1")
    mq.mqsc("ALTER QLOCAL(A) STREAMQ(THERE)")
    app.put("A", b"2")

    assert app.bodies("B") == [b"1"]
    ((sent),) = app.bodies("QM2")
    assert (sent[:4], sent[-1:]) == (b"XQH ", b"2")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("ALTER QLOCAL(A) STREAMQ(A)", "STREAMQ(A) is not valid; name another queue"),
        ("ALTER QLOCAL(B) STREAMQ(A)", "STREAMQ(A) is not valid; name another queue"),
        (
            "ALTER QLOCAL(C) STREAMQ(D)",
            "C is the STREAMQ of another queue and cannot",
        ),
        ("ALTER QLOCAL(A) STREAMQ(MODEL)", "STREAMQ(MODEL) must not name a SYSTEM queue or"),
        ("ALTER QLOCAL(A) STREAMQ(SYSTEM.Q)", "STREAMQ(SYSTEM.Q) must not name a SYSTEM"),
        ("DEFINE QLOCAL(X) USAGE(XMITQ) STREAMQ(B)", "X is a transmission queue, which"),
    ],
)
def test_a_stream_queue_that_ibm_mq_does_not_support_is_refused(
    mq: World, app: Application, command: str, problem: str
) -> None:
    """IBM MQ docs, "Streaming queue restrictions"."""
    mq.mqsc("""DEFINE QLOCAL(C); DEFINE QLOCAL(D); DEFINE QMODEL(MODEL)
ALTER QLOCAL(A) STREAMQ(C)""")

    with pytest.raises(MqscError) as refused:
        mq.mqsc(command)

    assert str(refused.value).startswith(f"line 1: {problem}")
    assert app.depth("A") == 0
