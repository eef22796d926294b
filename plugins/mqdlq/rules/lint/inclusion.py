"""Say whether one pattern matches all that another one matches.

"Yes" is never wrong. "No" may be: then a warning is missing.

The narrow pattern is matched like a field by the wide one. In it, one character that is in no
pattern stands for what its ``?`` matches, and another one, which only an asterisk of the wide
pattern matches, for what its ``*`` matches.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from mqdlq.rules.keywords import KEYWORDS
from mqdlq.rules.records import Pattern, Rule
from mqdlq.rules.wildcards import compiled

# No rules table holds lone surrogates.
_ANY_CHARACTER: Final = "\ud800"
_ANY_TEXT: Final = "\ud801"
_ONE: Final = rf"(?![ {_ANY_TEXT}]*+\Z)[^{_ANY_TEXT}]"
"""What ``?`` matches: no blank that may be padding, whatever the text around it is."""

_WILDCARDS: Final = re.compile(r"[*?]{2,}")


def rule_covers(wide: Rule, narrow: Rule) -> bool:
    """Say whether every message that `narrow` matches, `wide` matches too.

    Columns are independent of each other and every pattern matches something, so it is enough and
    necessary that each pattern of `wide` covers that of the same column.
    """
    patterns = {pattern.column: pattern for pattern in narrow.patterns}
    return all(
        pattern.column in patterns and covers(pattern, patterns[pattern.column])
        for pattern in wide.patterns
    )


def covers(wide: Pattern, narrow: Pattern) -> bool:
    """Say whether every value that `narrow` matches, `wide` matches too; they share a column."""
    if wide.value == narrow.value:
        return True
    if isinstance(wide.value, int) or isinstance(narrow.value, int):
        return False
    return includes(wide.value, narrow.value, KEYWORDS[wide.keyword].length)


def includes(wide: str, narrow: str, length: int) -> bool:
    """Say whether `wide` matches every field of this length that `narrow` matches.

    Both are canonical, `narrow` with no more characters than the field, asterisks apart.
    """
    if set(wide) == {"*", "?"}:  # so many characters of text, whichever
        return len(narrow.replace("*", "").rstrip(" ")) >= wide.count("?")
    field = _field(narrow, length)
    return any(matcher.match(field) for matcher in _matchers(wide))


@lru_cache(maxsize=8192)
def _matchers(pattern: str) -> tuple[re.Pattern[str], ...]:
    """Return matchers for the pattern with its ``?`` before and behind its ``*``."""
    forms = {pattern, _WILDCARDS.sub(_questions_first, pattern)}
    forms.add(_WILDCARDS.sub(lambda run: _questions_first(run)[::-1], pattern))
    return tuple(compiled(form, _ONE) for form in forms)


@lru_cache(maxsize=8192)
def _field(pattern: str, length: int) -> str:
    """Return a field that stands for all that a pattern matches."""
    text = pattern.replace("*", "")
    if "*" not in pattern or len(text) == length:  # asterisks have no room in a full field
        return text.replace("?", _ANY_CHARACTER).ljust(length)
    return pattern.replace("?", _ANY_CHARACTER).replace("*", _ANY_TEXT)


def _questions_first(run: re.Match[str]) -> str:
    """Return a run of wildcards that matches the same, in which no ``?`` follows a ``*``."""
    return "?" * run[0].count("?") + "*" * ("*" in run[0])
