"""Reports that the queue manager makes on messages that arrive, are delivered, or expire."""

from __future__ import annotations

import re
from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

COA, COD, EXPIRATION = 0x100, 0x800, 0x200000
PASS_CORREL_ID, PASS_MSG_ID, PASS_DISCARD_AND_EXPIRY = 0x40, 0x80, 0x4000
DISCARD_MSG = 0x8000000
KINDS = {"COA": 259, "COD": 260, "EXPIRATION": 258}
BODY = b"%0120d" % 7
MINE = {"MsgId": b"m" * 24, "CorrelId": b"c" * 24}


def put(app: Application, body: bytes = BODY, *options: str, **fields: Any) -> Any:
    """Put a message on A whose reports go to B."""
    return app.put("A", body, *options, **{"ReplyToQ": b"B", "Format": b"MQSTR   ", **fields})


def bring_about(app: Application, kind: str) -> None:
    """Make the event of the report happen to the message on A."""
    queue = app.open("A", "INPUT_SHARED")
    if kind == "COD":
        app.get(queue)
    elif kind == "EXPIRATION":
        with app.failing("MQRC_NO_MSG_AVAILABLE"):  # let a tenth of a second pass
            queue.get(None, app.md(MsgId=b"?" * 24), app.gmo("WAIT", WaitInterval=110))
        app.put("A", b"behind it")
        assert app.get(queue)[0] == b"behind it"


def reports(app: Application, queue: str = "B") -> list[tuple[bytes, Any]]:
    """Get all messages from the reply queue."""
    opened, found = app.open(queue, "INPUT_SHARED"), []
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        while True:
            found.append(app.get(opened))
    opened.close()
    return found


def option(app: Application, name: str) -> int:
    return app.number(f"MQRO_{name}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_describes_the_arrival_delivery_or_expiry_of_a_message(
    app: Application, kind: str
) -> None:
    """IBM MQ docs, "Report (MQMD)": MQRO_COA, MQRO_COD, MQRO_EXPIRATION; "Feedback (MQMD)".

    Without other options the report has a new MsgId, and the message's MsgId as CorrelId
    (MQRO_NEW_MSG_ID, MQRO_COPY_MSG_ID_TO_CORREL_ID); priority and persistence are the message's.
    Feedback is MQFB_COA, MQFB_COD or MQFB_EXPIRATION.
    """
    expiry: dict[str, Any] = {"Expiry": 1} if kind == "EXPIRATION" else {}
    put(app, Report=option(app, kind), Priority=3, Persistence=1, **MINE, **expiry)
    bring_about(app, kind)

    ((body, md),) = reports(app)

    assert (md.MsgType, md.Feedback, body) == (app.number("MQMT_REPORT"), KINDS[kind], b"")
    assert md.Feedback == app.number(f"MQFB_{kind}")
    assert (md.CorrelId, md.MsgId != MINE["MsgId"]) == (MINE["MsgId"], True)
    assert (md.Priority, md.Persistence, md.Expiry, md.Report) == (3, 1, -1, 0)


def test_a_browse_makes_no_delivery_report(app: Application) -> None:
    """IBM MQ docs, "Report (MQMD)": MQRO_COD is for a get that deletes the message."""
    put(app, Report=COD)

    app.get(app.open("A", "BROWSE"), "BROWSE_FIRST")

    assert reports(app) == []


@pytest.mark.parametrize(
    ("options", "msg_id", "correl_id"),
    [
        (PASS_MSG_ID, b"m", b"m"),
        (PASS_CORREL_ID, None, b"c"),
        (PASS_MSG_ID | PASS_CORREL_ID, b"m", b"c"),
    ],
)
def test_a_message_chooses_the_identifiers_of_its_report(
    app: Application, options: int, msg_id: bytes | None, correl_id: bytes
) -> None:
    """IBM MQ docs, "Report (MQMD)": MQRO_PASS_MSG_ID, MQRO_PASS_CORREL_ID."""
    assert option(app, "PASS_MSG_ID") | option(app, "PASS_CORREL_ID") == 0xC0
    put(app, Report=COA | options, **MINE)

    ((_, md),) = reports(app)

    assert md.CorrelId == correl_id * 24
    assert md.MsgId == msg_id * 24 if msg_id else md.MsgId not in MINE.values()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("data", "length"), [("WITH_DATA", 100), ("WITH_FULL_DATA", 120)])
def test_a_report_holds_the_requested_amount_of_data(
    app: Application, kind: str, data: str, length: int
) -> None:
    """IBM MQ docs, "Report (MQMD)": the first 100 bytes, or all of them.

    MQRO_COA_WITH_DATA, MQRO_COD_WITH_DATA, MQRO_EXPIRATION_WITH_DATA; MQRO_COA_WITH_FULL_DATA,
    MQRO_COD_WITH_FULL_DATA, MQRO_EXPIRATION_WITH_FULL_DATA.
    """
    expiry: dict[str, Any] = {"Expiry": 1} if kind == "EXPIRATION" else {}
    put(app, Report=option(app, f"{kind}_{data}"), **expiry)
    bring_about(app, kind)

    ((body, md),) = reports(app)

    assert (body, md.Format) == (BODY[:length], b"MQSTR   ")


def test_both_the_arrival_and_the_delivery_of_a_message_may_be_reported(app: Application) -> None:
    """IBM MQ docs, "Report (MQMD)": options of several kinds may be given together."""
    put(app, Report=COA | COD)
    bring_about(app, "COD")

    assert [md.Feedback for _, md in reports(app)] == [259, 260]


def test_a_report_on_arrival_belongs_to_the_unit_of_work_of_the_put(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "Report (MQMD)", MQRO_COA: it can be got only if the unit is committed."""
    other = mq.connect()
    put(app, BODY, "SYNCPOINT", Report=COA)
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        app.get(app.open("B", "INPUT_SHARED"), "SYNCPOINT")
    assert reports(other) == []
    app.handle.commit()
    assert len(reports(other)) == 1

    put(app, BODY, "SYNCPOINT", Report=COA)
    app.handle.backout()
    assert (reports(other), app.depth("B")) == ([], 0)


def test_a_report_inherits_the_discard_option_and_the_expiry(app: Application) -> None:
    """IBM MQ docs, "Report (MQMD)": MQRO_PASS_DISCARD_AND_EXPIRY, MQRO_DISCARD_MSG."""
    assert option(app, "PASS_DISCARD_AND_EXPIRY") == PASS_DISCARD_AND_EXPIRY
    assert option(app, "DISCARD_MSG") == DISCARD_MSG
    put(app, Report=COA | PASS_DISCARD_AND_EXPIRY | DISCARD_MSG, Expiry=6000)

    ((_, md),) = reports(app)

    assert md.Report == DISCARD_MSG
    assert 0 < md.Expiry <= 6000


@pytest.mark.parametrize(
    ("bits", "reason", "depth"),
    [
        (COA, "MQRC_MISSING_REPLY_TO_Q", 0),
        (COD, "MQRC_MISSING_REPLY_TO_Q", 0),
        (EXPIRATION, "MQRC_MISSING_REPLY_TO_Q", 0),
        (0x1000000, "MQRC_MISSING_REPLY_TO_Q", 0),  # MQRO_EXCEPTION
        (0x10000000, "MQRC_REPORT_OPTIONS_ERROR", 0),
        (0x100000, "MQRC_REPORT_OPTIONS_ERROR", 0),
        (0x10000, "MQRC_REPORT_OPTIONS_ERROR", 0),
        (0x20, "MQRC_UNKNOWN_REPORT_OPTION", 1),
    ],
)
def test_a_report_request_needs_a_reply_queue_and_known_options(
    app: Application, bits: int, reason: str, depth: int
) -> None:
    """IBM MQ docs, "2027 (07EB) (RC2027)", "2061 (080D) (RC2061)", "2104 (0838) (RC2104)".

    "Structure of the report field": bits that are not known are refused, or accepted with a
    warning; some are accepted only on the way to another queue manager.
    """
    with app.failing(reason):
        app.put("A", Report=bits)

    assert app.depth("A") == depth


def test_options_that_ask_for_no_report_need_no_reply_queue(app: Application) -> None:
    """IBM MQ docs, "Report (MQMD)": how replies are identified, and what to do with the message."""
    app.put("A", Report=PASS_CORREL_ID | PASS_MSG_ID | PASS_DISCARD_AND_EXPIRY | DISCARD_MSG)

    assert app.depth("A") == 1


def test_the_queue_manager_makes_no_exception_reports(app: Application) -> None:
    """IBM MQ docs, "Report (MQMD)", MQRO_EXCEPTION: a reason code replaces the report.

    So with MQRO_EXCEPTION_WITH_DATA and MQRO_EXCEPTION_WITH_FULL_DATA; MQRO_PAN and MQRO_NAN ask
    the receiving application, MQRO_ACTIVITY asks programs that trace a route.
    """
    every = ("EXCEPTION_WITH_FULL_DATA", "PAN", "NAN", "ACTIVITY")
    put(app, Report=sum(option(app, name) for name in every))
    bring_about(app, "COD")

    assert reports(app) == []


@pytest.mark.embedded_only
def test_a_report_has_the_messages_identity_and_the_queue_managers_origin(
    app: Application,
) -> None:
    """The context of a report as it is recalled; see docs/reference/mqi-coverage.md."""
    sent = put(app, Report=COA)

    ((_, md),) = reports(app)

    assert (md.UserIdentifier, md.AccountingToken) == (sent.UserIdentifier, sent.AccountingToken)
    assert (md.PutApplType, md.PutApplName) == (7, b"QM1".ljust(28))
    assert (md.ReplyToQ, md.ReplyToQMgr) == (b" " * 48, b"QM1".ljust(48))
    assert re.fullmatch(rb"20\d{6}", md.PutDate)


@pytest.mark.embedded_only
def test_no_arrival_or_delivery_of_a_dead_letter_is_reported(app: Application) -> None:
    """As it is recalled; see docs/reference/mqi-coverage.md. It may expire."""
    put(app, b"DLH ".ljust(172) + BODY, Report=COA | COD, Format=b"MQDEAD  ")
    bring_about(app, "COD")
    assert reports(app) == []

    full = option(app, "EXPIRATION_WITH_DATA")
    put(app, b"DLH ".ljust(172) + BODY, Report=full, Format=b"MQDEAD  ", Expiry=1)
    bring_about(app, "EXPIRATION")
    ((body, md),) = reports(app)
    assert (len(body), md.Format) == (272, b"MQDEAD  ")
