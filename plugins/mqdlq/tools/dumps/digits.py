"""Parse the hexadecimal digits of one message's body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mqdlq.errors import PasteError
from mqdlq.tools.dumps.pasted import NO_DIGIT, PastedMessage, parse_hexadecimal

_EXPECTED: Final = (
    "expected the digits of a message's body, the output of amqsbcg, or a file of dmpmqmsg"
)


def read(lines: Sequence[str]) -> PastedMessage:
    """Parse digits in lines and groups of any length; a leading 0x is skipped.

    Raises `PasteError`, also without any digit: a failed program before a pipe is more likely than
    a message without a body.
    """
    parts: list[str] = []
    last = 1
    for number, line in enumerate(lines, start=1):
        written = "".join(line.split())
        if not parts:
            written = written.removeprefix("0x").removeprefix("0X")
        if wrong := NO_DIGIT.search(written):
            raise PasteError(number, f"{wrong[0]!r} is not a hexadecimal digit; {_EXPECTED}")
        if written:
            parts.append(written)
            last = number
    if not parts:
        raise PasteError(1, f"there is nothing to read; {_EXPECTED}")
    data = parse_hexadecimal("".join(parts), last, "the body")
    return PastedMessage(None, data, len(data), 1, "hexadecimal digits")
