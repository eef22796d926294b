"""Read the prose of a Markdown file: headings, paragraphs, list items and table cells."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.support.prose.passages import Line, Passage, Scope

_FENCE = re.compile(r"^\s*(```+|~~~+)")
_HEADING = re.compile(r"^(#+ +)(.*?)\s*#*$")
_ITEM = re.compile(r"^(\s*(?:[-*+]|\d+\.)\s+|\s*>\s?|\s*(?:!!!|\?\?\?\+?) \w+ ?)")
_CELL = re.compile(r"(?:\\\||`[^`]*`|[^|])+")
_RULER = re.compile(r"^[\s|:-]+$")
_FRONT_MATTER = "---"


def passages(text: str) -> Iterator[Passage]:
    """Yield the passages of a Markdown text; code, front matter and HTML blocks are left out."""
    paragraph: list[Line] = []
    for number, line in _prose_lines(text):
        heading = _HEADING.match(line)
        is_row = line.lstrip().startswith("|")
        item = None if heading or is_row else _ITEM.match(line)
        if paragraph and (heading or is_row or item or not line.strip()):
            yield Passage(Scope.PARAGRAPH, paragraph)
            paragraph = []
        if heading:
            column = len(heading[1]) + 1
            yield Passage(Scope.HEADING, [Line(number, column, heading[2])])
        elif is_row:
            yield from _cells(number, line)
        elif line.strip():
            text_of_line = line[item.end() :] if item else line.lstrip()
            column = len(line) - len(text_of_line) + 1
            paragraph.append(Line(number, column, text_of_line.rstrip()))
    if paragraph:
        yield Passage(Scope.PARAGRAPH, paragraph)


def _prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines outside code blocks and front matter; these become empty."""
    fence = ""
    is_front_matter = False
    for number, line in enumerate(text.splitlines(), 1):
        if number == 1 and line == _FRONT_MATTER:
            is_front_matter = True
        elif is_front_matter:
            is_front_matter = line != _FRONT_MATTER
        elif fence:
            if line.strip().startswith(fence):
                fence = ""
        elif found := _FENCE.match(line):
            fence = found[1]
        else:
            yield number, line
            continue
        yield number, ""


def _cells(number: int, line: str) -> Iterator[Passage]:
    if _RULER.match(line):
        return
    for cell in _CELL.finditer(line):
        text = cell[0].strip()
        if text:
            column = cell.start() + len(cell[0]) - len(cell[0].lstrip()) + 1
            yield Passage(Scope.CELL, [Line(number, column, text)])
