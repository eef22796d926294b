"""Compile patterns with ``*`` and ``?`` into exact matchers, the only ones of the package.

A field is compared over its whole length, padded with blanks. Case matters, and NUL is not a blank.
``*`` stands for any number of characters, ``?`` for one character except a trailing blank, and the
rest of the field after the pattern must be blank (IBM MQ docs, "Rules table conventions"). Values
of any length, such as names in filters, are compared without trailing blanks (`fits`). No matcher
backtracks, so that no pattern from outside takes long.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

_ONE: Final = r"(?! *+\Z)."
"""The regular expression for ``?``: any character, unless only blanks follow in the field."""


def canonical(pattern: str) -> str:
    """Return the shortest pattern with the same meaning.

    Trailing blanks are not significant, and ``**`` is the same as ``*``.

    >>> canonical("PAY**.IN*  ")
    'PAY*.IN*'
    """
    return re.sub(r"\*+", "*", pattern.rstrip(" "))


_END: Final = r" *+\Z"
"""The regular expression for the rest of the field."""


def compiled(pattern: str, one: str = _ONE, end: str = _END) -> re.Pattern[str]:
    """Compile a pattern to a regular expression over padded fields, for `match`.

    The first occurrence of each part between asterisks is enough, because it leaves the most room
    for the next part. The groups are therefore atomic and never backtrack: forty-eight A's against
    ``*A*A*A*B`` cost no more than reading them.

    >>> [bool(compiled("PAY?.*").match(f"{name:48}")) for name in ("PAY1.IN", "PAY.IN", "pay1.in")]
    [True, False, False]
    """
    first, *stretches = canonical(pattern).split("*")
    if not stretches:
        return re.compile(_stretch(first, one) + end, re.DOTALL)
    *middle, last = stretches
    found = "".join(f"(?>.*?{_stretch(stretch, one)})" for stretch in middle)
    rest = f".*?{_stretch(last, one)}{end}" if last else ""
    return re.compile(_stretch(first, one) + found + rest, re.DOTALL)


class PlainText(NamedTuple):
    """A pattern that needs no expression: a text, and whether any text may be around it.

    Most patterns of a rules table are so; to compile an expression takes a hundred times longer
    than to read a rule.
    """

    may_start_before: bool
    text: str
    may_end_after: bool

    def match(self, field: str) -> bool:
        """Return whether a padded field matches, as the pattern's expression does."""
        if self.may_end_after:
            return self.text in field if self.may_start_before else field.startswith(self.text)
        held = field.rstrip(" ")
        return held.endswith(self.text) if self.may_start_before else held == self.text


def plain(pattern: str) -> PlainText | None:
    """Return a pattern as a plain text, or None if it needs an expression.

    >>> [plain(pattern) is None for pattern in ("PAY.IN", "PAY*", "*.IN", "PAY?", "P*N")]
    [False, False, False, True, True]
    """
    whole = canonical(pattern)
    text = whole.strip("*")
    return None if {"*", "?"} & set(text) else PlainText(whole[:1] == "*", text, whole[-1:] == "*")


def fits(pattern: str, value: str) -> bool:
    """Return whether a value of any length, without its trailing blanks, fits a pattern.

    >>> [fits("PAY?.*", name) for name in ("PAY1.IN", "PAY.IN", "pay1.in")]
    [True, False, False]
    """
    return _of_any_length(pattern).match(value.rstrip(" ")) is not None


@lru_cache(maxsize=8192)
def _of_any_length(pattern: str) -> re.Pattern[str]:
    return compiled(pattern, one=".", end=r"\Z")


def automaton(pattern: str) -> str:
    """Return a pattern as a regular expression for engines that never backtrack, such as RE2.

    A value fits as a whole, and ``.`` must stand for every character; Python would backtrack.
    """
    words = (_stretch(stretch, ".") for stretch in canonical(pattern).split("*"))
    return ".*".join(words)


def _stretch(text: str, one: str) -> str:
    return "".join(one if char == "?" else re.escape(char) for char in text)
