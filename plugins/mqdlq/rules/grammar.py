"""Join the lines of a rules table into entries, and parse each into keywords and values.

    entry     = [ separator ] parameter { separator parameter } [ separator ] .
    parameter = keyword [ blanks ] "(" [ blanks ] value [ blanks ] ")" .
    value     = quoted | plain .
    quoted    = "'" { character | "''" } "'" .
    separator = { blank | "," } .

The conventions of lines are IBM's ("Dead-letter queue handler rules table"): an entry starts on a
new line; a line that ends in ``+`` continues at the first nonblank of the next line, a line that
ends in ``-`` at its column 1; a line that begins with ``*`` is a comment anywhere.

Keywords and values are not interpreted here. A fault ends a parameter, not the entry: parsing
resumes where the next parameter seems to begin, so that all faults of a table are reported at once.
The names of keywords are used only to find that place, and to suggest a correction.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mqdlq.rules.diagnostics import Place, Report, quoted, shortened
from mqdlq.rules.keywords import KEYWORDS

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
class Entry:
    """One rule, or the control data, as one text.

    An entry knows the place of each of its characters, so that an error names a line and a column:
    the part of a line begins at `starts` of the line, and at `offsets` of the text.
    """

    text: str
    lines: tuple[Line, ...]
    starts: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def line(self) -> int:
        return self.lines[0].number

    def place(self, start: int, end: int | None = None) -> Place:
        """Return the place of text[start:end], or of its first part if it spans lines."""
        at = bisect_right(self.offsets, start) - 1
        last = self.offsets[at + 1] if at + 1 < len(self.offsets) else len(self.text)
        length = min(start + 1 if end is None else end, last) - start
        return self.lines[at].place(start - self.offsets[at] + self.starts[at], max(1, length))


def entries(text: str, report: Report) -> Iterator[Entry]:
    """Yield the entries of a table in order, and report faults of its lines."""
    entry = _Joiner()
    for line in _lines(text, report):
        body = line.text.rstrip(BLANKS)
        start = len(body) - len(body.lstrip(BLANKS))
        if start == len(body):
            continue
        if body[start] == "*" and _is_comment(line, body, start, entry, report):
            continue
        if "\t" in body:
            report.warning("tab", line.place(body.index("\t")), "a tab; only blanks are portable")
        entry.add(line, body, start)
        if not entry.sign:
            yield entry.finish()
    if entry.sign:
        message = f"the entry continues after this {entry.sign!r}, but no line follows"
        report.error("dangling-continuation", entry.sign_place(), message)
        last = entry.finish()
        if last.text.strip(BLANKS):
            yield last


def _lines(text: str, report: Report) -> Iterator[Line]:
    """Yield the physical lines, and report their line ends and lengths."""
    lines = text.removeprefix(_BYTE_ORDER_MARK).split("\n")
    ends_properly = not lines[-1]
    if ends_properly:
        lines.pop()
    if text.startswith(_BYTE_ORDER_MARK):
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
            message = f"the line has {width} columns; not every platform reads more than {COLUMNS}"
            report.warning("long-line", line.place(COLUMNS, width - COLUMNS), message)
        yield line
    if not ends_properly:
        last = Line(len(lines), lines[-1].removesuffix("\r"))
        message = "the last line has no line end; on Windows runmqdlq ignores it"
        report.warning("no-final-newline", last.place(len(last.text)), message)


def _is_comment(line: Line, body: str, start: int, entry: _Joiner, report: Report) -> bool:
    """Whether a line that begins with an asterisk is a comment, with warnings about it.

    Within parentheses an indented ``*`` may continue a value; elsewhere it can only be a comment.
    """
    is_comment = start == 0 or not entry.is_in_value
    if start > 0:
        taken = "a comment" if is_comment else "part of the value above"
        message = f"this line is read as {taken}; a comment begins with '*' in column 1"
        report.warning("indented-asterisk", line.place(start), message)
    if is_comment and entry.sign:
        message = "a comment between continued lines; not every handler skips it"
        report.warning("comment-in-entry", line.place(0, len(body)), message)
    if is_comment and not body.isascii():
        at = next(at for at, char in enumerate(body) if not char.isascii())
        report.warning("non-ascii", line.place(at), "a character outside ASCII in a comment")
    return is_comment


class _Joiner:
    """Joiner of the lines of one entry."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.sign = ""
        self.is_in_value = False  # whether the text ends within parentheses
        self._in_quotes = False
        self._texts: list[str] = []
        self._parts: list[tuple[Line, int, int]] = []
        self._length = 0

    def add(self, line: Line, body: str, start: int) -> None:
        """Add a line from its first nonblank, or from column 1 after a ``-``."""
        if self.sign == "-":
            start = 0
        self.sign = body[-1] if body[-1] in "+-" else ""
        text = body[start:].removesuffix(self.sign)
        self._parts.append((line, start, self._length))
        self._texts.append(text)
        self._length += len(text)
        if self.sign:
            self._follow(text)

    def sign_place(self) -> Place:
        line, _, _ = self._parts[-1]
        return line.place(len(line.text.rstrip(BLANKS)) - 1)

    def finish(self) -> Entry:
        lines, starts, offsets = zip(*self._parts, strict=True)
        entry = Entry("".join(self._texts), lines, starts, offsets)
        self._clear()
        return entry

    def _follow(self, text: str) -> None:
        """Track parentheses and quotation marks; a doubled mark closes and reopens."""
        for char in text:
            if char == "'" and self.is_in_value:
                self._in_quotes = not self._in_quotes
            elif not self._in_quotes and char in "()":
                self.is_in_value = char == "("


# Parse an entry on demand of the grammar.

_KEYWORD_OF_WORD: Final = {word: k.name for k in KEYWORDS.values() for word in k.words}
_EXAMPLE: Final = "a keyword such as REASON or ACTION"

_BLANKS: Final = re.compile(r"[ \t]+")
_SEPARATOR: Final = re.compile(r"[ \t,]+")
_KEYWORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OPEN: Final = re.compile(r"\(")
_CLOSE: Final = re.compile(r"\)")
_QUOTED: Final = re.compile(r"'[^']*+(?:''[^']*+)*+'")
_PLAIN: Final = re.compile(r"[^ \t,()']+")
_WHOLE_VALUE: Final = re.compile(
    r"[ \t]*+\([ \t]*+(?:('[^']*+(?:''[^']*+)*+')|([^ \t,()']++))[ \t]*+\)"
)
_PARENTHESIS_AHEAD: Final = re.compile(r"[ \t]*\(")
_PARAMETER_AHEAD: Final = re.compile(r"[ \t,]*([A-Za-z][A-Za-z0-9_]*)[ \t]*\(")
_REST_OF_VALUE: Final = re.compile(r"[^()]*")
_JUNK: Final = re.compile(r"(?:'[^']*'?|[^ \t,()']+|\([^()]*\)?|\))+")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A keyword, in upper case, with its value as written, without its quotation marks.

    `value` is None if a fault of it was reported. `start` and `end` are the keyword's place in the
    entry, `value_start` and `value_end` the value's.
    """

    keyword: str
    start: int
    end: int
    value: str | None = None
    is_quoted: bool = False
    value_start: int = 0
    value_end: int = 0


def read_statement(entry: Entry, report: Report) -> tuple[tuple[Parameter, ...], bool]:
    """Parse an entry into its parameters, and say whether they are all of it.

    If they are not, a keyword may be missing because of a fault. Faults are reported, not raised.
    """
    return _Parser(entry, report).statement()


class _Parser:
    """Recursive-descent parser: a method for each rule of the grammar, and error recovery."""

    def __init__(self, entry: Entry, report: Report) -> None:
        self._entry = entry
        self._report = report
        self._text = entry.text
        self._at = 0
        self._is_whole = True

    def _ahead(self, token: re.Pattern[str]) -> re.Match[str] | None:
        return token.match(self._text, self._at)

    def _read(self, token: re.Pattern[str]) -> re.Match[str] | None:
        found = self._ahead(token)
        if found:
            self._at = found.end()
        return found

    @property
    def _is_at_end(self) -> bool:
        return self._at >= len(self._text)

    def statement(self) -> tuple[tuple[Parameter, ...], bool]:
        parameters: list[Parameter] = []
        separated = True
        while not self._report.is_full:
            separated = self._read(_SEPARATOR) is not None or separated
            if self._is_at_end:
                break
            keyword = self._read(_KEYWORD)
            if keyword is None:
                self._junk(self._at)
            elif not self._ahead(_PARENTHESIS_AHEAD):
                self._without_parenthesis(keyword)
            else:
                if not separated:
                    self._report.warning(
                        "no-separator",
                        self._entry.place(*keyword.span()),
                        f"no blank before {keyword[0]}; not every handler accepts that",
                    )
                parameters.append(self._parameter(keyword))
            separated = self._text[self._at - 1] != ")"
        if not parameters and self._is_whole:
            self._error("syntax", 0, len(self._text), f"expected {_EXAMPLE}")
            self._is_whole = False
        return tuple(parameters), self._is_whole

    def _parameter(self, keyword: re.Match[str]) -> Parameter:
        name = keyword[0].upper()
        if whole := self._read(_WHOLE_VALUE):  # nearly every value; the rest finds the fault
            is_quoted = whole[1] is not None
            text = whole[1][1:-1].replace("''", "'") if is_quoted else whole[2]
            return Parameter(
                name, *keyword.span(), text, is_quoted, *whole.span(1 if is_quoted else 2)
            )
        self._read(_BLANKS)
        self._read(_OPEN)
        self._read(_BLANKS)
        start = self._at
        value: str | None = None
        if self._read(_CLOSE):
            message = f"{name} has no value; for a blank field write {name}(' ')"
            self._error("empty-value", keyword.start(), self._at, message)
        elif self._text[start : start + 1] == "'":
            self._quoted(keyword)
        else:
            value = self._plain(keyword)
        end = start + len(value or "")
        return Parameter(name, *keyword.span(), value, value_start=start, value_end=end)

    def _quoted(self, keyword: re.Match[str]) -> None:
        start = self._at
        token = self._read(_QUOTED)
        if token is None:
            self._at = len(self._text)
            self._is_whole = False
            message = "this quotation mark is never closed; within the value, write ''"
            self._error("unbalanced-quote", start, self._at, message)
            return
        self._read(_BLANKS)
        if (rest := self._rest_of_value(keyword, token.end())) is not None:
            self._error(
                "unbalanced-quote",
                token.end(),
                token.end() + len(rest),
                f"expected ')' after the closing quotation mark, found {quoted(rest)};"
                " within the value, write a quotation mark as ''",
            )

    def _plain(self, keyword: re.Match[str]) -> str | None:
        start = self._at
        token = self._read(_PLAIN)
        if token and self._ahead(_OPEN) and token[0].upper() in KEYWORDS:
            self._at = start
        else:
            self._read(_BLANKS)
        return self._rest_of_value(keyword, start)

    def _rest_of_value(self, keyword: re.Match[str], start: int) -> str | None:
        """Read up to the ``)`` that closes the value, and return the value from `start`.

        Report a fault if the entry ends or the next parameter begins first.
        """
        ahead = self._ahead(_PARAMETER_AHEAD)
        if self._is_at_end or (ahead and ahead[1].upper() in KEYWORDS):
            self._report_unclosed(keyword)
            return None
        depth = 1
        while True:
            self._read(_REST_OF_VALUE)
            end = self._at
            if self._read(_OPEN):
                depth += 1
            elif self._read(_CLOSE):
                depth -= 1
                if not depth:
                    return self._text[start:end].rstrip(BLANKS)
            else:
                self._report_unclosed(keyword)
                self._is_whole = False
                return None

    def _report_unclosed(self, keyword: re.Match[str]) -> None:
        end = keyword.start() + len(self._text[keyword.start() : self._at].rstrip(BLANKS))
        message = f"the '(' after {keyword[0].upper()} is never closed"
        self._error("unbalanced-parenthesis", keyword.start(), end, message)

    def _without_parenthesis(self, keyword: re.Match[str]) -> None:
        """Report a word that should be a parameter, together with the words after it."""
        word = keyword[0].upper()
        advice = ""
        if word in _KEYWORD_OF_WORD and word not in KEYWORDS:
            advice = f"; did you mean {_KEYWORD_OF_WORD[word]}({word})?"
        message = f"expected '(' after {shortened(keyword[0])}{advice}"
        self._error("syntax", *keyword.span(), message)
        self._is_whole = False
        while not self._is_at_end and not self._ahead(_PARAMETER_AHEAD):
            if not self._read(_SEPARATOR):
                self._read(_JUNK)

    def _junk(self, start: int) -> None:
        """Report text that cannot begin a parameter, up to the next separator."""
        self._read(_JUNK)
        junk = self._text[start : self._at].rstrip(BLANKS)
        message = f"expected {_EXAMPLE}, found {quoted(junk)}"
        if junk.startswith(")"):
            message = "this ')' has no matching '('"
        self._error("syntax", start, self._at, message)
        self._is_whole = False

    def _error(self, code: str, start: int, end: int, message: str) -> None:
        self._report.error(code, self._entry.place(start, end), message)
