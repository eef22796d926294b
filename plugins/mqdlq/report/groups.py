"""Messages gathered for people: by the rule that decided, by cause, by what they need."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from mqdlq.constants import reason_text
from mqdlq.ledger import DRY_RUN, OutcomeFact
from mqdlq.model import DEPARTED, AttemptState, MessageClass, Outcome
from mqdlq.report.causes import cause_of
from mqdlq.report.records import CauseGroup, PersonRow, RuleRow, Tried
from mqdlq.report.sources import Message, Sources, WrittenRule
from mqdlq.report.words import (
    CLASSES,
    NEEDS_A_PERSON,
    OUTCOMES,
    STATES,
    count,
    next_step,
    target,
)

_ORDER = {outcome: at for at, outcome in enumerate(OUTCOMES)}
_NO_RULE = WrittenRule(0, "")


def rule_rows(sources: Sources) -> tuple[RuleRow, ...]:
    """Count outcomes by rule, action and target, in the order of the table; no rule comes last."""
    facts = [message.outcome for message in sources.messages if message.outcome]
    counted = Counter((f.rule, f.action, f.target_q, f.target_q_mgr, f.outcome) for f in facts)
    for s, number in sources.parked.items():
        counted[s.rule, s.action, s.target_q, s.target_q_mgr, s.outcome] += number
    last = 1 + max((key[0] for key in counted), default=0)
    ordered = sorted(counted.items(), key=lambda item: (item[0][0] or last, item[0]))
    rows = []
    for (rule, action, target_q, target_q_mgr, outcome), messages in ordered:
        written = sources.rules.get(rule, _NO_RULE)
        rows.append(
            RuleRow(
                rule, written.line, written.text, action, target_q, target_q_mgr, outcome, messages
            )
        )
    return tuple(rows)


def cause_groups(sources: Sources) -> tuple[CauseGroup, ...]:
    """Group the dead letters by reason and destination, the largest group first."""
    groups: dict[tuple[int, str, str], list[Message]] = defaultdict(list)
    for message in (*sources.messages, *sources.left_before):
        if message.cls is MessageClass.DEAD_LETTER:
            groups[message.reason, message.dest_q_name, message.dest_q_mgr_name].append(message)
    made = [_cause_group(*key, members) for key, members in groups.items()]
    return tuple(
        sorted(made, key=lambda g: (-g.messages, g.reason, g.dest_q_name, g.dest_q_mgr_name))
    )


def _cause_group(
    reason: int, dest_q_name: str, dest_q_mgr_name: str, members: list[Message]
) -> CauseGroup:
    cause = cause_of(reason)
    ended = Counter(message.outcome.outcome for message in members if message.outcome)
    times = [message.dead_lettered_at for message in members if message.dead_lettered_at]
    return CauseGroup(
        reason=reason,
        reason_text=reason_text(reason),
        meaning=cause.meaning,
        kind=cause.kind.value,
        dest_q_name=dest_q_name,
        dest_q_mgr_name=dest_q_mgr_name,
        messages=len(members),
        outcomes={outcome: ended[outcome] for outcome in OUTCOMES if ended[outcome]},
        first_at=min(times, default=None),
        last_at=max(times, default=None),
    )


def oldest_left(sources: Sources) -> datetime | None:
    """Return since when the oldest message that stays is there, None where none stays."""
    times = (
        message.since
        for message in (*sources.messages, *sources.left_before)
        if not message.is_known_since
        and (message.outcome is None or message.outcome.outcome not in DEPARTED)
    )
    return min(filter(None, times), default=None)


def person_rows(sources: Sources) -> tuple[PersonRow, ...]:
    """Return the messages that need a person, in browse order."""
    return tuple(
        _person_row(message, sources)
        for message in _in_browse_order(sources)
        if message.outcome and _needs_a_person(message.outcome) and not message.is_known_since
    )


def _needs_a_person(fact: OutcomeFact) -> bool:
    """Whether an outcome does; what a dry run alone kept from being attempted does not."""
    return fact.outcome in NEEDS_A_PERSON and not would_be_acted_on(fact)


def would_be_acted_on(fact: OutcomeFact) -> bool:
    """Whether nothing but the dry run kept a message's next step from being taken."""
    return fact.outcome is Outcome.NOT_ATTEMPTED and fact.why == DRY_RUN


def _in_browse_order(sources: Sources) -> list[Message]:
    messages = [*sources.messages, *sources.left_before]
    return sorted(messages, key=lambda message: message.browse_seq)


def unaccounted_rows(sources: Sources) -> tuple[PersonRow, ...]:
    """Return the messages that have no outcome, in browse order."""
    return tuple(_person_row(m, sources) for m in sources.messages if m.outcome is None)


def _person_row(message: Message, sources: Sources) -> PersonRow:
    outcome = message.outcome.outcome if message.outcome else None
    failures = [a.mqrc for a in message.attempts if a.state is AttemptState.FAILED]
    in_the_way = failures[-1] if failures else message.reason
    return PersonRow(
        browse_seq=message.browse_seq,
        msg_id=message.msg_id,
        message_key=message.message_key,
        outcome=outcome,
        cls=message.cls,
        problem=message.problem,
        reason=message.reason,
        reason_text=reason_text(message.reason) if message.reason else "",
        cause=_cause(message),
        dest_q_name=message.dest_q_name,
        dest_q_mgr_name=message.dest_q_mgr_name,
        dead_lettered_at=message.dead_lettered_at,
        why=message.outcome.why if message.outcome else "",
        next_step=next_step(outcome, message.cls, in_the_way),
        tried=tuple(
            Tried(
                rule=attempt.rule,
                line=sources.rules.get(attempt.rule, _NO_RULE).line,
                action=attempt.action,
                target_q=attempt.target_q,
                target_q_mgr=attempt.target_q_mgr,
                state=attempt.state,
                reason=attempt.mqrc,
                reason_text=reason_text(attempt.mqrc) if attempt.mqrc else "",
                at=attempt.at,
            )
            for attempt in message.attempts
        ),
    )


def _cause(message: Message) -> str:
    if message.cls is None:
        return "the snapshot has no row of it"
    if message.cls is not MessageClass.DEAD_LETTER:
        return CLASSES[message.cls]
    meaning = cause_of(message.reason).meaning
    return f"{reason_text(message.reason)}: {meaning}" if meaning else reason_text(message.reason)


@dataclass(frozen=True, slots=True)
class TriedGroup:
    """What was tried the same way on several messages; `attempts` is the number on each."""

    first: Tried
    attempts: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class PersonGroup:
    """Messages in the same trouble: the first speaks for all, but for browse_seqs and times."""

    first: PersonRow
    rows: tuple[PersonRow, ...]
    tried: tuple[TriedGroup, ...]

    @property
    def browse_seqs(self) -> tuple[int, ...]:
        """Which messages they are."""
        return tuple(row.browse_seq for row in self.rows)


def person_groups(rows: Iterable[PersonRow]) -> tuple[PersonGroup, ...]:
    """Gather messages with the same trouble, what worries most first, then the largest."""
    groups: dict[tuple[object, ...], list[PersonRow]] = defaultdict(list)
    for row in rows:
        groups[_trouble(row)].append(row)
    made = [PersonGroup(g[0], tuple(g), _tried_groups(g)) for g in groups.values()]
    return tuple(sorted(made, key=lambda group: (-_worry(group.first), -len(group.rows))))


def _worry(row: PersonRow) -> int:
    return len(_ORDER) if row.outcome is None else _ORDER[row.outcome]


def _trouble(row: PersonRow) -> tuple[object, ...]:
    place = (row.dest_q_name, row.dest_q_mgr_name)
    tried = tuple((t.rule, t.target_q, t.target_q_mgr, t.state, t.reason) for t in row.tried)
    return (row.outcome, row.cause, row.problem, place, row.why, row.next_step, tried)


def _tried_groups(rows: list[PersonRow]) -> tuple[TriedGroup, ...]:
    """Gather the attempts on messages that were all tried in the same way."""
    groups: dict[tuple[object, ...], list[Tried]] = defaultdict(list)
    for tried in (tried for row in rows for tried in row.tried):
        key = (tried.rule, tried.target_q, tried.target_q_mgr, tried.state, tried.reason)
        groups[key].append(tried)
    return tuple(
        TriedGroup(
            group[0],
            len(group) // len(rows),
            min(tried.at for tried in group),
            max(tried.at for tried in group),
        )
        for group in groups.values()
    )


def tried_in_words(tried: TriedGroup, messages: int) -> str:
    """Say what was tried on each of so many messages, when, and how it went."""
    first = tried.first
    to = f" to {target(first.target_q, first.target_q_mgr)}" if first.target_q else ""
    each = " each" if messages > 1 else ""
    until = f" to {tried.last_at:%H:%M:%S}" if tried.last_at > tried.first_at else ""
    return (
        f"{first.action}{to} by rule {first.rule} (line {first.line}), "
        f"{count(tried.attempts, 'attempt')}{each} {tried.first_at:%H:%M:%S}{until}: "
        f"{first.reason_text or STATES[first.state]}"
    )
