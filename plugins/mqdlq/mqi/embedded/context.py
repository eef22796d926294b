"""Message context: who put a message, passed on, set or made anew.

IBM MQ docs, "Message context".
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache, lru_cache
from pathlib import Path

from mqdlq.mqi.embedded import mqi_constants as mq
from mqdlq.mqi.embedded.connection import Connection, OpenObject
from mqdlq.mqi.embedded.failures import CallFailedError
from mqdlq.mqi.embedded.structures import (
    IDENTITY_CONTEXT,
    MQMD,
    MQPMO,
    ORIGIN_CONTEXT,
    blank_padded,
    normalised,
)

CHOICES = (
    mq.MQPMO_DEFAULT_CONTEXT
    | mq.MQPMO_NO_CONTEXT
    | mq.MQPMO_PASS_IDENTITY_CONTEXT
    | mq.MQPMO_PASS_ALL_CONTEXT
    | mq.MQPMO_SET_IDENTITY_CONTEXT
    | mq.MQPMO_SET_ALL_CONTEXT
)

# The open options that allow each put option; some imply others (IBM MQ docs, "MQOPEN options").
_ALLOWED_BY = {
    mq.MQPMO_PASS_IDENTITY_CONTEXT: (
        mq.MQOO_PASS_IDENTITY_CONTEXT
        | mq.MQOO_PASS_ALL_CONTEXT
        | mq.MQOO_SET_IDENTITY_CONTEXT
        | mq.MQOO_SET_ALL_CONTEXT,
        "MQRC_NOT_OPEN_FOR_PASS_IDENT",
    ),
    mq.MQPMO_PASS_ALL_CONTEXT: (
        mq.MQOO_PASS_ALL_CONTEXT | mq.MQOO_SET_ALL_CONTEXT,
        "MQRC_NOT_OPEN_FOR_PASS_ALL",
    ),
    mq.MQPMO_SET_IDENTITY_CONTEXT: (
        mq.MQOO_SET_IDENTITY_CONTEXT | mq.MQOO_SET_ALL_CONTEXT,
        "MQRC_NOT_OPEN_FOR_SET_IDENT",
    ),
    mq.MQPMO_SET_ALL_CONTEXT: (mq.MQOO_SET_ALL_CONTEXT, "MQRC_NOT_OPEN_FOR_SET_ALL"),
}


def fill_in(connection: Connection, opened: OpenObject, md: MQMD, pmo: MQPMO, now: float) -> None:
    """Give the descriptor of a message being put the context its options ask for."""
    choice = pmo.options & CHOICES
    if choice.bit_count() > 1:
        raise CallFailedError("MQRC_OPTIONS_ERROR")
    if choice in _ALLOWED_BY:
        options, reason = _ALLOWED_BY[choice]
        if not opened.allows(options):
            raise CallFailedError(reason)
    if choice == mq.MQPMO_NO_CONTEXT:
        _blank(md)
        return
    passing = choice in {mq.MQPMO_PASS_IDENTITY_CONTEXT, mq.MQPMO_PASS_ALL_CONTEXT}
    source = _saved(connection, pmo.context) if passing else md
    if passing or choice in {mq.MQPMO_SET_IDENTITY_CONTEXT, mq.MQPMO_SET_ALL_CONTEXT}:
        _take(IDENTITY_CONTEXT, source, md)
    else:
        _make_identity(connection.user, md)
    if choice in {mq.MQPMO_PASS_ALL_CONTEXT, mq.MQPMO_SET_ALL_CONTEXT}:
        _take(ORIGIN_CONTEXT, source, md)
    else:
        _make_origin(md, mq.MQAT_UNIX, _program_name(), now)


def _saved(connection: Connection, handle: int) -> MQMD:
    """Return the context kept with a queue handle (IBM MQ docs, "Context (MQPMO)")."""
    try:
        source = connection.object(handle)
    except CallFailedError:
        raise CallFailedError("MQRC_CONTEXT_HANDLE_ERROR") from None
    if not source.allows(mq.MQOO_SAVE_ALL_CONTEXT):
        raise CallFailedError("MQRC_CONTEXT_HANDLE_ERROR")
    if source.saved_context is None:
        raise CallFailedError("MQRC_CONTEXT_NOT_AVAILABLE")
    return source.saved_context


def _take(fields: tuple[str, ...], source: MQMD, md: MQMD) -> None:
    for name in fields:
        value = getattr(source, name)
        is_text = isinstance(value, bytes) and name != "accounting_token"
        setattr(md, name, normalised(value) if is_text else value)


def _blank(md: MQMD) -> None:
    md.user_identifier, md.appl_identity_data = b" " * 12, b" " * 32
    md.accounting_token = bytes(32)
    md.put_appl_type, md.put_appl_name = mq.MQAT_NO_CONTEXT, b" " * 28
    md.put_date, md.put_time, md.appl_origin_data = b" " * 8, b" " * 8, b" " * 4


def _make_identity(user: str, md: MQMD) -> None:
    md.user_identifier = blank_padded(user, 12)
    md.accounting_token = _accounting_token(os.geteuid())
    md.appl_identity_data = b" " * 32


@cache
def _accounting_token(user: int) -> bytes:
    """Return a length, the user number in digits, its kind: IBM MQ docs, "AccountingToken"."""
    digits = str(user).encode()
    token = bytes([len(digits)]) + digits
    return token.ljust(31, b"\0") + bytes([mq.MQACTT_UNIX_NUMERIC_ID])


@lru_cache(maxsize=1)
def _date_and_time(second: int) -> tuple[bytes, bytes]:
    at = time.gmtime(second)
    return time.strftime("%Y%m%d", at).encode(), time.strftime("%H%M%S", at).encode()


def _make_origin(md: MQMD, appl_type: int, appl_name: str, now: float) -> None:
    date, at = _date_and_time(int(now))
    md.put_appl_type = appl_type
    md.put_appl_name = blank_padded(appl_name, 28)
    md.put_date, md.put_time = date, b"%b%02d" % (at, now % 1 * 100)
    md.appl_origin_data = b" " * 4


def put_by_queue_manager(md: MQMD, name: str, now: float) -> None:
    """Make the origin context of a message the queue manager itself puts."""
    _make_origin(md, mq.MQAT_QMGR, name, now)


@cache
def _program_name() -> str:
    return Path(sys.executable or "python").name
