"""Read one token after another from an entry, as the grammar asks for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mqdlq.rules.syntax.lines import Entry

TOKENS: Final = {
    "blanks": re.compile(r"[ \t]+"),
    "separator": re.compile(r"[ \t,]+"),
    "keyword": re.compile(r"[A-Za-z][A-Za-z0-9_]*"),
    "open": re.compile(r"\("),
    "close": re.compile(r"\)"),
    "quoted": re.compile(r"'[^']*+(?:''[^']*+)*+'"),
    "plain": re.compile(r"[^ \t,()']+"),
    "parenthesis ahead": re.compile(r"[ \t]*\("),
    "parameter ahead": re.compile(r"[ \t,]*([A-Za-z][A-Za-z0-9_]*)[ \t]*\("),
    "rest of value": re.compile(r"[^()]*"),
    "junk": re.compile(r"(?:'[^']*'?|[^ \t,()']+|\([^()]*\)?|\))+"),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A stretch of an entry: text[start:end]."""

    text: str
    start: int
    end: int


class Tokenizer:
    """Stands somewhere in an entry and reads on from there."""

    def __init__(self, entry: Entry) -> None:
        self._text = entry.text
        self.position = 0

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self.position >= len(self._text)

    @property
    def char(self) -> str:
        """The next character, "" at the end."""
        return self._text[self.position : self.position + 1]

    def check(self, name: str) -> re.Match[str] | None:
        """Say whether the token comes next, without reading it."""
        return TOKENS[name].match(self._text, self.position)

    def read(self, name: str) -> Token | None:
        """Read the token if it comes next."""
        found = TOKENS[name].match(self._text, self.position)
        if found is None:
            return None
        self.position = found.end()
        return Token(found.group(), found.start(), found.end())

    def read_to_end(self) -> None:
        """Leave the rest unread."""
        self.position = len(self._text)

    def between(self, start: int, end: int) -> Token:
        """Return what stands between two positions, without the blanks at its end."""
        text = self._text[start:end].rstrip(" \t")
        return Token(text, start, start + len(text))
