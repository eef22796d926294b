"""Copies of messages on a stream queue: when the original was put, and its possible keys.

A copy has the MQMD, the properties and the data of its original. Its Expiry is unlimited, which a
message key leaves out, and its Report lacks the options that request reports from the queue manager
(IBM MQ docs, "Streaming queues configuration").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import datetime
from itertools import product
from typing import Final

from mqdlq.headers import DLH_LENGTH, message_key
from mqdlq.headers.ccsid import Family
from mqdlq.headers.classify import STRUC_IDS
from mqdlq.headers.times import parse_gmt
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.structures import MQDLH, MQMD

_REPORT: Final = MQMD.slice_of("report")
_PUT_AT: Final = MQMD.slice_of("put_date", "put_time")
_DEAD_LETTERED_AT: Final = MQDLH.slice_of("put_date", "put_time")
_DATE_LENGTH: Final = 8
_LONG: Final = struct.Struct("=i")

_REMOVED: Final = (
    (0, 0x100, 0x300, 0x700),  # MQRO_COA, with data, with full data
    (0, 0x800, 0x1800, 0x3800),  # MQRO_COD
    (0, 0x200000, 0x600000, 0xE00000),  # MQRO_EXPIRATION
    (0, 0x1000000, 0x3000000, 0x7000000),  # MQRO_EXCEPTION
    (0, 0x4),  # MQRO_ACTIVITY
)


def put_on_queue_at(copy: BrowsedMessage) -> datetime | None:
    """Return when a message was put on the dead-letter queue, by its copy.

    That is the time in its MQDLH, or in its MQMD if it has none. None if it is not a time.
    """
    family = STRUC_IDS.get(copy.prefix[:4])
    if family is None or len(copy.prefix) < DLH_LENGTH:
        text = copy.descriptor[_PUT_AT].decode("latin-1")
    else:
        codec = "ascii" if family is Family.ASCII else "cp500"
        text = copy.prefix[_DEAD_LETTERED_AT].decode(codec, "replace")
    return parse_gmt(text[:_DATE_LENGTH], text[_DATE_LENGTH:])


def key_of(copy: BrowsedMessage) -> bytes:
    """Return the key of the original if it requests none of the reports that a copy lacks."""
    return message_key(copy.descriptor, copy.total_length, copy.prefix)


def possible_keys(copy: BrowsedMessage) -> Iterator[bytes]:
    """Yield the keys of the original for each combination of report options that a copy lacks."""
    descriptor = bytearray(copy.descriptor)
    (report,) = _LONG.unpack(descriptor[_REPORT])
    for options in product(*_REMOVED):
        descriptor[_REPORT] = _LONG.pack(report | sum(options))
        yield message_key(bytes(descriptor), copy.total_length, copy.prefix)
