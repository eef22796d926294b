"""Limits for parsing headers, so that no message can make it expensive.

IBM MQ does not have the first three limits, because it never parses a whole chain of headers. A
message that exceeds a limit keeps its class, `problem` names the limit, and unread bytes count as
payload or as a part of their header. docs/how-to/decode-messages.md states these limits.
"""

from __future__ import annotations

from typing import Final

HEADERS_READ: Final = 100
"""The number of headers that are read after an MQDLH; further headers are payload."""

FOLDERS_READ: Final = 1_000
"""The maximum number of folders of an MQRFH2 whose folders are read."""

NAME_VALUE_BYTES_READ: Final = 1 << 20
"""The maximum number of bytes of name/value data of an MQRFH or MQRFH2 whose data is read."""

LONGEST_MESSAGE: Final = 104_857_600
"""The maximum length of an IBM MQ message in bytes (IBM MQ docs, "MaxMsgLength")."""
