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
from mqdlq.headers.representation import parse_gmt
from mqdlq.model import QueueKind
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


def put_on_queue_at(copy: BrowsedMessage, queue_kind: QueueKind) -> datetime | None:
    """Return when a message was put on the queue, by its copy.

    That is the time in its MQDLH; on a queue of another kind than a dead-letter queue, the time in
    its MQMD if it has no MQDLH. None if there is no such time: a copy without an MQDLH may be of
    another queue with the same stream queue.
    """
    family = STRUC_IDS.get(copy.prefix[:4])
    if family is None or len(copy.prefix) < DLH_LENGTH:
        if queue_kind is QueueKind.DEAD_LETTER:
            return None
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
