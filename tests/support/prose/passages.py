"""Passages of prose: paragraphs, headings, comments, docstrings and messages, with their places."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_UNREAD = re.compile(
    r"https?://\S+|\]\([^)]*\)|<!--.*?-->|</?[a-z][^>]*>|\{#[\w-]+\}"
    r"|noqa: ?[A-Z0-9, ]+|type: ignore\S*"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`·]*[A-Z`·])")


class Scope(StrEnum):
    """The kind of a passage."""

    PARAGRAPH = "paragraph"
    HEADING = "heading"
    CELL = "table.cell"
    COMMENT = "comment"
    DOCSTRING = "docstring"
    MESSAGE = "message"
    NAME = "name"
    """The name of a test, as a sentence."""


class Line(NamedTuple):
    """A stretch of prose on one line of a file; line and column count from 1."""

    number: int
    column: int
    text: str


class Sentence(NamedTuple):
    """A sentence of a passage, and where it begins in the passage's text."""

    start: int
    text: str


class Passage:
    """Lines of prose that are read as one text; code and addresses in it are masked."""

    def __init__(self, scope: Scope, lines: Iterable[Line]) -> None:
        self.scope = scope
        self._lines = list(lines)
        self._starts = []
        parts = []
        length = 0
        for line in self._lines:
            self._starts.append(length)
            parts.append(line.text)
            length += len(line.text) + 1
        self.text = masked(" ".join(parts))

    def place(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of a character of the text."""
        index = bisect_right(self._starts, offset) - 1
        line = self._lines[index]
        return line.number, line.column + offset - self._starts[index]

    def sentences(self) -> Iterator[Sentence]:
        """Yield the sentences of the text in their order."""
        start = 0
        for end in _SENTENCE_END.finditer(self.text):
            yield Sentence(start, self.text[start : end.start()])
            start = end.end()
        yield Sentence(start, self.text[start:])


def masked(text: str) -> str:
    """Replace inline code, addresses and directives by as many middle dots."""
    for pattern in (_CODE, _UNREAD):
        text = pattern.sub(lambda found: "·" * len(found[0]), text)
    return text


def paragraphs(scope: Scope, lines: Iterable[Line]) -> Iterator[Passage]:
    """Split lines at the empty ones."""
    gathered: list[Line] = []
    for line in lines:
        if line.text.strip():
            gathered.append(line)
        elif gathered:
            yield Passage(scope, gathered)
            gathered = []
    if gathered:
        yield Passage(scope, gathered)
