"""Explain how a message fares with each rule of a table."""

from __future__ import annotations

from dataclasses import dataclass

from mqdlq.rules.keywords import KEYWORDS, Kind
from mqdlq.rules.matching import Values, with_nuls_as_blanks
from mqdlq.rules.records import Pattern, Rule
from mqdlq.rules.table import RulesTable


@dataclass(frozen=True, slots=True)
class Failure:
    """A pattern that did not match, and what it was compared with.

    `only_nuls` says that it would have matched had the NULs of the field been blanks.
    """

    pattern: Pattern
    actual: str | int
    only_nuls: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """How one rule fared: `failures` are the patterns that did not match, in the written order."""

    rule: Rule
    failures: tuple[Failure, ...] = ()

    @property
    def failed(self) -> Pattern | None:
        """The first pattern that did not match, None where the rule matches."""
        return self.failures[0].pattern if self.failures else None

    @property
    def actual(self) -> str | int | None:
        """What that pattern was compared with."""
        return self.failures[0].actual if self.failures else None

    @property
    def only_nuls(self) -> bool:
        """Whether that pattern would have matched had the NULs of the field been blanks."""
        return bool(self.failures) and self.failures[0].only_nuls


@dataclass(frozen=True, slots=True)
class Explanation:
    """The trace of every rule, and the chain: the rules that would be tried, in order."""

    chain: tuple[Rule, ...]
    traces: tuple[Trace, ...]

    @property
    def nearest(self) -> Trace | None:
        """The first rule with the fewest failing patterns, where no rule matches."""
        if self.chain:
            return None
        return min(self.traces, key=lambda trace: len(trace.failures))


def explain(table: RulesTable, values: Values) -> Explanation:
    """Walk every rule in order; the chain ends at the first matching rule that cannot fail."""
    traces = tuple(_trace(rule, values) for rule in table.rules)
    chain = []
    for trace in traces:
        if trace.failed is None:
            chain.append(trace.rule)
            if trace.rule.cannot_fail:
                break
    return Explanation(tuple(chain), traces)


def _trace(rule: Rule, values: Values) -> Trace:
    failures = []
    for pattern in sorted(rule.patterns, key=lambda pattern: pattern.place):
        actual = values.get(pattern.column)
        if not pattern.matches(actual):
            failure = Failure(pattern, _present(pattern, actual), _only_nuls(pattern, actual))
            failures.append(failure)
    return Trace(rule, tuple(failures))


def _present(pattern: Pattern, actual: str | int | None) -> str | int:
    """Give an absent value as what it is compared as: a field of blanks, or 0."""
    return actual or ("" if KEYWORDS[pattern.keyword].kind is Kind.TEXT else 0)


def _only_nuls(pattern: Pattern, actual: str | int | None) -> bool:
    """Say whether NULs alone keep a name from matching, as IBM's APAR IT31856 tells of."""
    if not isinstance(actual, str) or "\0" not in actual:
        return False
    return pattern.matches(with_nuls_as_blanks({"": actual})[""])
