"""Read tokens from an entry on demand of the grammar."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mqdlq.rules.syntax.lines import Entry

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
        """Whether the entry ends here."""
        return self.position >= len(self._text)

    @property
    def char(self) -> str:
        """The next character, or "" at the end."""
        return self._text[self.position : self.position + 1]

    def check(self, name: str) -> re.Match[str] | None:
        """Whether the token comes next; do not read it."""
        return TOKENS[name].match(self._text, self.position)

    def read(self, name: str) -> Token | None:
        """Read the token if it comes next."""
        found = TOKENS[name].match(self._text, self.position)
        if found is None:
            return None
        self.position = found.end()
        return Token(found.group(), found.start(), found.end())

    def read_to_end(self) -> None:
        """Skip the rest of the entry."""
        self.position = len(self._text)

    def between(self, start: int, end: int) -> Token:
        """Return the text between two positions, without trailing blanks."""
        text = self._text[start:end].rstrip(" \t")
        return Token(text, start, start + len(text))
