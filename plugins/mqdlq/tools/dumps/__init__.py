"""Read pasted messages: the MQMD, the body and the total length of each.

Four formats are recognised: JSON lines of `mqdlq qm`, the output of amqsbcg, a file of dmpmqmsg,
and plain hexadecimal digits.
"""

from __future__ import annotations

from mqdlq.errors import PasteError
from mqdlq.tools.dumps import amqsbcg, digits, dmpmqmsg, json_lines
from mqdlq.tools.dumps.pasted import PastedMessage

__all__ = ["PasteError", "PastedMessage", "as_text", "read_pasted"]

_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def as_text(data: bytes) -> str:
    """Decode a file: UTF-8, or UTF-16 as a Windows shell writes redirected output."""
    if data[:2] in _UTF_16_MARKS:
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "surrogateescape")


def read_pasted(text: str, name: str = "") -> tuple[PastedMessage, ...]:
    """Read every message of a paste, in order; `name` is the file's name in errors.

    Raises `PasteError` for the first line that cannot be parsed; no possible part of a message is
    skipped.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    try:
        for reader in (json_lines, amqsbcg, dmpmqmsg):
            if reader.is_recognised(lines):
                return tuple(reader.read(lines))
        return (digits.read(lines),)
    except PasteError as error:
        raise PasteError(error.line, error.message, name) from None
