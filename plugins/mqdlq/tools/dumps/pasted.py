"""Build a checked record of a pasted message, field by field."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from mqdlq.errors import PasteError
from mqdlq.headers.records import DLH_LENGTH, MessageDescriptor
from mqdlq.mqi.connect import LONGEST_MESSAGE
from mqdlq.structures import MQMD, Field, Kind

_QUOTED: Final = 40
NO_DIGIT: Final = re.compile("[^0-9A-Fa-f]")
FIELDS: Final = {entry.ibm_name: entry for entry in MQMD.fields}


@dataclass(frozen=True, slots=True)
class PastedMessage:
    """A message of a paste.

    `descriptor` is None if the paste has no MQMD. `body` is the beginning of the message, or the
    whole message if its length is `total_length`. `line` is the first line of the message,
    `source` the program that wrote it.
    """

    descriptor: MessageDescriptor | None
    body: bytes
    total_length: int
    line: int
    source: str

    def __repr__(self) -> str:
        """Show lengths only: the body may hold a customer's data."""
        return f"<PastedMessage from line {self.line}, {len(self.body)} bytes>"


@dataclass(slots=True)
class Draft:
    """A message that is being parsed."""

    line: int
    source: str
    values: dict[str, Any] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    total_length: int | None = None

    def set(self, ibm_name: str, written: str, line: int) -> None:
        """Parse the written value of an MQMD field; raise `PasteError`."""
        entry = FIELDS[ibm_name]
        if entry.name in self.values:
            raise PasteError(line, f"{ibm_name} stands there a second time")
        self.values[entry.name] = _value(entry, written, line)

    def finish(self) -> PastedMessage:
        """Return the message; raise `PasteError` if its beginning is incomplete."""
        total = len(self.body) if self.total_length is None else self.total_length
        needed = min(DLH_LENGTH, total)
        if len(self.body) < needed:
            raise PasteError(
                self.line,
                f"the paste shows the first {len(self.body)} bytes of a message of {total}; "
                f"at least {needed} are needed",
            )
        descriptor = self._descriptor() if self.values else None
        return PastedMessage(descriptor, bytes(self.body), total, self.line, self.source)

    def _descriptor(self) -> MessageDescriptor:
        for ibm_name in ("Encoding", "CodedCharSetId", "Format"):
            if FIELDS[ibm_name].name not in self.values:
                raise PasteError(self.line, f"the MQMD of this message lacks {ibm_name}")
        return MessageDescriptor(**self.values)


def parse_hexadecimal(written: str, line: int, what: str) -> bytes:
    """Parse hexadecimal digits; the `PasteError` names `what` they stand for."""
    if wrong := NO_DIGIT.search(written):
        raise PasteError(line, f"{what}: {wrong[0]!r} is not a hexadecimal digit")
    if len(written) % 2:
        raise PasteError(line, f"{what}: {len(written)} hexadecimal digits are an odd number")
    return bytes.fromhex(written)


def parse_message_length(written: str, line: int) -> int:
    """Parse the length of a message; raise `PasteError` for an impossible length."""
    digits = written.lstrip("0") or "0"
    if len(digits) > len(str(LONGEST_MESSAGE)) or int(digits) > LONGEST_MESSAGE:
        raise PasteError(
            line, f"a message has at most {LONGEST_MESSAGE} bytes, found {shorten(digits)}"
        )
    return int(digits)


def shorten(text: str) -> str:
    """Return text shortened for an error."""
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def _value(entry: Field, written: str, line: int) -> int | str | bytes:
    match entry.kind:
        case Kind.LONG:
            return _number(entry, written, line)
        case Kind.BYTES:
            data = parse_hexadecimal(written, line, entry.ibm_name)
            if len(data) != entry.length:
                found = f"found {len(data)}"
                raise PasteError(line, f"{entry.ibm_name} has {entry.length} bytes, {found}")
            return data
        case _:
            text = written.rstrip(" ")
            try:
                length = len(text.encode("utf-8", "surrogateescape"))
            except UnicodeEncodeError:
                raise PasteError(
                    line, f"{entry.ibm_name} holds half a character (a lone surrogate)"
                ) from None
            if length > entry.length:
                found = f"found {length} bytes"
                raise PasteError(line, f"{entry.ibm_name} holds {entry.length}, {found}")
            return text


def _number(entry: Field, written: str, line: int) -> int:
    try:
        number = int(written)
    except ValueError:
        found = repr(shorten(written))
        raise PasteError(line, f"{entry.ibm_name} must be a number, found {found}") from None
    if not -(2**31) <= number < 2**31:
        found = shorten(written)
        raise PasteError(line, f"{entry.ibm_name} must fit four bytes, found {found}")
    return number
