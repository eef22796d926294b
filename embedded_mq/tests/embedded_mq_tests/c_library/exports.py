"""Export the MQI calls of C programs, which run on the embedded queue manager.

IBM MQ docs, "MQI applications reference - Function calls", C invocation of each call. Every call
ends with pointers to its completion and reason code.
"""

# ruff: noqa: N802, PLR0917 (names and arguments are the MQI's)

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from embedded_mq import mqi_constants as mq
from embedded_mq.clients import calls, ibmmqc
from embedded_mq.clients.calls import Codes
from embedded_mq.clients.property_calls import delete_property, inquire_property, set_property
from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.failures import MQCC_FAILED, log
from embedded_mq.option_structures import MQCMHO, MQDMPO, MQIMPO, MQPD, MQSMPO
from embedded_mq.structures import MQGMO, MQMD, MQOD, MQPMO
from embedded_mq_tests.c_library.memory import (
    Int64s,
    Long,
    Longs,
    Pointer,
    read,
    read_connect_options,
    read_name,
    read_value,
    write,
    write_returned_name,
    write_value,
)

Hmsg = ctypes.c_int64
_DMHO_LENGTH = 12
EXPORTS: dict[str, Any] = {}
"""The C functions by name; this reference keeps them alive."""


def _exported(*arguments: Any) -> Callable[[Callable[..., Codes]], Callable[..., Codes]]:
    """Turn a Python function into a C function with the two codes in its last pointers."""

    def decorate(function: Callable[..., Codes]) -> Callable[..., Codes]:
        def call(*values: Any) -> None:
            *given, completion, reason = values
            try:
                codes = function(*given)
            except Exception:  # noqa: BLE001 (no exception can cross C)
                log.exception("%s failed", function.__name__)
                codes = MQCC_FAILED, MQRC["MQRC_UNEXPECTED_ERROR"]
            completion[0], reason[0] = codes

        EXPORTS[function.__name__] = ctypes.CFUNCTYPE(None, *arguments, Longs, Longs)(call)
        return function

    return decorate


@_exported(Pointer, Longs)
def MQCONN(name: int, hconn: Any) -> Codes:
    """Connect."""
    hconn[0], *codes = calls.MQCONN(ctypes.string_at(name, 48).partition(b"\0")[0])
    return codes[0], codes[1]


@_exported(Pointer, Pointer, Longs)
def MQCONNX(name: int, cno: int, hconn: Any) -> Codes:
    """Connect with the options of the MQCNO and the user of its MQCSP."""
    wanted = ctypes.string_at(name, 48).partition(b"\0")[0]
    hconn[0], *codes = ibmmqc.MQCONNX(wanted, *read_connect_options(cno))
    return codes[0], codes[1]


@_exported(Longs)
def MQDISC(hconn: Any) -> Codes:
    """Disconnect and invalidate the handle."""
    codes = calls.MQDISC(hconn[0])
    if codes[0] != MQCC_FAILED:
        hconn[0] = calls.UNUSABLE_HANDLE
    return codes


@_exported(Long)
def MQCMIT(hconn: int) -> Codes:
    """Commit."""
    return calls.MQCMIT(hconn)


@_exported(Long)
def MQBACK(hconn: int) -> Codes:
    """Back out."""
    return calls.MQBACK(hconn)


@_exported(Long, Pointer)
def MQBEGIN(hconn: int, _options: int) -> Codes:
    """Begin a global unit of work."""
    return calls.MQBEGIN(hconn)


@_exported(Long, Pointer, Long, Longs)
def MQOPEN(hconn: int, od: int, options: int, hobj: Any) -> Codes:
    """Open an object."""
    hobj[0], answer, *codes = calls.MQOPEN(hconn, read(od, MQOD.length), options)
    write(od, answer)
    return codes[0], codes[1]


@_exported(Long, Longs, Long)
def MQCLOSE(hconn: int, hobj: Any, options: int) -> Codes:
    """Close an object and invalidate the handle."""
    codes = calls.MQCLOSE(hconn, hobj[0], options)
    if codes[0] != MQCC_FAILED:
        hobj[0] = calls.UNUSABLE_HANDLE
    return codes


@_exported(Long, Long, Pointer, Pointer, Long, Pointer)
def MQPUT(hconn: int, hobj: int, md: int, pmo: int, length: int, buffer: int) -> Codes:
    """Put a message."""
    answer_md, answer_pmo, *codes = calls.MQPUT(
        hconn, hobj, read(md, MQMD.length), read(pmo, MQPMO.length), read(buffer, length)
    )
    write(md, answer_md)
    write(pmo, answer_pmo)
    return codes[0], codes[1]


@_exported(Long, Pointer, Pointer, Pointer, Long, Pointer)
def MQPUT1(hconn: int, od: int, md: int, pmo: int, length: int, buffer: int) -> Codes:
    """Open, put one message and close."""
    answer_md, answer_pmo, *codes = calls.MQPUT1(
        hconn,
        read(od, MQOD.length),
        read(md, MQMD.length),
        read(pmo, MQPMO.length),
        read(buffer, length),
    )
    write(md, answer_md)
    write(pmo, answer_pmo)
    return codes[0], codes[1]


@_exported(Long, Long, Pointer, Pointer, Long, Pointer, Longs)
def MQGET(
    hconn: int, hobj: int, md: int, gmo: int, length: int, buffer: int, data_length: Any
) -> Codes:
    """Get a message into a buffer."""
    data, answer_md, answer_gmo, data_length[0], *codes = calls.MQGET(
        hconn, hobj, read(md, MQMD.length), read(gmo, MQGMO.length), length
    )
    write(md, answer_md)
    write(gmo, answer_gmo)
    write(buffer, data)
    return codes[0], codes[1]


@_exported(Long, Long, Long, Longs, Long, Longs, Long, Pointer)
def MQINQ(
    hconn: int,
    hobj: int,
    count: int,
    selectors: Any,
    numbers_count: int,
    numbers: Any,
    characters_length: int,
    characters: int,
) -> Codes:
    """Inquire attributes."""
    found, text, *codes = ibmmqc.MQINQ(hconn, hobj, selectors[:count], [])
    for position, number in enumerate(found[:numbers_count]):
        numbers[position] = number
    write(characters, text[:characters_length])
    return codes[0], codes[1]


@_exported(Long, Long, Long, Longs, Long, Longs, Long, Pointer)
def MQSET(
    hconn: int,
    hobj: int,
    count: int,
    selectors: Any,
    numbers_count: int,
    numbers: Any,
    characters_length: int,
    characters: int,
) -> Codes:
    """Set attributes."""
    values = numbers[:numbers_count] if numbers_count else []
    text = read(characters, characters_length)
    return ibmmqc.MQSET(hconn, hobj, selectors[:count], values, text)


@_exported(Long, Pointer, Int64s)
def MQCRTMH(hconn: int, cmho: int, hmsg: Any) -> Codes:
    """Create a message handle."""
    hmsg[0], *codes = calls.MQCRTMH(hconn, read(cmho, MQCMHO.length))
    return codes[0], codes[1]


@_exported(Long, Int64s, Pointer)
def MQDLTMH(hconn: int, hmsg: Any, dmho: int) -> Codes:
    """Delete a message handle."""
    codes = ibmmqc.MQDLTMH(hconn, hmsg[0], read(dmho, _DMHO_LENGTH))
    if codes[0] != MQCC_FAILED:
        hmsg[0] = calls.UNUSABLE_HANDLE
    return codes


@_exported(Long, Hmsg, Pointer, Pointer)
def MQDLTMP(hconn: int, hmsg: int, dmpo: int, name: int) -> Codes:
    """Delete a property."""
    return delete_property(hconn, hmsg, read(dmpo, MQDMPO.length), read_name(name))


@_exported(Long, Hmsg, Pointer, Pointer, Pointer, Long, Long, Pointer)
def MQSETMP(
    hconn: int, hmsg: int, smpo: int, name: int, pd: int, kind: int, length: int, buffer: int
) -> Codes:
    """Set a property."""
    value = read_value(kind, buffer, length)
    options, descriptor = read(smpo, MQSMPO.length), read(pd, MQPD.length)
    whole = mq.MQVL_NULL_TERMINATED
    return set_property(hconn, hmsg, options, read_name(name), descriptor, kind, value, whole)


@_exported(Long, Hmsg, Pointer, Pointer, Pointer, Longs, Long, Pointer, Longs)
def MQINQMP(
    hconn: int,
    hmsg: int,
    impo: int,
    name: int,
    _pd: int,
    kind: Any,
    length: int,
    buffer: int,
    data_length: Any,
) -> Codes:
    """Inquire a property into a buffer."""
    wanted = MQIMPO.unpack(read(impo, MQIMPO.length))
    write(buffer, bytes(length))  # the extension decodes what is in it even where the call failed

    def work(connection: Connection) -> Codes:
        found = inquire_property(connection, hmsg, wanted.options, read_name(name), kind[0], length)
        kind[0], data_length[0] = found.type, found.length
        if found.value is not None:
            write_value(found.type, found.value, buffer)
        write_returned_name(impo, found.name)
        return found.codes

    codes: Codes = calls.execute_call("MQINQMP", hconn, work, ())
    return codes


def _refuse(verb: str, *arguments: Any) -> None:
    def refused(hconn: int, *_arguments: Any) -> Codes:
        return calls.refuse_call(verb, hconn)

    refused.__name__ = verb
    _exported(Long, *arguments)(refused)


_refuse("MQSTAT", Long, Pointer)
_refuse("MQSUB", Pointer, Longs, Longs)
_refuse("MQSUBRQ", Long, Long, Pointer)
_refuse("MQCB", Long, Pointer, Long, Pointer, Pointer)
_refuse("MQCTL", Long, Pointer)
