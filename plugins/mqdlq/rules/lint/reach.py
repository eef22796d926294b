"""Decide whether one pattern matches every value that another one matches.

"Yes" is always correct. "No" may be wrong, and then a warning is missing.

The wide pattern is matched against the narrow one as if that were a field. In this field, a
character that no pattern contains replaces each ``?``, and another one, which only an asterisk of
the wide pattern matches, replaces each ``*``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from mqdlq.model import Action
from mqdlq.rules.diagnostics import listed
from mqdlq.rules.keywords import KEYWORDS
from mqdlq.rules.lint.findings import Code, Effort, Finding
from mqdlq.rules.records import Pattern, Rule
from mqdlq.rules.table import RulesTable
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


# Find rules that no message can reach, and messages that no rule catches.

_MOST_LINES: Final = 5


def find_unreached(table: RulesTable, effort: Effort) -> Iterator[Finding]:
    """Find rules whose messages all end at an earlier IGNORE or DISCARD.

    RETRY and FWD do not end a message: when their attempts are used up, later rules are tried.
    """
    finals = _FinalRules(effort)
    after_ignore: dict[Rule, list[Rule]] = {}
    for rule in table.rules:
        final = finals.first_covering(rule)
        if final is None:
            if rule.cannot_fail:
                finals.add(rule)
        elif not final.patterns:
            yield _unreachable(rule, final)
        elif final.action is Action.IGNORE and rule.action is not Action.IGNORE:
            after_ignore.setdefault(final, []).append(rule)
        else:
            yield _shadowed(rule, final)
    for final, rules in after_ignore.items():
        yield _early_ignore(final, rules)


def find_uncaught(table: RulesTable) -> Iterator[Finding]:
    """Find out whether messages can stay on the queue although no rule ignores them.

    They can if no rule matches every message, or if only a RETRY does, whose attempts may all fail.
    Several rules that match every message only together are not recognised.
    """
    catch_all = [rule for rule in table.rules if not rule.patterns]
    if any(rule.action is not Action.RETRY for rule in catch_all):
        return
    if catch_all:
        yield Finding(
            Code.NO_CATCH_ALL,
            catch_all[-1],
            "ACTION",
            "a message stays on the queue if every attempt of this ACTION(RETRY) fails;"
            " end the table with another rule without patterns, such as ACTION(FWD) FWDQ(PARKED)",
        )
    else:
        yield Finding(
            Code.NO_CATCH_ALL,
            table.rules[-1],
            "",
            "a message that no rule matches stays on the queue;"
            " end the table with a rule without patterns, such as ACTION(FWD) FWDQ(PARKED)",
        )


def _unreachable(rule: Rule, final: Rule) -> Finding:
    return Finding(
        Code.UNREACHABLE_RULE,
        rule,
        "",
        f"no message reaches this rule because ACTION({final.action}) at line {final.line}"
        " matches all messages; move that rule to the end",
    )


def _shadowed(rule: Rule, final: Rule) -> Finding:
    return Finding(
        Code.SHADOWED_RULE,
        rule,
        "",
        f"no message reaches this rule because ACTION({final.action}) at line {final.line}"
        " matches all of its messages; move it before that rule or remove it",
    )


def _early_ignore(final: Rule, rules: list[Rule]) -> Finding:
    lines = [str(rule.line) for rule in rules]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"{len(lines) - _MOST_LINES} more"]
    where = (
        f"rule at line {lines[0]}" if len(lines) == 1 else f"rules at lines {listed(lines, 'and')}"
    )
    belongs = "it belongs" if len(lines) == 1 else "they belong"
    return Finding(
        Code.EARLY_IGNORE,
        final,
        "ACTION",
        f"no message reaches the {where} because this ACTION(IGNORE) matches those messages first;"
        f" {belongs} before this one",
    )


class _FinalRules:
    """The IGNORE and DISCARD rules so far, indexed by their exact patterns."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._by_columns: dict[tuple[str, ...], dict[tuple[str | int, ...], list[Rule]]] = {}

    def add(self, rule: Rule) -> None:
        """Add a rule that no other one covers."""
        exact = [pattern for pattern in rule.patterns if _is_exact(pattern)]
        rules = self._by_columns.setdefault(tuple(pattern.column for pattern in exact), {})
        rules.setdefault(tuple(pattern.value for pattern in exact), []).append(rule)

    def first_covering(self, rule: Rule) -> Rule | None:
        """Return the first rule that covers this one, or None."""
        return min(self._covering(rule), key=lambda final: final.ordinal, default=None)

    def _covering(self, rule: Rule) -> Iterator[Rule]:
        values = {pattern.column: pattern.value for pattern in rule.patterns}
        for columns, rules in self._by_columns.items():
            if not self._effort.spend():
                return
            asked = tuple(values[column] for column in columns if column in values)
            for final in rules.get(asked, ()):
                if self._effort.spend() and rule_covers(final, rule):
                    yield final
                    break


def _is_exact(pattern: Pattern) -> bool:
    return isinstance(pattern.value, int) or not ("*" in pattern.value or "?" in pattern.value)
