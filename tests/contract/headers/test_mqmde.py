"""The MQMDE, which is part of the MQMD or message data."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

MDE = struct.Struct("<4siiii8si24siiii")
DLH = struct.Struct("<4sii48s48sii8si28s8s8s")
GROUP = b"g" * 24
LATER = (GROUP, 3, 0, 8, -1)
"""GroupId, MsgSeqNumber, Offset, MsgFlags and OriginalLength of a message in a group."""
DEFAULTS = (bytes(24), 1, 0, 0, -1)
Q_MGR_CCSID = 0
LATIN_1 = 819


def mde(values: tuple[Any, ...] = LATER, **fields: Any) -> bytes:
    """Build an MQMDE; `fields` replace its defaults."""
    described = {
        "StrucId": b"MDE ",
        "Version": 2,
        "StrucLength": 72,
        "Encoding": 546,
        "CodedCharSetId": LATIN_1,
        "Format": b"MQSTR   ",
        "Flags": 0,
    } | fields
    return MDE.pack(*described.values(), *values)


def put(app: Application, body: bytes, **fields: Any) -> Any:
    return app.put("A", body, Format=b"MQHMDE  ", CodedCharSetId=Q_MGR_CCSID, **fields)


def kept(md: Any) -> tuple[Any, ...]:
    return md.GroupId, md.MsgSeqNumber, md.Offset, md.MsgFlags, md.OriginalLength


def get(app: Application, queue: str = "A", version: int = 2) -> tuple[bytes, Any]:
    return app.get(app.open(queue, "INPUT_SHARED"), Version=version)


@pytest.mark.parametrize("version", [1, 2])
def test_an_mqmde_is_honoured_if_the_mqmd_has_defaults(app: Application, version: int) -> None:
    """IBM MQ docs, "MQMDE specified on MQPUT and MQPUT1 calls": version 1, or version 2 defaults.

    It does not change the application's own MQMD.
    """
    sent = put(app, mde() + b"body", Version=version)

    body, md = get(app)

    assert (body, kept(md)) == (b"body", LATER)
    assert (md.Format, md.Encoding, md.CodedCharSetId) == (b"MQSTR   ", 546, LATIN_1)
    assert (sent.Format, kept(sent)) == (b"MQHMDE  ", DEFAULTS)


@pytest.mark.parametrize(
    "fields", [{"MsgFlags": 16, "GroupId": b"o" * 24}, {"Encoding": 273}, {"CodedCharSetId": 37}]
)
def test_an_mqmde_is_data_next_to_other_values_or_in_another_encoding(
    app: Application, fields: dict[str, Any]
) -> None:
    """IBM MQ docs, "MQMDE specified on MQPUT and MQPUT1 calls": treated as message data."""
    whole = mde() + b"body"
    given = {"Format": b"MQHMDE  ", "CodedCharSetId": Q_MGR_CCSID} | fields
    app.put("A", whole, **given)

    body, md = get(app)

    assert (body, md.Format) == (whole, b"MQHMDE  ")
    assert md.GroupId == fields.get("GroupId", bytes(24))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (mde(StrucId=b"MDX "), "MQRC_MDE_ERROR"),
        (mde(StrucLength=73), "MQRC_MDE_ERROR"),
        (mde(CodedCharSetId=0), "MQRC_MDE_ERROR"),
        (mde()[:71], "MQRC_MDE_ERROR"),
        (mde((GROUP, 0, 0, 8, -1)), "MQRC_MSG_SEQ_NUMBER_ERROR"),
        (mde((GROUP, 1, -1, 2, -1)), "MQRC_OFFSET_ERROR"),
        (mde((GROUP, 1, 0, 0x20, -1)), "MQRC_MSG_FLAGS_ERROR"),
    ],
)
def test_an_invalid_mqmde_fails_the_put(app: Application, body: bytes, reason: str) -> None:
    """IBM MQ docs, "2248 (08C8) (RC2248): MQRC_MDE_ERROR", and the reasons for each field."""
    with app.failing(reason):
        put(app, body, Version=1)

    assert app.depth("A") == 0


def test_a_get_with_a_version_1_mqmd_returns_an_mqmde_unless_it_has_defaults(
    app: Application,
) -> None:
    """IBM MQ docs, "MQMDE returned by MQGET call": only if a field has no default value."""
    fields = {"GroupId": GROUP, "MsgSeqNumber": 3, "MsgFlags": 8}
    app.put("A", b"body", Format=b"MQSTR   ", CodedCharSetId=LATIN_1, **fields)
    app.put("A", b"alone", Format=b"MQSTR   ", CodedCharSetId=LATIN_1)

    body, md = get(app, version=1)
    assert (body, md.Version) == (mde() + b"body", 1)
    assert (md.Format, md.Encoding) == (b"MQHMDE  ", 546)
    body, md = get(app, version=1)
    assert (body, md.Format) == (b"alone", b"MQSTR   ")


def test_a_message_got_with_a_version_1_mqmd_may_be_put_again(app: Application) -> None:
    """IBM MQ docs, "Use different versions of MQMD": version 1 and an MQMDE, or version 2."""
    fields = {"GroupId": GROUP, "MsgSeqNumber": 3, "Offset": 6, "MsgFlags": 8 | 4}
    app.put("B", b"body", Format=b"MQSTR   ", CodedCharSetId=LATIN_1, **fields)
    body, md = get(app, "B", version=1)
    app.open("A", "OUTPUT").put(body, md, app.pmo())

    body, md = get(app)

    assert (body, kept(md)) == (b"body", (GROUP, 3, 6, 8 | 4 | 2, 4))


def test_the_length_returned_for_a_short_buffer_includes_the_mqmde(app: Application) -> None:
    """IBM MQ docs, "2080 (0820) (RC2080): MQRC_TRUNCATED_MSG_FAILED"."""
    app.put("A", b"body", MsgFlags=8)
    queue = app.open("A", "INPUT_SHARED")
    gmo = app.gmo()

    with app.failing("MQRC_TRUNCATED_MSG_FAILED") as caught:
        queue.get(4, app.md(Version=1), gmo)

    assert caught.value.original_length == 72 + 4


def dead_letter(body: bytes) -> bytes:
    names = b"PAYMENTS".ljust(48), b"QM1".ljust(48)
    putter = 6, b"mover".ljust(28), b"20261121", b"11000000"
    return DLH.pack(b"DLH ", 1, 2053, *names, 546, LATIN_1, b"MQSTR   ", *putter) + body


def test_a_dead_letter_of_a_segment_has_an_mqmde_after_its_mqdlh(app: Application) -> None:
    """IBM MQ docs, "MQMDE specified on MQPUT and MQPUT1 calls": the special case.

    The stored MQMD has the defaults; without its MQDLH, the message is the segment again.
    """
    fields = {"GroupId": GROUP, "MsgSeqNumber": 3, "Offset": 6, "MsgFlags": 8 | 4}
    letter = dead_letter(b"body")
    app.put("A", letter, Format=b"MQDEAD  ", CodedCharSetId=LATIN_1, **fields)

    body, md = get(app)

    assert (md.Format, kept(md)) == (b"MQDEAD  ", DEFAULTS)
    header = DLH.unpack(body[:172])
    assert (header[5], header[7]) == (546, b"MQHMDE  ")
    assert body[172:] == mde((GROUP, 3, 6, 8 | 4 | 2, 4)) + b"body"
    assert body[:116] == letter[:112] + struct.pack("<i", header[6])

    put(app, body[172:])
    body, md = get(app)
    assert (body, kept(md)) == (b"body", (GROUP, 3, 6, 8 | 4 | 2, 4))


def test_a_dead_letter_in_a_group_keeps_the_group_fields_in_its_mqmd(app: Application) -> None:
    """IBM MQ docs, "MQMDE specified on MQPUT and MQPUT1 calls": the case is of segments alone."""
    letter = dead_letter(b"body")
    app.put("A", letter, Format=b"MQDEAD  ", GroupId=GROUP, MsgSeqNumber=3, MsgFlags=8)

    body, md = get(app)

    assert (body, kept(md)) == (letter, LATER)


def test_an_mqmde_follows_the_mqxqh_on_a_transmission_queue(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQXQH": the embedded MQMD is of version 1, the separate one has defaults."""
    mq.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)")
    fields = {"GroupId": GROUP, "MsgSeqNumber": 3, "MsgFlags": 8}
    there = app.open("ORDERS", "OUTPUT", q_mgr="QM2")
    app.put(there, b"body", Format=b"MQSTR   ", CodedCharSetId=LATIN_1, **fields)

    envelope, md = get(app, "QM2")

    assert (md.Format, kept(md)) == (b"MQXMIT  ", DEFAULTS)
    inner = app.mqi.MD(Version=1)
    inner.unpack(envelope[104:428] + bytes(40))
    assert (inner.Version, inner.Format) == (1, b"MQHMDE  ")
    assert envelope[428:] == mde() + b"body"
