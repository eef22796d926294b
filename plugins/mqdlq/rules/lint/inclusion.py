"""Two patterns in, whether one matches all that the other matches out.

"Yes" is never wrong. Nor is "no", but for patterns made to be hard, on which the search gives up.

All fields of one length are walked at once. A field is text that ends in no blank, then padding;
``?`` matches anything but padding, and a pattern that has ended matches padding only. After each
character it is known how far either pattern can have come; a character that neither pattern
mentions stands for all of its kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from mqdlq.rules.keywords import KEYWORDS
from mqdlq.rules.records import Pattern, Rule

_UNMENTIONED: Final = "any other"
"""Stands for every character of neither pattern; being longer than one, it equals none."""

_MOST_STATES: Final = 500
"""Patterns that people write stay far below; ``*A????????????????`` would not."""

_ODD: Final = "\uffff"


class Effort:
    """How much work is still allowed: hostile tables must not keep anybody waiting."""

    def __init__(self, allowed: int = 400_000) -> None:
        """Allow some work; a unit takes a few microseconds."""
        self._left = allowed

    def spend(self, amount: int = 1) -> bool:
        """Say whether there was that much left, and take it."""
        self._left -= amount
        return self._left >= 0


def rule_covers(wide: Rule, narrow: Rule, effort: Effort) -> bool:
    """Say whether every message that `narrow` matches, `wide` matches too.

    Columns are independent of each other and every pattern matches something, so it is enough and
    necessary that each pattern of `wide` covers that of the same column.
    """
    patterns = {pattern.column: pattern for pattern in narrow.patterns}
    return all(
        pattern.column in patterns and covers(pattern, patterns[pattern.column], effort)
        for pattern in wide.patterns
    )


def covers(wide: Pattern, narrow: Pattern, effort: Effort) -> bool:
    """Say whether every value that `narrow` matches, `wide` matches too; they share a column."""
    if wide.value == narrow.value:
        return True
    if isinstance(wide.value, int) or isinstance(narrow.value, int):
        return False
    # One of the values that `narrow` matches decides nearly always.
    if not wide.matches(_plainest_match(narrow.value)):
        return False
    return includes(wide.value, narrow.value, KEYWORDS[wide.keyword].length, effort)


def includes(wide: str, narrow: str, length: int, effort: Effort) -> bool:
    """Say whether `wide` matches every field of this length that `narrow` matches.

    Both are canonical, `narrow` with no more characters than the field, asterisks apart.
    """
    search = _Search(_Automaton(wide), _Automaton(narrow), {*wide, *narrow} - {*" *?"})
    reached = {search.start}
    for _ in range(length):
        if len(reached) > _MOST_STATES or not effort.spend(len(reached) * search.breadth):
            return False
        reached = {after for state in reached for after in search.steps(state)}
    return not any(map(search.is_exception, reached))


@lru_cache(maxsize=1024)
def _plainest_match(pattern: str) -> str:
    return pattern.replace("*", "").replace("?", _ODD)


class _Automaton:
    """A pattern read character by character; bit n of a state: its first n are matched."""

    def __init__(self, pattern: str) -> None:
        self._places: dict[str, int] = {}
        for place, char in enumerate(pattern):
            self._places[char] = self._places.get(char, 0) | 1 << place
        self._stars = self._places.get("*", 0)
        self._questions = self._places.get("?", 0)
        self._end = 1 << len(pattern)
        self._final_star = self._stars & self._end >> 1
        self.start = self._past_stars(1)

    def step(self, states: int, char: str, *, is_padding: bool) -> int:
        """Return the states after one more character of the field."""
        moved = states & self._places.get(char, 0)
        kept = states & self._stars
        if is_padding:
            kept |= states & self._end
        else:
            moved |= states & self._questions
        return self._past_stars(kept | moved << 1)

    def accepts(self, states: int) -> bool:
        """Say whether a field that ends here is matched."""
        return bool(states & self._end)

    def accepts_whatever_follows(self, states: int) -> bool:
        """Say whether an asterisk at the end has been reached."""
        return bool(states & self._final_star)

    def _past_stars(self, states: int) -> int:
        # A canonical pattern has no two asterisks side by side, so once is enough.
        return states | (states & self._stars) << 1


class _Part(Enum):
    """Which part of the field the last character belongs to."""

    TEXT = auto()
    GAP = auto()
    """A blank with more text to come."""
    PADDING = auto()


_State = tuple[_Part, int, int]


class _Search:
    """Looks for a field that `narrow` matches and `wide` does not."""

    def __init__(self, wide: _Automaton, narrow: _Automaton, chars: set[str]) -> None:
        self._wide = wide
        self._narrow = narrow
        self._chars = (*chars, _UNMENTIONED)
        self.start: _State = (_Part.TEXT, narrow.start, wide.start)
        self.breadth = len(self._chars) + 2

    def steps(self, state: _State) -> Iterator[_State]:
        """Yield what one more character can lead to, as far as an exception is still possible."""
        for part, char in self._next_chars(state[0]):
            is_padding = part is _Part.PADDING
            narrow = self._narrow.step(state[1], char, is_padding=is_padding)
            wide = self._wide.step(state[2], char, is_padding=is_padding)
            if narrow and not self._wide.accepts_whatever_follows(wide):
                yield part, narrow, wide

    def is_exception(self, state: _State) -> bool:
        """Say whether a whole field that led here is one."""
        part, narrow, wide = state
        is_field = part is not _Part.GAP
        return is_field and self._narrow.accepts(narrow) and not self._wide.accepts(wide)

    def _next_chars(self, part: _Part) -> Iterator[tuple[_Part, str]]:
        if part is not _Part.PADDING:
            for char in self._chars:
                yield _Part.TEXT, char
            yield _Part.GAP, " "
        if part is not _Part.GAP:
            yield _Part.PADDING, " "
