"""Decide whether one pattern matches every value that another one matches.

"Yes" is always correct. "No" may be wrong, and then a warning is missing.

The wide pattern is matched against the narrow one as if that were a field. In this field, a
character that no pattern contains replaces each ``?``, and another one, which only an asterisk of
the wide pattern matches, replaces each ``*``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from mqdlq.rules.keywords import KEYWORDS
from mqdlq.rules.records import Pattern, Rule
from mqdlq.rules.wildcards import compiled

# No rules table contains lone surrogates.
_ANY_CHARACTER: Final = "\ud800"
_ANY_TEXT: Final = "\ud801"
_ONE: Final = rf"(?![ {_ANY_TEXT}]*+\Z)[^{_ANY_TEXT}]"
"""The regular expression for ``?``: any character except a blank that may be padding."""

_WILDCARDS: Final = re.compile(r"[*?]{2,}")


def rule_covers(wide: Rule, narrow: Rule) -> bool:
    """Whether `wide` matches every message that `narrow` matches.

    Columns are independent and every pattern matches some value, so this holds exactly if each
    pattern of `wide` covers the one of the same column.
    """
    patterns = {pattern.column: pattern for pattern in narrow.patterns}
    return all(
        pattern.column in patterns and covers(pattern, patterns[pattern.column])
        for pattern in wide.patterns
    )


def covers(wide: Pattern, narrow: Pattern) -> bool:
    """Whether `wide` matches every value that `narrow` matches; both are for one column."""
    if wide.value == narrow.value:
        return True
    if isinstance(wide.value, int) or isinstance(narrow.value, int) or wide.is_extension:
        return False
    return includes(wide.value, narrow.value, KEYWORDS[wide.keyword].length)


def includes(wide: str, narrow: str, length: int) -> bool:
    """Whether `wide` matches every field of this length that `narrow` matches.

    Both are canonical. `narrow` fits the field, not counting asterisks.
    """
    if set(wide) == {"*", "?"}:  # a minimum number of characters
        return len(narrow.replace("*", "").rstrip(" ")) >= wide.count("?")
    field = _field(narrow, length)
    return any(matcher.match(field) for matcher in _matchers(wide))


@lru_cache(maxsize=8192)
def _matchers(pattern: str) -> tuple[re.Pattern[str], ...]:
    """Return matchers for the pattern with each ``?`` before, and after, its ``*``."""
    forms = {pattern, _WILDCARDS.sub(_questions_first, pattern)}
    forms.add(_WILDCARDS.sub(lambda run: _questions_first(run)[::-1], pattern))
    return tuple(compiled(form, _ONE) for form in forms)


@lru_cache(maxsize=8192)
def _field(pattern: str, length: int) -> str:
    """Return a field that represents all values that a pattern matches."""
    text = pattern.replace("*", "")
    if "*" not in pattern or len(text) == length:  # a full field leaves no room for asterisks
        return text.replace("?", _ANY_CHARACTER).ljust(length)
    return pattern.replace("?", _ANY_CHARACTER).replace("*", _ANY_TEXT)


def _questions_first(run: re.Match[str]) -> str:
    """Return an equivalent run of wildcards in which no ``?`` follows a ``*``."""
    return "?" * run[0].count("?") + "*" * ("*" in run[0])
