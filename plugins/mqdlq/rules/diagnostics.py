"""Collect the faults of a rules table, and format each with a caret under its place."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mqdlq.errors import MqDlqError

LIMIT: Final = 10_000
"""How many errors, and how many warnings, are kept: enough for people, and a bound on memory."""

_SHOWN_WIDTH: Final = 100
_SHOWN_VALUE: Final = 60


class Severity(StrEnum):
    """An error rejects the table; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Place:
    """A range of one line of a rules table; lines and columns count characters from 1."""

    line: int
    column: int
    length: int
    source: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Diagnostic(Place):
    """One fault at its place: a code for programs, a message for people.

    `source` is the text of the line, `length` how many of its characters the fault covers.
    """

    severity: Severity
    code: str
    message: str
    path: str

    def __str__(self) -> str:
        """Return the place and message, the line, and carets under the fault."""
        if self.severity is Severity.ERROR:
            text = f"{self.path}:{self.line}:{self.column}: {self.message}"
        else:
            text = f"{self.path}:{self.line}:{self.column}: warning: {self.message} [{self.code}]"
        if not self.source:
            return text
        # Of a very long line, only the part around the fault is shown.
        start = max(0, self.column - 1 - _SHOWN_WIDTH // 2) if self.column > _SHOWN_WIDTH else 0
        shown = "".join(map(_visible, self.source[start : start + _SHOWN_WIDTH])).rstrip()
        before = self.column - 1 - start
        under = max(1, min(self.length, _SHOWN_WIDTH - before))
        return f"{text}\n    {shown}\n    {' ' * before}{'~' * (under - 1)}^"


def _visible(char: str) -> str:
    """Return text with one column for each character, so that carets align."""
    if char.isprintable():
        return char
    return " " if char == "\t" else "?"


class RulesError(MqDlqError, ValueError):
    """A rejected rules table; `diagnostics` has all findings, the text has the errors."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        errors = (str(d) for d in diagnostics if d.severity is Severity.ERROR)
        super().__init__("", "\n".join(errors))
        self.diagnostics = diagnostics


class Report:
    """Collector of one table's faults while it is parsed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._found: dict[Severity, list[Diagnostic]] = {severity: [] for severity in Severity}

    def error(self, code: str, place: Place, message: str) -> None:
        self._add(Severity.ERROR, code, place, message)

    def warning(self, code: str, place: Place, message: str) -> None:
        self._add(Severity.WARNING, code, place, message)

    @property
    def is_full(self) -> bool:
        """Whether both limits are reached, so that parsing can stop."""
        return len(self._found[Severity.ERROR]) >= LIMIT

    @property
    def has_errors(self) -> bool:
        return bool(self._found[Severity.ERROR])

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        found = (d for severity in Severity for d in self._found[severity])
        return tuple(sorted(found, key=lambda d: (d.line, d.column)))

    def _add(self, severity: Severity, code: str, place: Place, message: str) -> None:
        found = self._found[severity]
        if len(found) < LIMIT:
            at = place.line, place.column, place.length, place.source
            found.append(Diagnostic(*at, severity, code, message, self._path))


def shortened(text: str) -> str:
    """Return text for an error message: truncated, without invisible characters."""
    shown = text if len(text) <= _SHOWN_VALUE else text[:_SHOWN_VALUE] + "..."
    return escaped(shown)


def escaped(text: str, keep: str = "") -> str:
    """Return text in which no character acts on a terminal or a page, except those to `keep`."""
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def quoted(text: str) -> str:
    return f"'{shortened(text)}'"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, as tables and files have it: ``1 rule``, ``1000 rules``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(words: Iterable[str], last: str = "or") -> str:
    """Join words for a sentence: ``DEF or CTX``."""
    *most, final = words
    return f"{', '.join(most)} {last} {final}" if most else final
