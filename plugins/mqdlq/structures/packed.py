"""The message descriptor and headers as the MQI passes them: text as bytes of the field's length.

Numbers are in the machine's byte order; for another byte order, use the layout in `codes`.
"""

from __future__ import annotations

from . import headers
from .structure import Packed


class MQMD(Packed, headers.MQMD[bytes]):
    """The message descriptor, version 2."""


class MQXQH(Packed, headers.MQXQH[bytes]):
    """The transmission-queue header without its MQMD."""


class MQDLH(Packed, headers.MQDLH[bytes]):
    """The dead-letter header."""


class MQMDE(Packed, headers.MQMDE[bytes]):
    """The message-descriptor extension."""


class MQRFH(Packed, headers.MQRFH[bytes]):
    """The fixed part of the rules and formatting header."""


class MQRFH2(Packed, headers.MQRFH2[bytes]):
    """The fixed part of the rules and formatting header 2."""


MQMD_LENGTH_1 = headers.MQMD1.length
"""The length of a version 1 message descriptor, which ends before GroupId."""


DEFAULTS_OF_VERSION_2 = MQMDE(format=b"").pack()[MQMDE.offset_of("group_id") :]
"""Packed GroupId, MsgSeqNumber, Offset, MsgFlags and OriginalLength of a message in no group."""
