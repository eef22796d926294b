"""Match a message with the rules of a table.

Values are those of a snapshot's columns: text without trailing blanks, or numbers. An absent value
or None counts as a field of blanks, or 0. No extension matches a value that is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mqdlq.rules.extensions import shown_value
from mqdlq.rules.keywords import KNOWN, Kind
from mqdlq.rules.table import Pattern, Rule, RulesTable

Values = Mapping[str, Any]


def with_nuls_as_blanks(values: Values) -> dict[str, Any]:
    """Replace NULs by blanks, for handlers with `nul_as_blank`; IBM's handler does not."""
    return {
        column: value.replace("\0", " ").rstrip(" ") if isinstance(value, str) else value
        for column, value in values.items()
    }


def matches(rule: Rule, values: Values) -> bool:
    return all(pattern.matches(pattern.value_in(values)) for pattern in rule.patterns)


def matching_rules(table: RulesTable, values: Values) -> tuple[Rule, ...]:
    r"""Return all rules that match the message, in the order of the table.

    >>> from mqdlq.rules import parse
    >>> table = parse("REASON(2053) ACTION(RETRY)\nDESTQ(PAY*) ACTION(IGNORE)\nACTION(DISCARD)\n")
    >>> letter = {"dlh_reason": 2085, "dlh_dest_q_name": "PAYMENTS"}
    >>> [rule.action.name for rule in matching_rules(table, letter)]
    ['IGNORE', 'DISCARD']
    """
    return tuple(rule for rule in table.rules if matches(rule, values))


# Explain for one message which rules match, and why the others do not.

OTHER_VALUE: Final = "another value or not there"
"""The text for a property that does not meet a condition; its value is not stored."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A pattern that did not match, and the value it was compared with.

    The value of an extension is text, "" if it is unknown. With `only_nuls` it would match if the
    field's NULs were blanks.
    """

    pattern: Pattern
    actual: str | int
    only_nuls: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """The result of one rule: `failures` are the patterns that did not match, in written order."""

    rule: Rule
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """The trace of every rule, and the chain of rules to try, in order."""

    chain: tuple[Rule, ...]
    traces: tuple[Trace, ...]

    @property
    def nearest(self) -> Trace | None:
        """The first rule with the fewest failing patterns, if no rule matches."""
        if self.chain:
            return None
        return min(self.traces, key=lambda trace: len(trace.failures))


def explain(table: RulesTable, values: Values) -> Explanation:
    """Trace every rule in order; the chain ends at the first matching rule that cannot fail."""
    traces = tuple(_trace(rule, values) for rule in table.rules)
    chain = []
    for trace in traces:
        if not trace.failures:
            chain.append(trace.rule)
            if trace.rule.cannot_fail:
                break
    return Explanation(tuple(chain), traces)


def _trace(rule: Rule, values: Values) -> Trace:
    failures = []
    for pattern in sorted(rule.patterns, key=lambda pattern: pattern.place):
        actual = pattern.value_in(values)
        if not pattern.matches(actual):
            shown = _present(pattern, actual, values)
            failures.append(Failure(pattern, shown, _only_nuls(pattern, actual)))
    return Trace(rule, tuple(failures))


def _present(pattern: Pattern, actual: str | int | None, values: Values) -> str | int:
    """Return a value as it is compared: an absent one is blank, or 0; "" if it is unknown."""
    keyword = KNOWN[pattern.keyword]
    if keyword.kind is Kind.PROPERTY:
        return OTHER_VALUE if pattern.value in (values.get("properties_unmet") or ()) else ""
    if keyword.is_extension:
        return shown_value(keyword, "" if actual is None else actual)
    return actual or ("" if keyword.kind is Kind.TEXT else 0)


def _only_nuls(pattern: Pattern, actual: str | int | None) -> bool:
    """Whether only NULs prevent a name from matching (IBM's APAR IT31856)."""
    if not isinstance(actual, str) or "\0" not in actual:
        return False
    return pattern.matches(with_nuls_as_blanks({"": actual})[""])
