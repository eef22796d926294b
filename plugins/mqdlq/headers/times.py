"""Convert the date and time fields and the remaining Expiry of a message into UTC times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

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
