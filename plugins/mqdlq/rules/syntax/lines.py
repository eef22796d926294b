"""Read tokens from an entry on demand of the grammar."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqdlq.rules.diagnostics import Place, Report

TOKENS: Final = {
    "blanks": re.compile(r"[ \t]+"),
    "separator": re.compile(r"[ \t,]+"),
    "keyword": re.compile(r"[A-Za-z][A-Za-z0-9_]*"),
    "open": re.compile(r"\("),
    "close": re.compile(r"\)"),
    "quoted": re.compile(r"'[^']*+(?:''[^']*+)*+'"),
    "plain": re.compile(r"[^ \t,()']+"),
    "whole value": re.compile(
        r"[ \t]*+\([ \t]*+(?:('[^']*+(?:''[^']*+)*+')|([^ \t,()']++))[ \t]*+\)"
    ),
    "parenthesis ahead": re.compile(r"[ \t]*\("),
    "parameter ahead": re.compile(r"[ \t,]*([A-Za-z][A-Za-z0-9_]*)[ \t]*\("),
    "rest of value": re.compile(r"[^()]*"),
    "junk": re.compile(r"(?:'[^']*'?|[^ \t,()']+|\([^()]*\)?|\))+"),
}


class Token(NamedTuple):
    """A part of an entry: text[start:end]."""

    text: str
    start: int
    end: int


class Tokenizer:
    """Reader of tokens, with a position in an entry."""

    def __init__(self, entry: Entry) -> None:
        self._text = entry.text
        self.position = 0

    @property
    def is_at_end(self) -> bool:
        return self.position >= len(self._text)

    @property
    def char(self) -> str:
        """The next character, or "" at the end."""
        return self._text[self.position : self.position + 1]

    def check(self, name: str) -> re.Match[str] | None:
        return TOKENS[name].match(self._text, self.position)

    def read(self, name: str) -> Token | None:
        found = TOKENS[name].match(self._text, self.position)
        if found is None:
            return None
        self.position = found.end()
        return Token(found.group(), found.start(), found.end())

    def read_to_end(self) -> None:
        self.position = len(self._text)

    def between(self, start: int, end: int) -> Token:
        """Return the text between two positions, without trailing blanks."""
        text = self._text[start:end].rstrip(" \t")
        return Token(text, start, start + len(text))


# Join the lines of a rules table into entries, without comments and blank lines.
#
# An entry knows the place of each of its characters, so that an error names a line and a column.
# The conventions are IBM's ("Dead-letter queue handler rules table"): an entry starts on a new
# line; a line that ends in ``+`` continues at the first nonblank of the next line, a line that ends
# in ``-`` at its column 1; a line that begins with ``*`` is a comment anywhere.

BLANKS: Final = " \t"
COLUMNS: Final = 72
"""The longest line that the handlers of all platforms read."""

_BYTE_ORDER_MARK: Final = "\ufeff"


@dataclass(frozen=True, slots=True)
class Line:
    """A physical line without its line end."""

    number: int
    text: str

    def place(self, start: int, length: int = 1) -> Place:
        return Place(self.number, start + 1, length, self.text)


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a line in an entry: from `start` of the line, at `offset` of the entry."""

    line: Line
    start: int
    offset: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule, or the control data, as one text."""

    text: str
    pieces: tuple[Piece, ...]

    @property
    def line(self) -> int:
        return self.pieces[0].line.number

    def place(self, start: int, end: int | None = None) -> Place:
        """Return the place of text[start:end], or of its first part if it spans lines."""
        at = bisect_right(self.pieces, start, key=lambda piece: piece.offset) - 1
        piece = self.pieces[at]
        last = self.pieces[at + 1].offset if at + 1 < len(self.pieces) else len(self.text)
        length = min(start + 1 if end is None else end, last) - start
        return piece.line.place(start - piece.offset + piece.start, max(1, length))


def entries(text: str, report: Report) -> Iterator[Entry]:
    """Yield the entries of a table in order, and report faults of its lines."""
    entry = _Joiner()
    for line in _lines(text, report):
        body = line.text.rstrip(BLANKS)
        start = len(body) - len(body.lstrip(BLANKS))
        if start == len(body):
            continue
        _check_asterisk(line, body, start, entry, report)
        if _is_comment(body, start, entry):
            continue
        if "\t" in body:
            report.warning("tab", line.place(body.index("\t")), "a tab; only blanks are portable")
        entry.add(line, body, start)
        if not entry.sign:
            yield entry.finish()
    if entry.sign:
        report.error(
            "dangling-continuation",
            entry.sign_place(),
            f"the entry continues after this {entry.sign!r}, but no line follows",
        )
        last = entry.finish()
        if last.text.strip(BLANKS):
            yield last


def _lines(text: str, report: Report) -> Iterator[Line]:
    """Yield the physical lines, and report their line ends and lengths."""
    starts_with_mark = text.startswith(_BYTE_ORDER_MARK)
    lines = text.removeprefix(_BYTE_ORDER_MARK).split("\n")
    if not lines[-1]:
        lines.pop()
        ends_properly = True
    else:
        ends_properly = False
    if starts_with_mark:
        place = Line(1, lines[0] if lines else "").place(0)
        report.warning("byte-order-mark", place, "a byte-order mark before the first character")
    crlf_seen = False
    for number, raw in enumerate(lines, start=1):
        line = Line(number, raw.removesuffix("\r"))
        if line.text != raw and not crlf_seen:
            crlf_seen = True
            place = line.place(len(line.text))
            report.warning("crlf", place, "lines end in CR LF, which only Windows expects")
        width = len(line.text.rstrip(BLANKS))
        if width > COLUMNS:
            report.warning(
                "long-line",
                line.place(COLUMNS, width - COLUMNS),
                f"the line has {width} columns; not every platform reads more than {COLUMNS}",
            )
        yield line
    if not ends_properly:
        last = Line(len(lines), lines[-1].removesuffix("\r"))
        report.warning(
            "no-final-newline",
            last.place(len(last.text)),
            "the last line has no line end; on Windows runmqdlq ignores it",
        )


def _is_comment(body: str, start: int, entry: _Joiner) -> bool:
    """Whether a line is a comment.

    Within parentheses an indented ``*`` may continue a value; elsewhere it can only be a comment.
    """
    return body[start] == "*" and (start == 0 or not entry.is_in_value)


def _check_asterisk(line: Line, body: str, start: int, entry: _Joiner, report: Report) -> None:
    if body[start] != "*":
        return
    if start > 0:
        taken = "part of the value above" if entry.is_in_value else "a comment"
        report.warning(
            "indented-asterisk",
            line.place(start),
            f"this line is read as {taken}; a comment begins with '*' in column 1",
        )
    if not _is_comment(body, start, entry):
        return
    if entry.sign:
        report.warning(
            "comment-in-entry",
            line.place(0, len(body)),
            "a comment between continued lines; not every handler skips it",
        )
    if not body.isascii():
        at = next(at for at, char in enumerate(body) if not char.isascii())
        report.warning("non-ascii", line.place(at), "a character outside ASCII in a comment")


class _Joiner:
    """Joiner of the lines of one entry."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.sign = ""
        self.is_in_value = False  # whether the text ends within parentheses
        self._texts: list[str] = []
        self._pieces: list[Piece] = []
        self._length = 0
        self._in_quotes = False

    def add(self, line: Line, body: str, start: int) -> None:
        """Add a line from its first nonblank, or from column 1 after a ``-``."""
        if self.sign == "-":
            start = 0
        self.sign = body[-1] if body[-1] in "+-" else ""
        text = body[start:].removesuffix(self.sign)
        self._pieces.append(Piece(line, start, self._length))
        self._texts.append(text)
        self._length += len(text)
        if self.sign:
            self._follow(text)

    def sign_place(self) -> Place:
        line = self._pieces[-1].line
        return line.place(len(line.text.rstrip(BLANKS)) - 1)

    def finish(self) -> Entry:
        """Return the entry, and prepare for the next one."""
        entry = Entry("".join(self._texts), tuple(self._pieces))
        self._clear()
        return entry

    def _follow(self, text: str) -> None:
        """Track parentheses and quotation marks; a doubled mark closes and reopens."""
        for char in text:
            if char == "'" and self.is_in_value:
                self._in_quotes = not self._in_quotes
            elif not self._in_quotes and char in "()":
                self.is_in_value = char == "("
