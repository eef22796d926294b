"""Read pasted messages: the MQMD, the body and the total length of each.

Four formats are recognised: JSON lines of `mqdlq qm`, the output of amqsbcg, a file of dmpmqmsg,
and plain hexadecimal digits.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from mqdlq.errors import PasteError
from mqdlq.headers.records import DLH_LENGTH, MessageDescriptor
from mqdlq.mqi.connect import LONGEST_MESSAGE
from mqdlq.structures import MQMD, Field, Kind

_QUOTED: Final = 40
_NO_DIGIT: Final = re.compile("[^0-9A-Fa-f]")
_FIELDS: Final = {entry.ibm_name: entry for entry in MQMD.fields}


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


class _Draft:
    """A message that is being parsed; `line` is its first, `source` the program that wrote it."""

    def __init__(self, line: int, source: str) -> None:
        self.line, self.source = line, source
        self.values: dict[str, Any] = {}
        self.body = bytearray()
        self.total_length: int | None = None

    def set(self, ibm_name: str, written: str, line: int) -> None:
        """Parse the written value of an MQMD field; raise `PasteError`."""
        if ibm_name == "Version":  # which follows from the fields
            if written not in ("1", "2"):
                raise PasteError(line, f"an MQMD is of version 1 or 2, found {written!r}")
            return
        entry = _FIELDS[ibm_name]
        if entry.name in self.values:
            raise PasteError(line, f"{ibm_name} stands there a second time")
        self.values[entry.name] = _value(entry, written, line)

    def finish(self) -> PastedMessage:
        """Return the message; raise `PasteError` if its beginning is incomplete."""
        total = len(self.body) if self.total_length is None else self.total_length
        needed = min(DLH_LENGTH, total)
        if len(self.body) < needed:
            shown = f"the paste shows the first {len(self.body)} bytes of a message of {total}"
            raise PasteError(self.line, f"{shown}; at least {needed} are needed")
        for ibm_name in ("Encoding", "CodedCharSetId", "Format") if self.values else ():
            if _FIELDS[ibm_name].name not in self.values:
                raise PasteError(self.line, f"the MQMD of this message lacks {ibm_name}")
        descriptor = MessageDescriptor(**self.values) if self.values else None
        return PastedMessage(descriptor, bytes(self.body), total, self.line, self.source)


def _parse_hexadecimal(written: str, line: int, what: str) -> bytes:
    """Parse hexadecimal digits; the `PasteError` names `what` they stand for."""
    if wrong := _NO_DIGIT.search(written):
        raise PasteError(line, f"{what}: {wrong[0]!r} is not a hexadecimal digit")
    if len(written) % 2:
        raise PasteError(line, f"{what}: {len(written)} hexadecimal digits are an odd number")
    return bytes.fromhex(written)


def parse_message_length(written: str, line: int) -> int:
    """Parse the length of a message; raise `PasteError` for an impossible length."""
    digits = written.lstrip("0") or "0"
    if len(digits) > len(str(LONGEST_MESSAGE)) or int(digits) > LONGEST_MESSAGE:
        limit = f"a message has at most {LONGEST_MESSAGE} bytes"
        raise PasteError(line, f"{limit}, found {_shorten(digits)}")
    return int(digits)


def _shorten(text: str) -> str:
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def _value(entry: Field, written: str, line: int) -> int | str | bytes:
    if entry.kind is Kind.LONG:
        return _number(entry, written, line)
    if entry.kind is Kind.BYTES:
        data = _parse_hexadecimal(written, line, entry.ibm_name)
        if len(data) != entry.length:
            fault = f"{entry.ibm_name} has {entry.length} bytes, found {len(data)}"
            raise PasteError(line, fault)
        return data
    text = written.rstrip(" ")
    try:
        length = len(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        fault = f"{entry.ibm_name} holds half a character (a lone surrogate)"
        raise PasteError(line, fault) from None
    if length > entry.length:
        fault = f"{entry.ibm_name} holds {entry.length}, found {length} bytes"
        raise PasteError(line, fault)
    return text


def _number(entry: Field, written: str, line: int) -> int:
    found = _shorten(written)
    try:
        number = int(written)
    except ValueError:
        fault = f"{entry.ibm_name} must be a number, found {found!r}"
        raise PasteError(line, fault) from None
    if not -(2**31) <= number < 2**31:
        raise PasteError(line, f"{entry.ibm_name} must fit four bytes, found {found}")
    return number


# Parse the JSON lines of `mqdlq qm dump` and `mqdlq qm browse --format json` into messages.
#
# A line is a JSON object: the fields of the MQMD under IBM's names, at the top level or in `MQMD`,
# and `body` in hexadecimal digits. A dump begins with a line that names its format, and ends with a
# line that counts its messages.

_EXAMPLE: Final = 'a message such as {"Format": "MQDEAD", …, "body": "444C…"}'


def _is_json(lines: Sequence[str]) -> bool:
    return next((line for line in lines if line.strip()), "").lstrip().startswith("{")


def _read_json(lines: Sequence[str]) -> Iterator[PastedMessage]:
    expected: int | None = None
    is_dump, count = False, 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = json_object(line)
        if row is None:
            raise PasteError(number, f"expected {_EXAMPLE}")
        if "format" in row:
            is_dump = True
        elif "messages" in row:
            expected = row["messages"]
        else:
            count += 1
            yield _message(row, number)
    if is_dump and expected != count:
        raise PasteError(len(lines), f"the dump is cut off: of its messages, {count} are there")


def json_object(line: str | bytes) -> dict[str, Any] | None:
    """Return the object of JSON on a line, None for anything else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _message(row: dict[str, Any], number: int) -> PastedMessage:
    fields, body = row.get("MQMD", row), row.get("body")
    if not isinstance(fields, dict) or not isinstance(body, str):
        raise PasteError(number, f"expected {_EXAMPLE}")
    draft = _Draft(number, "mqdlq qm")
    for ibm_name in filter(fields.__contains__, _FIELDS):
        value, kind = fields[ibm_name], _FIELDS[ibm_name].kind
        if not isinstance(value, str if kind is not Kind.LONG else str | int):
            wanted = "a number" if kind is Kind.LONG else "text"
            found = _shorten(json.dumps(value))
            raise PasteError(number, f"{ibm_name} must be {wanted}, found {found}")
        written = _characters_of(value) if kind is Kind.TEXT else str(value)
        draft.set(ibm_name, written, number)
    draft.body += _parse_hexadecimal(body, number, "the body")
    return draft.finish()


def _characters_of(written: str) -> str:
    """Return text whose bytes were written as characters of ISO 8859-1."""
    try:
        return written.encode("latin-1").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return written


# Parse the output of amqsbcg into messages.
#
# A message is its MQMD, one or two fields a line, then its length and a dump of its bytes:
#
#     ****Message descriptor****
#       Encoding : 546  CodedCharSetId : 819
#     ****   Message      ****
#      length - 184 of 184 bytes
#     00000000:  444C 4820 0100 0000 ...           'DLH .....'
#
# Other output of the program (before, between and after the messages) is ignored.

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


def _is_amqsbcg(lines: Sequence[str]) -> bool:
    return any(
        _DESCRIPTOR.match(_plain(line)) or _DUMPED.match(line) or _PROGRAM.match(line)
        for line in lines
    )


def _read_amqsbcg(lines: Sequence[str]) -> list[PastedMessage]:
    reader = _AmqsbcgReader()
    found: list[PastedMessage] = []
    for number, line in enumerate(lines, start=1):
        found += reader.take(line, number)
    found += reader.end()
    if not found:
        raise PasteError(len(lines), "amqsbcg printed no message: the queue was empty or not read")
    return found


class _AmqsbcgReader:
    def __init__(self) -> None:
        self.draft: _Draft | None = None
        self.in_descriptor = False
        self.open_field = ""

    def take(self, line: str, number: int) -> Iterator[PastedMessage]:
        """Parse a line; yield the message that ends before it, if there is one."""
        plain = _plain(line)
        if _DESCRIPTOR.match(plain):
            yield from self.end()
            self.draft, self.in_descriptor = _Draft(number, "amqsbcg"), True
        elif self.draft and self.in_descriptor and not _SECTION.match(plain):
            self._field(self.draft, line.translate(_QUOTES), number)
        else:
            self.in_descriptor = False
            yield from self._body(line, number)

    def end(self) -> Iterator[PastedMessage]:
        if self.draft is not None:
            if self.open_field:
                raise PasteError(self.draft.line, f"this message lacks the {self.open_field}")
            if self.draft.total_length is None and not self.draft.body:
                raise PasteError(self.draft.line, "this message has no length and no bytes")
            yield self.draft.finish()
        self.draft, self.in_descriptor = None, False

    def _field(self, draft: _Draft, line: str, number: int) -> None:
        if not line.strip() or _CONTEXT.match(line):
            return
        if self.open_field:
            name, self.open_field = self.open_field, ""
            _set_quoted(draft, name, line.strip(), number)
            return
        match = _LABEL.match(line)
        name = match[1] if match else ""
        if match is None or (name not in _FIELDS and name != "StrucId"):
            expected = "expected a field of the MQMD, as in Format : 'MQDEAD  '"
            raise PasteError(number, f"{expected}, found {line!r}")
        written = match[2].rstrip()
        if name in _PAIRS:
            written, second = _split(written, _PAIRS[name], number)
            _set_quoted(draft, _PAIRS[name], second, number)
        if not written:
            self.open_field = name
        elif name != "StrucId":
            _set_quoted(draft, name, written, number)
        if name == _LAST:
            self.in_descriptor = False  # newer levels print more after it

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
            self.draft = draft = draft or _Draft(number, "amqsbcg")
            if length:
                draft.total_length = parse_message_length(length[2] or length[1], number)
            if dumped:
                _take_dumped(draft, offset, dumped[2], number)


def _take_dumped(draft: _Draft, offset: int, written: str, number: int) -> None:
    if offset != len(draft.body):
        expected = f"expected the bytes from {len(draft.body):08X} on"
        raise PasteError(number, f"{expected}, found {offset:08X}")
    # The groups of digits end before the same bytes as characters.
    words = written.translate(_QUOTES).partition("'")[0].split()
    digits = "".join(takewhile(_GROUP.fullmatch, words))
    if not digits:
        raise PasteError(number, "expected hexadecimal digits after the offset")
    draft.body += _parse_hexadecimal(digits, number, "the dump")
    total = draft.total_length
    if total is not None and len(draft.body) > total:
        raise PasteError(number, f"the message has {total} bytes, but more are dumped")


def _plain(line: str) -> str:
    return line.replace("\\", "")


def _split(written: str, second: str, number: int) -> tuple[str, str]:
    match = re.search(rf"\b{second}\s*:", written)
    if match is None:
        raise PasteError(number, f"expected {second} on the same line")
    return written[: match.start()].strip(), written[match.end() :].strip()


def _set_quoted(draft: _Draft, name: str, written: str, number: int) -> None:
    """Set a field to a value in quotation marks; those of identifiers begin with X."""
    kind = _FIELDS[name].kind if name != "Version" else Kind.LONG
    bare = written.strip()
    if kind is Kind.BYTES:
        bare = bare.removeprefix("X")
    if name != "Version" and bare[:1] == "'" and bare[-1:] == "'" and len(bare) > 1:
        bare = bare[1:-1]
    elif kind is not Kind.LONG:
        form = "X'…'" if kind is Kind.BYTES else "'…'"
        raise PasteError(number, f"{name} must be written as {form}, found {written!r}")
    draft.set(name, bare, number)


# Parse files of dmpmqmsg (formerly qload) into messages.
#
# The first character of a line gives its type: `*` is a comment, `A` a field of the MQMD by its
# three-letter code, `X` data in hexadecimal digits, `S` data as text in quotation marks, `T` data
# as the text after the blank. A message ends before the fields of the next one (IBM MQ docs,
# "dmpmqmsg (queue load and unload)", "Meaning of three letter codes in dmpmqmsg output file").

_CODES: Final = dict(
    zip(
        (
            *("VER", "RPT", "MST", "EXP", "FDB", "ENC", "CCS", "FMT", "PRI", "PER", "MSI", "COI"),
            *("BOC", "RTQ", "RTM", "USR", "ACC", "AIX", "PAT", "PAN", "PTD", "PTT", "AOX"),
            *("GRP", "MSQ", "OFF", "MSF", "ORL"),
        ),
        ("Version", *_FIELDS),
        strict=True,
    )
)
"""The fields of the MQMD in their order, by their codes."""
_ATTRIBUTE: Final = re.compile(r"A ([A-Z]{3})(?: (.*))?$")
_BEGINNING: Final = re.compile(r"A [A-Z]{3}( |$)|X [0-9A-Fa-f]+")
# With display option a, the digits are followed by the same bytes as characters.
_DIGITS_AND_CHARACTERS: Final = re.compile(r"(\S*)(?:\s+\S.*)?$")


def _is_dmpmqmsg(lines: Sequence[str]) -> bool:
    return any(_BEGINNING.match(line) for line in lines)


def _read_dmpmqmsg(lines: Sequence[str]) -> Iterator[PastedMessage]:
    draft: _Draft | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("*"):
            continue
        code = _code(line, number)
        if draft is None or (code and (draft.body or code == "VER")):
            if draft is not None:
                yield draft.finish()
            draft = _Draft(number, "dmpmqmsg")
        if code:
            name = _CODES[code]
            is_text = not name.endswith("Id") and name != "Version"
            draft.set(name, line[6:] if is_text else line[6:].strip(), number)
        else:
            draft.body += _data(line, number)
    if draft is not None:
        yield draft.finish()


def _code(line: str, number: int) -> str:
    if not line.startswith("A"):
        return ""
    match = _ATTRIBUTE.match(line)
    if match is None or match[1] not in _CODES:
        raise PasteError(number, f"expected an attribute such as A FMT MQDEAD, found {line[:12]!r}")
    return match[1]


def _data(line: str, number: int) -> bytes:
    kind, written = line[:1], line[2:]
    if kind == "X":
        found = _DIGITS_AND_CHARACTERS.match(written.rstrip())
        return _parse_hexadecimal(found[1] if found else written, number, "the data")
    if kind == "S":
        written = written.strip()
        if len(written) < 2 or written[0] != '"' or written[-1] != '"':  # noqa: PLR2004 - ""
            raise PasteError(number, "data after S stands between quotation marks")
        written = written[1:-1]
    elif kind != "T":
        expected = "a line begins with *, A, X, S or T in a file of dmpmqmsg"
        raise PasteError(number, f"{expected}, found {kind!r}")
    if not written.isascii():  # the bytes of other characters are not known
        fault = "text data with other than ASCII characters; unload it in hexadecimal digits"
        raise PasteError(number, fault)
    return written.encode("ascii")


_EXPECTED_DIGITS: Final = (
    "expected the digits of a message's body, the output of amqsbcg, or a file of dmpmqmsg"
)


def _read_digits(lines: Sequence[str]) -> PastedMessage:
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
        if wrong := _NO_DIGIT.search(written):
            raise PasteError(number, f"{wrong[0]!r} is not a hexadecimal digit; {_EXPECTED_DIGITS}")
        if written:
            parts.append(written)
            last = number
    if not parts:
        raise PasteError(1, f"there is nothing to read; {_EXPECTED_DIGITS}")
    data = _parse_hexadecimal("".join(parts), last, "the body")
    return PastedMessage(None, data, len(data), 1, "hexadecimal digits")


def as_text(data: bytes) -> str:
    """Decode a file: UTF-8, or UTF-16 as a Windows shell writes redirected output."""
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "surrogateescape")


_Recognise = Callable[[Sequence[str]], bool]
_Read = Callable[[Sequence[str]], Iterable[PastedMessage]]
_READERS: Final[tuple[tuple[_Recognise, _Read], ...]] = (
    (_is_json, _read_json),
    (_is_amqsbcg, _read_amqsbcg),
    (_is_dmpmqmsg, _read_dmpmqmsg),
)


def looks_pasted(lines: Sequence[str]) -> bool:
    begins_with_digits = not _NO_DIGIT.search("".join(lines[0].split()))
    return begins_with_digits or any(is_recognised(lines) for is_recognised, _ in _READERS)


def read_pasted(text: str, name: str = "") -> tuple[PastedMessage, ...]:
    """Read every message of a paste, in order; `name` is the file's name in errors.

    Raises `PasteError` for the first line that cannot be parsed; no possible part of a message is
    skipped.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    try:
        for is_recognised, read in _READERS:
            if is_recognised(lines):
                return tuple(read(lines))
        return (_read_digits(lines),)
    except PasteError as error:
        raise PasteError(error.line, error.message, name) from None
