"""Limits on how much of a message's headers is read, so that no message can make it expensive.

IBM MQ has no limits like the first three: it never reads a chain of headers as a whole. A message
that exceeds one keeps its class, `problem` names the limit, and all bytes that are not read count
as payload or as a part of their header. docs/how-to/decode-messages.md states these limits.
"""

from __future__ import annotations

from typing import Final

HEADERS_READ: Final = 100
"""How many headers are read of the chain behind an MQDLH; the headers after them are payload."""

FOLDERS_READ: Final = 1_000
"""How many folders an MQRFH2 may have for its folders to be read."""

NAME_VALUE_BYTES_READ: Final = 1 << 20
"""How many bytes of name/value data an MQRFH or MQRFH2 may have for the data to be read."""

LONGEST_MESSAGE: Final = 104_857_600
"""How many bytes a message of IBM MQ has at most (IBM MQ docs, "MaxMsgLength")."""
