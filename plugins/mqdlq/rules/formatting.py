"""Format the text of a rules table canonically, and keep its comments.

Entries are printed as by `print_table`. A comment keeps its position relative to entries. A comment
between the lines of an entry moves before the entry, because not every handler skips it there.
Several blank lines become one.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mqdlq.rules.diagnostics import Report
from mqdlq.rules.grammar import BLANKS, COLUMNS, Entry, entries
from mqdlq.rules.reading import check, decoded
from mqdlq.rules.table import ControlData, RulesTable, print_entries

_WORDS: Final = re.compile(r"[ \t]+")
_DECORATION: Final = re.compile(r"(\W)\1{3,}")
_LEAST_DECORATION: Final = 3


def format_table(text: str | bytes, source: str = "<rules>") -> str:
    """Return the canonical text with the comments; meaning and digest do not change.

    Formatting is idempotent. Bytes of a comment that are not UTF-8 become lone surrogates, as with
    the error handler ``surrogateescape``. Raises RulesError with all faults if the table has an
    error.
    """
    result = check(text, source)
    prints = _prints(result.valid_table(), has_control=bool(result.control))
    return "".join(f"{line}\n" for line in _one_blank(_formatted(decoded(text), iter(prints))))


def comments(text: str | bytes) -> tuple[tuple[str, ...], ...]:
    """Return the comments of a valid table, without their asterisks.

    The first element has the comments before or within the first entry, and so on; the last element
    has those after the last entry.
    """
    groups: list[tuple[str, ...]] = []
    group: list[str] = []
    for item in _items(decoded(text)):
        if isinstance(item, Entry):
            groups.append(tuple(group))
            group = []
        elif item:
            group.append(item[1:].strip(BLANKS))
    return (*groups, tuple(group))


def _formatted(text: str, prints: Iterator[list[str]]) -> Iterator[str]:
    for item in _items(text):
        if isinstance(item, Entry):
            yield from next(prints)
        elif item:
            yield from map(_stripped, _comment(item))
        else:
            yield ""


def _prints(table: RulesTable, *, has_control: bool) -> list[list[str]]:
    """Return the canonical lines of each entry; control data with defaults only has none."""
    texts = [print_entries(table.control, ())] if has_control else []
    texts += [print_entries(ControlData(), (rule,)) for rule in table.rules]
    return [text.split("\n")[:-1] for text in texts]


def _items(text: str) -> Iterator[Entry | str]:
    """Yield entries, comments, and "" for blank lines; comments within an entry precede it."""
    lines = text.removeprefix("\ufeff").split("\n")
    done = 0
    for entry in entries(text, Report("")):
        within = {line.number for line in entry.lines}
        yield from (_stripped(line) for line in lines[done : entry.line - 1])
        done = entry.lines[-1].number
        for number in range(entry.line, done + 1):
            if number not in within and (comment := _stripped(lines[number - 1])):
                yield comment
        yield entry
    yield from (_stripped(line) for line in lines[done:])


def _stripped(line: str) -> str:
    """Return a comment from its asterisk, without trailing invisible characters."""
    return line.strip(BLANKS + "\r")


def _one_blank(lines: Iterable[str]) -> Iterator[str]:
    """Merge adjacent blank lines, and remove those at the start and the end."""
    blank = started = False
    for line in lines:
        if line:
            if blank and started:
                yield ""
            yield line
            started = True
        blank = not line


def _comment(comment: str) -> Iterator[str]:
    """Fit a comment into 72 columns: shorten a row of one character, otherwise refill lines."""
    excess = len(comment) - COLUMNS
    if excess <= 0:
        yield comment
        return
    longest = max(_DECORATION.finditer(comment), key=lambda run: len(run.group()), default=None)
    if longest and len(longest.group()) >= excess + _LEAST_DECORATION:
        yield comment[: longest.start()] + comment[longest.start() + excess :]
        return
    line = "*"
    for word in _WORDS.split(comment[1:].strip(BLANKS)):
        if len(line) + 1 + len(word) > COLUMNS and line != "*":
            yield line
            line = "*"
        line = f"{line} {word}"
        while len(line) > COLUMNS:
            yield line[:COLUMNS]
            line = f"* {line[COLUMNS:]}"
    yield line
