"""Check the MQ headers at the beginning of a message that is put with a version 2 MQMD.

IBM documents these checks ("Version (MQMD)", "2141 (085D) (RC2141)", "2248 (08C8) (RC2248)",
"2260 (08D4) (RC2260)", "2334 (091E) (RC2334)"), but also says that the queue manager does not
require valid values in an MQDLH. The queue manager attribute HDRCHECK, which IBM MQ does not have,
enables them.
"""

import struct
from dataclasses import dataclass

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.headers.mq_headers import XQH_LENGTH
from embedded_mq.headers.rfh2 import DESCRIPTION, Description
from embedded_mq.structures import MQDLH, MQMD, MQMDE, MQRFH, MQRFH2, MQXQH


@dataclass(frozen=True, slots=True)
class _Rule:
    """Requirements of a header: `length` is the minimum of its StrucLength, if it has one.

    `described_at` is the offset of the description of the data after the header.
    """

    struc_id: str
    version: int
    length: int
    described_at: int
    reason: str
    has_struc_length: bool = True
    has_ccsid: bool = True


_DESCRIBED_AT = MQMDE.offset_of("encoding")
CHECKED = {
    b"MQDEAD  ": _Rule(
        "DLH ",
        1,
        MQDLH.length,
        MQDLH.offset_of("encoding"),
        "MQRC_DLH_ERROR",
        has_struc_length=False,
    ),
    b"MQXMIT  ": _Rule(
        "XQH ",
        1,
        XQH_LENGTH,
        MQXQH.length + MQMD.offset_of("encoding"),
        "MQRC_XQH_ERROR",
        has_struc_length=False,
        has_ccsid=False,
    ),
    b"MQHMDE  ": _Rule("MDE ", 2, MQMDE.length, _DESCRIBED_AT, "MQRC_MDE_ERROR"),
    b"MQHRF   ": _Rule("RFH ", 1, MQRFH.length, _DESCRIBED_AT, "MQRC_RFH_ERROR"),
    b"MQHRF2  ": _Rule("RFH ", 2, MQRFH2.length, _DESCRIBED_AT, "MQRC_RFH_ERROR"),
}
"""The headers that are checked, by the Format that names them; the first other Format ends it."""

_BEGINNING = {order: struct.Struct(f"{order}4sii") for order in "<>"}
"""StrucId, Version, and StrucLength if the header has one."""


def check_headers(md: MQMD, body: bytes) -> None:
    """Refuse a message whose chain of headers is invalid, up to its first MQDLH.

    The reason code is that of the first invalid header.
    """
    described, position = Description(md.encoding, md.coded_char_set_id, md.format), 0
    while (rule := CHECKED.get(described.format)) is not None:
        order = described.order
        length = _length(rule, order, body, position)
        if length is None:
            raise CallFailedError(rule.reason)
        at = position + rule.described_at
        encoding, ccsid, format_name = DESCRIPTION[order].unpack_from(body, at)
        if rule.has_ccsid and ccsid < 1 and ccsid != mq.MQCCSI_INHERIT:
            raise CallFailedError(rule.reason)
        if rule.reason == "MQRC_DLH_ERROR":
            return  # structures after the first MQDLH may be truncated
        described, position = Description(encoding, ccsid, format_name), position + length


def _length(rule: _Rule, order: str, body: bytes, position: int) -> int | None:
    """Return the length of the header at a position, or None if it is invalid."""
    rest = len(body) - position
    if rest < rule.length:
        return None
    struc_id, version, length = _BEGINNING[order].unpack_from(body, position)
    if struc_id not in {rule.struc_id.encode(), rule.struc_id.encode("cp500")}:
        return None
    if version != rule.version:
        return None
    if not rule.has_struc_length:
        return rule.length
    is_right = length == rule.length if rule.reason == "MQRC_MDE_ERROR" else length >= rule.length
    return length if is_right and length <= rest else None
