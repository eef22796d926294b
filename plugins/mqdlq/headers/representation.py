"""Byte order and text codec of a header, from the Encoding and CCSID stated before it."""

import re
import sys
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import SPECIAL_CCSIDS, Family, TextCodec, text_codec


class ByteOrder(StrEnum):
    """The byte order of an MQLONG, with the character that `struct` uses."""

    BIG = ">"
    LITTLE = "<"

    def integer(self, data: bytes) -> int:
        """Decode an MQLONG in this order; never fails."""
        little = self is ByteOrder.LITTLE
        return int.from_bytes(data, "little" if little else "big", signed=True)


NATIVE: Final = 546 if sys.byteorder == "little" else 273
"""The Encoding in which the client library packs structures on this machine (MQENC_NATIVE)."""
_INTEGER_MASK: Final = 0xF
_INTEGER_ORDERS: Final = {1: ByteOrder.BIG, 2: ByteOrder.LITTLE}
_DEFAULT_CCSIDS: Final = {Family.ASCII: 819, Family.EBCDIC: 500}


def integer_order(encoding: int) -> ByteOrder | None:
    """Return the byte order of an Encoding, or None if the Encoding states none.

    Only MQENC_INTEGER_MASK counts: 1 is MQENC_INTEGER_NORMAL (big-endian), 2 is _REVERSED. The bits
    for packed decimal and floating-point numbers do not matter, because headers have no such
    numbers: 17, 273 and 785 are all big-endian (IBM MQ docs, "Machine encodings").
    """
    return _INTEGER_ORDERS.get(encoding & _INTEGER_MASK)


def order_of(structure: str, encoding: int) -> ByteOrder:
    """Return the byte order of an Encoding; raise `MalformedHeaderError` if it states none."""
    order = integer_order(encoding)
    if order is None:
        expected = "an Encoding with an integer order (MQENC_INTEGER_NORMAL or _REVERSED)"
        raise MalformedHeaderError(structure, 4, expected, f"Encoding {encoding}")
    return order


def header_codec(ccsid: int, family: Family) -> TextCodec | None:
    """Return the codec for header text; a special CCSID means the family's default CCSID."""
    return text_codec(_DEFAULT_CCSIDS[family] if ccsid in SPECIAL_CCSIDS else ccsid)


def codec_of(structure: str, ccsid: int, family: Family) -> TextCodec:
    codec = header_codec(ccsid, family)
    if codec is None:
        raise MalformedHeaderError(structure, 0, "a CCSID this project reads", f"CCSID {ccsid}")
    return codec


def family_of(start: bytes, struc_id: str) -> Family:
    """Return the family in which a StrucId is written, ASCII if neither matches."""
    return Family.EBCDIC if start[:4] == _in_ebcdic(struc_id) else Family.ASCII


@cache
def _in_ebcdic(struc_id: str) -> bytes:
    return struc_id.encode("cp500")


# Convert the date and time fields and the remaining Expiry of a message into UTC times.

_DATE_AND_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)", re.ASCII)
_HUNDREDTH: Final = 10_000  # microseconds


def parse_gmt(date: str, time: str) -> datetime | None:
    """Parse PutDate (YYYYMMDD) and PutTime (HHMMSSTH, in GMT); return None if malformed."""
    match = _DATE_AND_TIME.fullmatch(date + time)
    if match is None:
        return None
    year, month, day, hour, minute, second, hundredths = map(int, match.groups())
    try:
        return datetime(year, month, day, hour, minute, second, hundredths * _HUNDREDTH, tzinfo=UTC)
    except ValueError:
        return None


def expires_at(expiry: int, browsed_at: datetime) -> datetime | None:
    """Return when a message expires, from its MQMD.Expiry (tenths of a second) at a browse.

    None for MQEI_UNLIMITED (-1). A time after the year 9999 becomes the last moment of that year.
    """
    if expiry < 0:
        return None
    try:
        return browsed_at + timedelta(milliseconds=100 * expiry)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
