"""Hexadecimal digits of one message's body: lines in, the message out."""

from __future__ import annotations

from collections.abc import Sequence

from mqdlq.errors import PasteError
from mqdlq.headers.pastes.pasted import PastedMessage, hexadecimal


def read(lines: Sequence[str]) -> PastedMessage:
    """Read digits, however they are divided into lines and groups; a leading 0x is passed over."""
    body, last = "", 1
    for number, line in enumerate(lines, start=1):
        written = "".join(line.split())
        if not body:
            written = written.removeprefix("0x").removeprefix("0X")
        for character in written:
            if character not in "0123456789abcdefABCDEF":
                raise PasteError(
                    number,
                    f"{character!r} is no hexadecimal digit; expected the digits of a message's "
                    "body, the output of amqsbcg, or a file of dmpmqmsg",
                )
        if written:
            body, last = body + written, number
    data = hexadecimal(body, last, "the body")
    return PastedMessage(None, data, len(data), 1, "hexadecimal digits")
