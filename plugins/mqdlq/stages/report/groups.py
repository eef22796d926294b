"""Messages counted for people: by the rule that decided, and by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from mqdlq.constants import reason_text
from mqdlq.ledger import OutcomeFact
from mqdlq.model import Outcome
from mqdlq.stages.report.causes import cause_of
from mqdlq.stages.report.messages import Message
from mqdlq.stages.report.people import NO_RULE
from mqdlq.stages.report.records import CauseGroup, RuleRow
from mqdlq.stages.report.sources import Sources

MOST_DESTINATIONS: Final = 10_000
"""How many causes a report tells apart: beyond, those of one reason are counted together."""
OTHERS: Final = "(other destinations)"

RuleKey = tuple[int, str, str, str, Outcome]


def rule_key(fact: OutcomeFact) -> RuleKey:
    """Return what a row of `rule_rows` counts together."""
    return fact.rule, fact.action, fact.target_q, fact.target_q_mgr, fact.outcome


def rule_rows(counted: Mapping[RuleKey, int], sources: Sources) -> tuple[RuleRow, ...]:
    """Give outcomes by rule, action and target the order of the table; no rule comes last.

    `counted` are those of the run's own messages; the parked ones are added.
    """
    counts = Counter(counted)
    for s, number in sources.parked.items():
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


class Causes:
    """Dead letters by reason and destination, taken in one by one."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, str, str], _Cause] = {}

    def add(self, message: Message) -> None:
        """Take in a dead letter."""
        key = (message.reason, message.dest_q_name, message.dest_q_mgr_name)
        if key not in self._groups and len(self._groups) >= MOST_DESTINATIONS:
            key = (message.reason, OTHERS, "")
        self._groups.setdefault(key, _Cause()).add(message)

    def groups(self) -> tuple[CauseGroup, ...]:
        """Return them, the largest group first."""
        made = [group.made(*key) for key, group in self._groups.items()]
        return tuple(
            sorted(made, key=lambda g: (-g.messages, g.reason, g.dest_q_name, g.dest_q_mgr_name))
        )


@dataclass(slots=True)
class _Cause:
    messages: int = 0
    ended: Counter[Outcome] = field(default_factory=Counter)
    first_at: datetime | None = None
    last_at: datetime | None = None

    def add(self, message: Message) -> None:
        self.messages += 1
        if message.outcome is not None:
            self.ended[message.outcome.outcome] += 1
        at = message.dead_lettered_at
        if at is not None:
            self.first_at = min(self.first_at or at, at)
            self.last_at = max(self.last_at or at, at)

    def made(self, reason: int, dest_q_name: str, dest_q_mgr_name: str) -> CauseGroup:
        cause = cause_of(reason)
        return CauseGroup(
            reason=reason,
            reason_text=reason_text(reason),
            meaning=cause.meaning,
            kind=cause.kind.value,
            dest_q_name=dest_q_name,
            dest_q_mgr_name=dest_q_mgr_name,
            messages=self.messages,
            outcomes={outcome: self.ended[outcome] for outcome in Outcome if self.ended[outcome]},
            first_at=self.first_at,
            last_at=self.last_at,
        )
