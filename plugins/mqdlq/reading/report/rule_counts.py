"""Count what the rules of a run did: outcomes by rule, and attempts that all failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from mqdlq.constants import reason_text
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.run_messages import TriedCount
from mqdlq.ledger.tables.messages import Ending
from mqdlq.model import Action, AttemptState, Outcome
from mqdlq.reading.report.report_records import FailedRule, RuleRow
from mqdlq.reading.report.report_sources import NO_RULE, Sources

_MOST_REASONS: Final = 3


def rule_rows(counted: Mapping[Ending, int], sources: Sources) -> tuple[RuleRow, ...]:
    """Order outcomes by rule, action and target as in the table; outcomes without a rule come last.

    `counted` are those of the run's own messages; the settled ones are added.
    """
    counts: Counter[tuple[int, str, str, str, Outcome]] = Counter()
    kept = {s: n for s, n in sources.settled.items() if s.outcome is not Outcome.NOT_SELECTED}
    for s, number in (*counted.items(), *kept.items()):
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


def failed_rules(
    tried: Sequence[TriedCount], rows: Sequence[RuleRow], sources: Sources, ledger: Ledger
) -> tuple[FailedRule, ...]:
    """Return the rules and targets whose attempts all failed and that `rows` do not list."""
    listed = {(row.rule, row.action, row.target_q, row.target_q_mgr) for row in rows}
    reasons: dict[tuple[int, Action, str, str], Counter[int]] = {}
    has_other = set()
    for one in tried:
        key = (one.rule, one.action, one.target_q, one.target_q_mgr)
        reasons.setdefault(key, Counter())[one.mqrc] += one.attempts
        if one.state is not AttemptState.FAILED:
            has_other.add(key)
    found = []
    for key in sorted(reasons.keys() - has_other - listed):
        rule, action, target_q, target_q_mgr = key
        written = sources.rules.get(rule, NO_RULE)
        found.append(
            FailedRule(
                rule=rule,
                line=written.line,
                text=written.text,
                action=action,
                target_q=target_q,
                target_q_mgr=target_q_mgr,
                messages=ledger.run_messages.count_tried(
                    sources.run.run_id, rule, target_q, target_q_mgr
                )
                if sources.run is not None
                else 0,
                attempts=reasons[key].total(),
                reasons=dict(reasons[key].most_common()),
            )
        )
    return tuple(found)


def failed_in_words(rule: FailedRule) -> str:
    """Return how the attempts of a rule failed: ``all 4 attempts failed: MQRC_Q_FULL (2053)``."""
    made = "its attempt" if rule.attempts == 1 else f"all {rule.attempts:,} attempts"
    why = ", ".join(reason_text(reason) for reason in list(rule.reasons)[:_MOST_REASONS] if reason)
    return f"{made} failed" + (f": {why}" if why else "")
