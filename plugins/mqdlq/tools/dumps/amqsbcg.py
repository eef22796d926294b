"""Parse the output of amqsbcg into messages.

A message is its MQMD, one or two fields a line, then its length and a dump of its bytes:

    ****Message descriptor****
      Encoding : 546  CodedCharSetId : 819
    ****   Message      ****
     length - 184 of 184 bytes
    00000000:  444C 4820 0100 0000 ...           'DLH .....'

Other output of the program (before, between and after the messages) is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from mqdlq.errors import PasteError
from mqdlq.structures import Kind
from mqdlq.tools.dumps.pasted import (
    FIELDS,
    Draft,
    PastedMessage,
    parse_hexadecimal,
    parse_message_length,
)

SOURCE: Final = "amqsbcg"
_PROGRAM: Final = re.compile(r"\s*AMQSBCG\d - ")
_DESCRIPTOR: Final = re.compile(r"\s*\*{4}\s*Message descriptor\s*\*{4}", re.IGNORECASE)
_SECTION: Final = re.compile(r"\s*\*{4}")
_CONTEXT: Final = re.compile(r"\s*\*\* (Identity|Origin) Context")
_LABEL: Final = re.compile(r"\s*(\w+)\s*:\s?(.*)$")
_LENGTH: Final = re.compile(r"\s*length\s*-\s*(\d+)(?:\s+of\s+(\d+))?\s+bytes")
_DUMPED: Final = re.compile(r"\s*([0-9A-Fa-f]{8}):\s*(.*)$")
_GROUP: Final = re.compile(r"[0-9A-Fa-f*]{1,4}(?=\s|$)")
_LAST: Final = "OriginalLength"
_PAIRS: Final = {
    "StrucId": "Version",
    "Report": "MsgType",
    "Expiry": "Feedback",
    "Encoding": "CodedCharSetId",
    "Priority": "Persistence",
    "PutDate": "PutTime",
}
"""The fields that share a line with another."""
_LEFT, _RIGHT = "\N{LEFT SINGLE QUOTATION MARK}", "\N{RIGHT SINGLE QUOTATION MARK}"
_QUOTES: Final = str.maketrans({_LEFT: "'", _RIGHT: "'"})
"""The quotation marks that editors and forums substitute for apostrophes."""


def is_recognised(lines: Sequence[str]) -> bool:
    """Return whether these lines look like output of amqsbcg, or like the dump of a body."""
    return any(
        _DESCRIPTOR.match(_plain(line)) or _DUMPED.match(line) or _PROGRAM.match(line)
        for line in lines
    )


def read(lines: Sequence[str]) -> list[PastedMessage]:
    """Return the messages; raise `PasteError`, also if there is no message."""
    reader = _Reader()
    found = [
        message
        for number, line in enumerate(lines, start=1)
        for message in reader.take(line, number)
    ]
    found += reader.end()
    if not found:
        raise PasteError(len(lines), "amqsbcg printed no message: the queue was empty or not read")
    return found


class _Reader:
    """State of a parser over the lines of the output."""

    def __init__(self) -> None:
        self.draft: Draft | None = None
        self.in_descriptor = False
        self.open_field = ""

    def take(self, line: str, number: int) -> Iterator[PastedMessage]:
        """Parse a line; yield the message that ends before it, if there is one."""
        plain = _plain(line)
        if _DESCRIPTOR.match(plain):
            yield from self.end()
            self.draft, self.in_descriptor = Draft(number, SOURCE), True
        elif self.draft and self.in_descriptor and not _SECTION.match(plain):
            self._field(self.draft, line.translate(_QUOTES), number)
        else:
            self.in_descriptor = False
            yield from self._body(line, number)

    def end(self) -> Iterator[PastedMessage]:
        """Yield the last message, if there is one."""
        if self.draft is not None:
            if self.open_field:
                raise PasteError(self.draft.line, f"this message lacks the {self.open_field}")
            if self.draft.total_length is None and not self.draft.body:
                raise PasteError(self.draft.line, "this message has no length and no bytes")
            yield self.draft.finish()
        self.draft, self.in_descriptor = None, False

    def _field(self, draft: Draft, line: str, number: int) -> None:
        if not line.strip() or _CONTEXT.match(line):
            return
        if self.open_field:
            name, self.open_field = self.open_field, ""
            self._set(draft, name, line.strip(), number)
            return
        match = _LABEL.match(line)
        name = match[1] if match else ""
        if match is None or (name not in FIELDS and name != "StrucId"):
            raise PasteError(
                number, f"expected a field of the MQMD, as in Format : 'MQDEAD  ', found {line!r}"
            )
        written = match[2].rstrip()
        if name in _PAIRS:
            written, second = _split(written, _PAIRS[name], number)
            self._set(draft, _PAIRS[name], second, number)
        if not written:
            self.open_field = name
        elif name != "StrucId":
            self._set(draft, name, written, number)
        if name == _LAST:
            self.in_descriptor = False  # newer levels print more after it

    def _set(self, draft: Draft, name: str, written: str, number: int) -> None:
        if name == "Version":
            if written not in ("1", "2"):
                raise PasteError(number, f"an MQMD is of version 1 or 2, found {written!r}")
            return
        draft.set(name, _unquote(name, written, number), number)

    def _body(self, line: str, number: int) -> Iterator[PastedMessage]:
        length, dumped = _LENGTH.match(line), _DUMPED.match(line)
        offset = int(dumped[1], 16) if dumped else 0
        draft = self.draft
        if draft and (
            (length and draft.total_length is not None) or (dumped and draft.body and not offset)
        ):
            yield from self.end()  # the next message, of which no MQMD is pasted
            draft = None
        if length or dumped:
            self.draft = draft = draft or Draft(number, SOURCE)
            if length:
                draft.total_length = parse_message_length(length[2] or length[1], number)
            if dumped:
                _take_dumped(draft, offset, dumped[2], number)


def _take_dumped(draft: Draft, offset: int, written: str, number: int) -> None:
    if offset != len(draft.body):
        raise PasteError(
            number, f"expected the bytes from {len(draft.body):08X} on, found {offset:08X}"
        )
    digits = "".join(_groups(written.translate(_QUOTES).partition("'")[0]))
    if not digits:
        raise PasteError(number, "expected hexadecimal digits after the offset")
    draft.body += parse_hexadecimal(digits, number, "the dump")
    if draft.total_length is not None and len(draft.body) > draft.total_length:
        total = draft.total_length
        raise PasteError(number, f"the message has {total} bytes, but more are dumped")


def _plain(line: str) -> str:
    return line.replace("\\", "")


def _groups(written: str) -> Iterator[str]:
    """Yield the groups of digits, which end before the same bytes as characters."""
    for word in written.split():
        if not _GROUP.fullmatch(word):
            return
        yield word


def _split(written: str, second: str, number: int) -> tuple[str, str]:
    """Split a line with two fields."""
    match = re.search(rf"\b{second}\s*:", written)
    if match is None:
        raise PasteError(number, f"expected {second} on the same line")
    return written[: match.start()].strip(), written[match.end() :].strip()


def _unquote(name: str, written: str, number: int) -> str:
    """Remove the quotation marks from a value; those of identifiers begin with X."""
    kind = FIELDS[name].kind
    bare = written.strip()
    if kind is Kind.BYTES:
        bare = bare.removeprefix("X")
    if bare[:1] == "'" and bare[-1:] == "'" and len(bare) > 1:
        return bare[1:-1]
    if kind is Kind.LONG:
        return bare
    form = "X'…'" if kind is Kind.BYTES else "'…'"
    raise PasteError(number, f"{name} must be written as {form}, found {written!r}")
