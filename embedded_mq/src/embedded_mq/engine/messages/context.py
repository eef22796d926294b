"""Fill in the message context of a put: default, passed from a get, or set by the application.

IBM MQ docs, "Message context".
"""

import os
import time
from functools import cache, lru_cache
from typing import Any

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import blank_padded, normalised
from embedded_mq.engine.connection import Connection, OpenObject
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.storage.directories import process_program
from embedded_mq.structures import MQMD

_CONTEXT = MQMD.reader("user_identifier", "appl_origin_data")
_IDENTITY_TEXT_FIELDS = ("user_identifier", "appl_identity_data")
_ORIGIN_TEXT_FIELDS = ("put_appl_name", "put_date", "put_time", "appl_origin_data")
_PASSING = frozenset({mq.MQPMO_PASS_IDENTITY_CONTEXT, mq.MQPMO_PASS_ALL_CONTEXT})
_SETTING = frozenset({mq.MQPMO_SET_IDENTITY_CONTEXT, mq.MQPMO_SET_ALL_CONTEXT})

CONTEXT_OPTIONS = (
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


def fill_context(  # noqa: PLR0917
    connection: Connection, opened: OpenObject, md: MQMD, options: int, source: int, now: float
) -> None:
    """Fill in the context of a put message's descriptor as the options ask.

    `source` is the handle of the queue whose saved context is passed.
    """
    choice = options & CONTEXT_OPTIONS
    _check(choice, opened.options)
    if choice == mq.MQPMO_NO_CONTEXT:
        _blank(md)
        return
    saved = _saved_context(connection, source) if choice in _PASSING else ()
    if saved:
        md.user_identifier, md.accounting_token, md.appl_identity_data = saved[:3]
    elif choice in _SETTING:
        _normalise(md, _IDENTITY_TEXT_FIELDS)
    else:
        _make_identity(connection.user, md)
    if choice == mq.MQPMO_PASS_ALL_CONTEXT:
        md.put_appl_type, md.put_appl_name, md.put_date = saved[3:6]
        md.put_time, md.appl_origin_data = saved[6:]
    elif choice == mq.MQPMO_SET_ALL_CONTEXT:
        _normalise(md, _ORIGIN_TEXT_FIELDS)
    else:
        _make_origin(md, mq.MQAT_UNIX, _program_name(), now)


@lru_cache
def _check(choice: int, opened_for: int) -> None:
    """Refuse contradictory context options, and options that the open options forbid."""
    if choice.bit_count() > 1:
        raise CallFailedError("MQRC_OPTIONS_ERROR")
    if choice in _ALLOWED_BY:
        options, reason = _ALLOWED_BY[choice]
        if not opened_for & options:
            raise CallFailedError(reason)


def _saved_context(connection: Connection, handle: int) -> tuple[Any, ...]:
    """Return the context that a queue handle has saved (IBM MQ docs, "Context (MQPMO)").

    It is the context of the last message got, whose text was normalised when it was put.
    """
    try:
        source = connection.find_object(handle)
    except CallFailedError:
        raise CallFailedError("MQRC_CONTEXT_HANDLE_ERROR") from None
    if not source.allows(mq.MQOO_SAVE_ALL_CONTEXT):
        raise CallFailedError("MQRC_CONTEXT_HANDLE_ERROR")
    if source.saved_context is None:
        raise CallFailedError("MQRC_CONTEXT_NOT_AVAILABLE")
    return _CONTEXT.unpack_from(source.saved_context)


def _normalise(md: MQMD, fields: tuple[str, ...]) -> None:
    for name in fields:
        setattr(md, name, normalised(getattr(md, name)))


def _blank(md: MQMD) -> None:
    md.user_identifier, md.appl_identity_data = b" " * 12, b" " * 32
    md.accounting_token = bytes(32)
    md.put_appl_type, md.put_appl_name = mq.MQAT_NO_CONTEXT, b" " * 28
    md.put_date, md.put_time, md.appl_origin_data = b" " * 8, b" " * 8, b" " * 4


def _make_identity(user: str, md: MQMD) -> None:
    md.user_identifier, md.accounting_token = _identity(user, os.geteuid())
    md.appl_identity_data = b" " * 32


@cache
def _identity(user: str, number: int) -> tuple[bytes, bytes]:
    """Return the user's name, and the accounting token of the user id of the process.

    The token has a length, the user id in digits and its type (IBM MQ docs, "AccountingToken").
    """
    digits = str(number).encode()
    token = bytes([len(digits)]) + digits
    padded = token.ljust(31, b"\0") + bytes([mq.MQACTT_UNIX_NUMERIC_ID])
    return blank_padded(user, 12), padded


@lru_cache(maxsize=1)
def _date_and_time(hundredth: int) -> tuple[bytes, bytes]:
    second, rest = divmod(hundredth, 100)
    at = time.gmtime(second)
    date, at_second = time.strftime("%Y%m%d", at), time.strftime("%H%M%S", at)
    return date.encode(), f"{at_second}{rest:02}".encode()


def _make_origin(md: MQMD, appl_type: int, appl_name: bytes, now: float) -> None:
    md.put_appl_type, md.put_appl_name = appl_type, appl_name
    md.put_date, md.put_time = _date_and_time(int(now * 100))
    md.appl_origin_data = b" " * 4


def set_queue_manager_origin(md: MQMD, name: str, now: float) -> None:
    """Set the origin context of a message that the queue manager itself puts."""
    _make_origin(md, mq.MQAT_QMGR, blank_padded(name, 28), now)


@cache
def _program_name() -> bytes:
    return blank_padded(process_program(), 28)
