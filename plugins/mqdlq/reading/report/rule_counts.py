"""Count what the rules of a run did: outcomes by rule, and attempts that all failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqdlq.constants import reason_text
from mqdlq.ledger import Attempt, OutcomeFact
from mqdlq.model import Action, AttemptState, Outcome
from mqdlq.reading.report.report_records import FailedRule, RuleRow
from mqdlq.reading.report.report_sources import NO_RULE, Sources

_MOST_REASONS: Final = 3

RuleKey = tuple[int, str, str, str, Outcome]


def rule_key(fact: OutcomeFact) -> RuleKey:
    """Return what a row of `rule_rows` counts together."""
    return fact.rule, fact.action, fact.target_q, fact.target_q_mgr, fact.outcome


def rule_rows(counted: Mapping[RuleKey, int], sources: Sources) -> tuple[RuleRow, ...]:
    """Order outcomes by rule, action and target as in the table; outcomes without a rule come last.

    `counted` are those of the run's own messages; the settled ones are added.
    """
    counts = Counter(counted)
    for s, number in sources.settled.items():
        if s.outcome is Outcome.NOT_SELECTED:
            continue
        counts[s.rule, s.action, s.target_q, s.target_q_mgr, s.outcome] += number
    last = 1 + max((key[0] for key in counts), default=0)
    ordered = sorted(counts.items(), key=lambda item: (item[0][0] or last, item[0]))
    rows = []
    for (rule, action, target_q, target_q_mgr, outcome), messages in ordered:
        written = sources.rules.get(rule, NO_RULE)
        rows.append(
            RuleRow(
                rule, written.line, written.text, action, target_q, target_q_mgr, outcome, messages
            )
        )
    return tuple(rows)


class RuleAttempts:
    """Attempts by rule, action and target, added message by message."""

    def __init__(self) -> None:
        self._tried: dict[tuple[int, Action, str, str], _Tried] = {}

    def add(self, attempts: Sequence[Attempt]) -> None:
        """Take in the attempts on one message."""
        seen = set()
        for one in attempts:
            key = (one.rule, one.action, one.target_q, one.target_q_mgr)
            tried = self._tried.setdefault(key, _Tried())
            tried.messages += key not in seen
            seen.add(key)
            tried.has_other |= one.state is not AttemptState.FAILED
            tried.reasons[one.mqrc] += 1

    def failed(self, rows: Sequence[RuleRow], sources: Sources) -> tuple[FailedRule, ...]:
        """Return the rules and targets whose attempts all failed and that `rows` do not list."""
        listed = {(row.rule, row.action, row.target_q, row.target_q_mgr) for row in rows}
        found = []
        for key in sorted(key for key, one in self._tried.items() if not one.has_other):
            if key in listed:
                continue
            written, tried = sources.rules.get(key[0], NO_RULE), self._tried[key]
            found.append(
                FailedRule(
                    key[0],
                    written.line,
                    written.text,
                    *key[1:],
                    messages=tried.messages,
                    attempts=tried.reasons.total(),
                    reasons=dict(tried.reasons.most_common()),
                )
            )
        return tuple(found)


def failed_in_words(rule: FailedRule) -> str:
    """Return how the attempts of a rule failed: ``all 4 attempts failed: MQRC_Q_FULL (2053)``."""
    made = "its attempt" if rule.attempts == 1 else f"all {rule.attempts:,} attempts"
    why = ", ".join(reason_text(reason) for reason in list(rule.reasons)[:_MOST_REASONS] if reason)
    return f"{made} failed" + (f": {why}" if why else "")


@dataclass(slots=True)
class _Tried:
    messages: int = 0
    has_other: bool = False
    reasons: Counter[int] = field(default_factory=Counter)
