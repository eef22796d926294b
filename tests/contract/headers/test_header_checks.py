"""Checks of MQ headers at the beginning of a message, which HDRCHECK enables."""

from __future__ import annotations

import struct

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

NATIVE, LATIN_1, INHERIT = 546, 819, -2
ANYTHING = (NATIVE, LATIN_1, b"MQSTR   ")
MQDEAD, MQXMIT, MQHRF, MQHRF2, MQHMDE = (
    b"MQDEAD  ",
    b"MQXMIT  ",
    b"MQHRF   ",
    b"MQHRF2  ",
    b"MQHMDE  ",
)


def dlh(
    following: tuple[int, int, bytes] = ANYTHING,
    *,
    struc_id: bytes = b"DLH ",
    version: int = 1,
    order: str = "<",
) -> bytes:
    names = (b"Q".ljust(48), b"QM".ljust(48))
    end = (6, b"mover".ljust(28), b"20261122", b"08000000")
    return struct.pack(
        f"{order}4sii48s48sii8si28s8s8s", struc_id, version, 2053, *names, *following, *end
    )


def rfh(
    version: int = 2,
    *,
    struc_id: bytes = b"RFH ",
    length: int = 0,
    following: tuple[int, int, bytes] = ANYTHING,
) -> bytes:
    fixed = "<4siiii8si" + ("i" if version == 2 else "")
    size = length or struct.calcsize(fixed)
    values = (struc_id, version, size, *following, 0, *((1208,) if version == 2 else ()))
    return struct.pack(fixed, *values)


def xqh(*, struc_id: bytes = b"XQH ", version: int = 1, within: bytes = b"MQSTR   ") -> bytes:
    before = struct.pack("<4si48s48s", struc_id, version, b"Q".ljust(48), b"QM2".ljust(48))
    md = struct.pack("<4siiiiiii8s", b"MD  ", 1, 0, 8, -1, 0, NATIVE, LATIN_1, within)
    return before + md.ljust(324, b"\0")


def mde(*, length: int = 72, ccsid: int = LATIN_1) -> bytes:
    group = (bytes(24), 1, 0, 0, -1)
    return struct.pack(
        "<4siiii8si24siiii", b"MDE ", 2, length, NATIVE, ccsid, b"MQSTR   ", 0, *group
    )


WRONG = [
    (MQDEAD, dlh(struc_id=b"DLHX"), "MQRC_DLH_ERROR"),
    (MQDEAD, dlh(version=2), "MQRC_DLH_ERROR"),
    (MQDEAD, dlh((NATIVE, 0, b"MQSTR   ")), "MQRC_DLH_ERROR"),
    (MQDEAD, dlh((NATIVE, -1, b"MQSTR   ")), "MQRC_DLH_ERROR"),
    (MQDEAD, dlh(order=">"), "MQRC_DLH_ERROR"),
    (MQDEAD, dlh()[:171], "MQRC_DLH_ERROR"),
    (MQDEAD, b"", "MQRC_DLH_ERROR"),
    (MQHRF2, rfh(struc_id=b"RFHX"), "MQRC_RFH_ERROR"),
    (MQHRF2, rfh(1), "MQRC_RFH_ERROR"),
    (MQHRF2, rfh(length=35), "MQRC_RFH_ERROR"),
    (MQHRF2, rfh(length=40), "MQRC_RFH_ERROR"),
    (MQHRF2, rfh(following=(NATIVE, 0, b"MQSTR   ")), "MQRC_RFH_ERROR"),
    (MQHRF, rfh(2), "MQRC_RFH_ERROR"),
    (MQHRF2, rfh(following=(NATIVE, LATIN_1, MQDEAD)) + dlh()[:100], "MQRC_DLH_ERROR"),
    (MQXMIT, xqh(struc_id=b"XQHX"), "MQRC_XQH_ERROR"),
    (MQXMIT, xqh(version=2), "MQRC_XQH_ERROR"),
    (MQXMIT, xqh()[:427], "MQRC_XQH_ERROR"),
    (MQXMIT, xqh(within=MQHRF2) + rfh(length=99), "MQRC_RFH_ERROR"),
    (MQHMDE, mde(length=73) + b"x", "MQRC_MDE_ERROR"),
    (MQHMDE, mde(ccsid=0), "MQRC_MDE_ERROR"),
]
RIGHT = [
    (MQDEAD, dlh()),
    (MQDEAD, dlh((NATIVE, INHERIT, b"MQSTR   "))),
    (MQDEAD, dlh((NATIVE, LATIN_1, MQHRF2)) + b"cut off behind the first MQDLH"),
    (MQDEAD, dlh(struc_id="DLH ".encode("cp500"))),
    (MQHRF2, rfh() + b"body"),
    (MQHRF, rfh(1) + b"body"),
    (MQXMIT, xqh() + b"body"),
    (MQHMDE, mde()),
    (b"MQCICS  ", b"not checked"),
]


@pytest.mark.parametrize(("name", "body", "reason"), WRONG)
def test_an_invalid_header_is_refused_with_a_version_2_mqmd(
    mq: World, app: Application, name: bytes, body: bytes, reason: str
) -> None:
    """IBM MQ docs, "Version (MQMD)", (RC2141), (RC2248), (RC2260), (RC2334); ALTER QMGR."""
    mq.mqsc("ALTER QMGR HDRCHECK(YES)")
    described = {"Format": name, "Encoding": NATIVE, "CodedCharSetId": LATIN_1}

    with app.failing(reason):
        app.put("A", body, **described)
    with app.failing(reason):
        app.put(app.open("A", "OUTPUT"), body, "SYNCPOINT", **described)
    app.handle.backout()
    mq.mqsc("ALTER QMGR HDRCHECK(NO)")
    app.put("A", body, **described)
    assert app.depth("A") == 1


@pytest.mark.parametrize(("name", "body"), [(n, b) for n, b, _ in WRONG if n != MQHMDE])
def test_no_header_is_checked_with_a_version_1_mqmd(
    mq: World, app: Application, name: bytes, body: bytes
) -> None:
    """IBM MQ docs, "Version (MQMD)": the additional checks need a version 2 MQMD."""
    mq.mqsc("ALTER QMGR HDRCHECK(YES)")

    app.put("A", body, Version=1, Format=name, Encoding=NATIVE, CodedCharSetId=LATIN_1)

    assert app.depth("A") == 1


@pytest.mark.parametrize(("name", "body"), RIGHT)
def test_a_valid_mq_header_is_accepted(
    mq: World, app: Application, name: bytes, body: bytes
) -> None:
    """IBM MQ docs, "MQDLH", "MQRFH2", "MQXQH", "MQMDE"; a structure after an MQDLH may be cut."""
    mq.mqsc("ALTER QMGR HDRCHECK(YES)")

    app.put("A", body, Format=name, Encoding=NATIVE, CodedCharSetId=LATIN_1)

    assert app.depth("A") == 1
