"""Group and segment fields of MQMD: what is refused, and what is kept with a message."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

SEGMENTATION_ALLOWED, SEGMENT, LAST_SEGMENT, IN_GROUP, LAST_IN_GROUP = 1, 2, 4, 8, 16
GROUP = b"g" * 24
NO_GROUP = bytes(24)


def kept(md: Any) -> tuple[bytes, int, int, int, int]:
    return md.GroupId, md.MsgSeqNumber, md.Offset, md.MsgFlags, md.OriginalLength


def get_a(app: Application) -> Any:
    return app.get(app.open("A", "INPUT_SHARED"))[1]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"MsgFlags": IN_GROUP, "MsgSeqNumber": 0}, "MQRC_MSG_SEQ_NUMBER_ERROR"),
        ({"MsgFlags": IN_GROUP, "MsgSeqNumber": 1_000_000_000}, "MQRC_MSG_SEQ_NUMBER_ERROR"),
        ({"MsgFlags": SEGMENT, "Offset": -5}, "MQRC_OFFSET_ERROR"),
        ({"MsgFlags": SEGMENT, "Offset": 1_000_000_000}, "MQRC_OFFSET_ERROR"),
        ({"MsgFlags": 0x20}, "MQRC_MSG_FLAGS_ERROR"),
        ({"MsgFlags": 0x1000}, "MQRC_MSG_FLAGS_ERROR"),
        ({"MsgFlags": SEGMENT, "MsgType": 4, "OriginalLength": 3}, "MQRC_ORIGINAL_LENGTH_ERROR"),
    ],
)
def test_invalid_group_fields_are_refused(
    app: Application, fields: dict[str, Any], reason: str
) -> None:
    """IBM MQ docs, "2249 (08C9) (RC2249)" to "2252 (08CC) (RC2252)".

    "Structure of the message-flags field": which flags that are not known are refused.
    """
    with app.failing(reason):
        app.put("A", b"body", **fields)

    assert app.depth("A") == 0


def test_only_the_last_segment_may_be_empty(app: Application) -> None:
    """IBM MQ docs, "2253 (08CD) (RC2253): MQRC_SEGMENT_LENGTH_ZERO": headers do not count."""
    with app.failing("MQRC_SEGMENT_LENGTH_ZERO"):
        app.put("A", b"", MsgFlags=SEGMENT)

    app.put("A", b"", MsgFlags=LAST_SEGMENT)


def test_unknown_message_flags_that_may_be_accepted_are_kept(app: Application) -> None:
    """IBM MQ docs, "Structure of the message-flags field": MQMF_ACCEPT_UNSUP_MASK."""
    app.put("A", b"body", MsgFlags=0x100000)

    assert get_a(app).MsgFlags == 0x100000


@pytest.mark.parametrize("flags", [SEGMENTATION_ALLOWED, SEGMENT, IN_GROUP, LAST_IN_GROUP])
def test_the_queue_manager_makes_a_missing_group_identifier(app: Application, flags: int) -> None:
    """IBM MQ docs, "GroupId (MQMD)": the first message of a group is put with MQGI_NONE.

    MQMF_SEGMENTATION_ALLOWED, MQMF_SEGMENT, MQMF_MSG_IN_GROUP, MQMF_LAST_MSG_IN_GROUP.
    """
    md = app.put("A", b"body", MsgFlags=flags)

    assert md.GroupId != NO_GROUP
    assert get_a(app).GroupId == md.GroupId


def test_a_message_outside_groups_has_default_group_fields(app: Application) -> None:
    """IBM MQ docs, "GroupId", "MsgSeqNumber", "Offset" and "OriginalLength" of MQMD."""
    md = app.put("A", b"body", GroupId=GROUP, MsgSeqNumber=5, Offset=7, OriginalLength=9)

    assert (md.GroupId, md.MsgSeqNumber, md.Offset) == (NO_GROUP, 1, 0)
    assert kept(get_a(app)) == (NO_GROUP, 1, 0, 0, -1)


def test_implied_message_flags_are_kept_with_the_message(app: Application) -> None:
    """IBM MQ docs, "MsgFlags (MQMD)": MQMF_LAST_MSG_IN_GROUP, MQMF_LAST_SEGMENT.

    The flags they imply are set in the message, not in the MQMD of the application. OriginalLength
    is that of a segment's data.
    """
    flags = LAST_IN_GROUP | LAST_SEGMENT
    md = app.put("A", b"body", GroupId=GROUP, MsgSeqNumber=5, Offset=7, MsgFlags=flags)

    assert (md.GroupId, md.MsgSeqNumber, md.Offset, md.MsgFlags) == (GROUP, 5, 7, flags)
    assert kept(get_a(app)) == (GROUP, 5, 7, flags | IN_GROUP | SEGMENT, 4)


@pytest.mark.parametrize(
    ("flags", "statuses"),
    [
        (0, b"   "),
        (IN_GROUP, b"G  "),
        (LAST_IN_GROUP, b"L  "),
        (SEGMENT, b" S "),
        (LAST_SEGMENT | SEGMENTATION_ALLOWED, b" LA"),
    ],
)
def test_a_get_returns_the_position_of_a_message_in_its_group(
    app: Application, flags: int, statuses: bytes
) -> None:
    """IBM MQ docs, "GroupStatus", "SegmentStatus" and "Segmentation" of MQGMO."""
    app.put("A", b"body", MsgFlags=flags)
    gmo = app.gmo()
    app.open("A", "BROWSE").get(None, app.md(), app.gmo("BROWSE_FIRST"))
    app.open("A", "INPUT_SHARED").get(None, app.md(), gmo)

    at = 72 + 4
    assert gmo.pack()[at : at + 3] == statuses


def test_the_report_on_a_segment_is_a_segment(app: Application) -> None:
    """IBM MQ docs, "OriginalLength (MQMD)": what the queue manager copies into a report."""
    fields = {"GroupId": GROUP, "MsgSeqNumber": 5, "Offset": 7, "MsgFlags": LAST_SEGMENT | IN_GROUP}
    app.put("A", b"body", Report=0x100, ReplyToQ=b"B", **fields)

    md = app.get(app.open("B", "INPUT_SHARED"))[1]

    assert kept(md) == (GROUP, 5, 7, LAST_SEGMENT | SEGMENT | IN_GROUP, 4)


def test_a_message_that_needs_segmentation_is_refused_and_logged(
    mq: World, app: Application, caplog: pytest.LogCaptureFixture
) -> None:
    """IBM MQ docs, "MsgFlags (MQMD)": MQMF_SEGMENTATION_ALLOWED, as on z/OS."""
    mq.mqsc("ALTER QLOCAL(A) MAXMSGL(3)")

    with caplog.at_level(logging.WARNING), app.failing("MQRC_MSG_TOO_BIG_FOR_Q"):
        app.put("A", b"body", MsgFlags=SEGMENTATION_ALLOWED)

    (told,) = caplog.messages
    assert told == (
        "segmentation by the queue manager (MQMF_SEGMENTATION_ALLOWED) is not emulated; the call"
        " fails with MQRC_MSG_TOO_BIG_FOR_Q (2030)"
    )
