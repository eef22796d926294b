"""Parse an entry into keywords and values, and report every fault.

    entry     = [ separator ] parameter { separator parameter } [ separator ] .
    parameter = keyword [ blanks ] "(" [ blanks ] value [ blanks ] ")" .
    value     = quoted | plain .
    quoted    = "'" { character | "''" } "'" .
    separator = { blank | "," } .

Keywords and values are not interpreted here. A fault ends a parameter, not the entry: parsing
resumes where the next parameter seems to begin, so that all faults of a table are reported at once.
The names of keywords are used only to find that place, and to suggest a correction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mqdlq.rules.diagnostics import Report, quoted, shortened
from mqdlq.rules.keywords import KEYWORDS
from mqdlq.rules.syntax.lines import Entry, Token, Tokenizer

_KEYWORD_OF_WORD: Final = {word: k.name for k in KEYWORDS.values() for word in k.words}
_EXAMPLE: Final = "a keyword such as REASON or ACTION"


@dataclass(frozen=True, slots=True)
class Value:
    """A value as written, without its quotation marks."""

    text: str
    is_quoted: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A keyword, in upper case, with its value; None if a fault of the value was reported."""

    keyword: str
    start: int
    end: int
    value: Value | None


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed entry; if it is not whole, a keyword may be missing because of a fault."""

    entry: Entry
    parameters: tuple[Parameter, ...]
    is_whole: bool


def read_statement(entry: Entry, report: Report) -> Statement:
    """Parse an entry; report its faults instead of raising them."""
    return _Parser(entry, report).statement()


class _Parser:
    """Recursive-descent parser: a method for each rule of the grammar, and error recovery."""

    def __init__(self, entry: Entry, report: Report) -> None:
        self._entry = entry
        self._report = report
        self._tokens = Tokenizer(entry)
        self._is_whole = True

    def statement(self) -> Statement:
        """EBNF: entry = [ separator ] parameter { separator parameter } [ separator ] ."""
        tokens = self._tokens
        parameters: list[Parameter] = []
        separated = True
        while not self._report.is_full:
            separated = tokens.read("separator") is not None or separated
            if tokens.is_at_end:
                break
            keyword = tokens.read("keyword")
            if keyword is None:
                self._junk(tokens.position)
            elif not tokens.check("parenthesis ahead"):
                self._without_parenthesis(keyword)
            else:
                if not separated:
                    self._report.warning(
                        "no-separator",
                        self._entry.place(keyword.start, keyword.end),
                        f"no blank before {keyword.text}; not every handler accepts that",
                    )
                parameters.append(self._parameter(keyword))
            separated = self._entry.text[tokens.position - 1] != ")"
        if not parameters and self._is_whole:
            self._error("syntax", 0, len(self._entry.text), f"expected {_EXAMPLE}")
            self._is_whole = False
        return Statement(self._entry, tuple(parameters), self._is_whole)

    def _parameter(self, keyword: Token) -> Parameter:
        """EBNF: parameter = keyword [ blanks ] "(" [ blanks ] value [ blanks ] ")" ."""
        tokens = self._tokens
        name = keyword.text.upper()
        if whole := tokens.check("whole value"):  # nearly every value; the rest finds the fault
            tokens.position = whole.end()
            is_quoted = whole[1] is not None
            text = whole[1][1:-1].replace("''", "'") if is_quoted else whole[2]
            start, end = whole.span(1 if is_quoted else 2)
            found = Value(text, is_quoted=is_quoted, start=start, end=end)
            return Parameter(name, keyword.start, keyword.end, found)
        tokens.read("blanks")
        tokens.read("open")
        tokens.read("blanks")
        value = None
        if tokens.read("close"):
            self._error(
                "empty-value",
                keyword.start,
                tokens.position,
                f"{name} has no value; for a blank field write {name}(' ')",
            )
        elif tokens.char == "'":
            self._quoted(keyword)
        else:
            value = self._plain(keyword)
        return Parameter(name, keyword.start, keyword.end, value)

    def _quoted(self, keyword: Token) -> None:
        """EBNF: quoted = "'" { character | "''" } "'" ."""
        tokens = self._tokens
        token = tokens.read("quoted")
        if token is None:
            start = tokens.position
            tokens.read_to_end()
            self._is_whole = False
            self._error(
                "unbalanced-quote",
                start,
                tokens.position,
                "this quotation mark is never closed; within the value, write ''",
            )
            return
        tokens.read("blanks")
        if rest := self._rest_of_value(keyword, token.end):
            self._error(
                "unbalanced-quote",
                rest.start,
                rest.end,
                f"expected ')' after the closing quotation mark, found {quoted(rest.text)};"
                " within the value, write a quotation mark as ''",
            )

    def _plain(self, keyword: Token) -> Value | None:
        """EBNF: plain = character { character } ."""
        tokens = self._tokens
        start = tokens.position
        token = tokens.read("plain")
        if token and tokens.check("open") and token.text.upper() in KEYWORDS:
            tokens.position = start
        else:
            tokens.read("blanks")
        if rest := self._rest_of_value(keyword, start):
            return Value(rest.text, is_quoted=False, start=start, end=rest.end)
        return None

    def _report_unclosed(self, keyword: Token) -> None:
        self._error(
            "unbalanced-parenthesis",
            keyword.start,
            self._tokens.between(keyword.start, self._tokens.position).end,
            f"the '(' after {keyword.text.upper()} is never closed",
        )

    def _rest_of_value(self, keyword: Token, start: int) -> Token | None:
        """Read up to the ``)`` that closes the value, and return the value from `start`.

        Report a fault if the entry ends or the next parameter begins first.
        """
        tokens = self._tokens
        ahead = tokens.check("parameter ahead")
        if tokens.is_at_end or (ahead and ahead.group(1).upper() in KEYWORDS):
            self._report_unclosed(keyword)
            return None
        depth = 1
        while True:
            tokens.read("rest of value")
            end = tokens.position
            if tokens.read("open"):
                depth += 1
            elif tokens.read("close"):
                depth -= 1
                if not depth:
                    return tokens.between(start, end)
            else:
                self._report_unclosed(keyword)
                self._is_whole = False
                return None

    def _without_parenthesis(self, keyword: Token) -> None:
        """Report a word that should be a parameter, together with the words after it."""
        tokens = self._tokens
        word = keyword.text.upper()
        if word in _KEYWORD_OF_WORD and word not in KEYWORDS:
            advice = f"; did you mean {_KEYWORD_OF_WORD[word]}({word})?"
        else:
            advice = ""
        message = f"expected '(' after {shortened(keyword.text)}{advice}"
        self._error("syntax", keyword.start, keyword.end, message)
        self._is_whole = False
        while not tokens.is_at_end and not tokens.check("parameter ahead"):
            if not tokens.read("separator"):
                tokens.read("junk")

    def _junk(self, start: int) -> None:
        """Report text that cannot begin a parameter, up to the next separator."""
        tokens = self._tokens
        tokens.read("junk")
        junk = tokens.between(start, tokens.position).text
        message = (
            "this ')' has no matching '('"
            if junk.startswith(")")
            else f"expected {_EXAMPLE}, found {quoted(junk)}"
        )
        self._error("syntax", start, tokens.position, message)
        self._is_whole = False

    def _error(self, code: str, start: int, end: int, message: str) -> None:
        self._report.error(code, self._entry.place(start, end), message)
