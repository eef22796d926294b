"""Group the messages that need attention by their trouble.

All are counted, and their numbers kept; the first of each group are listed in full.
"""

from __future__ import annotations

from array import array
from collections import Counter
from datetime import datetime
from typing import Final

from mqdlq.causes import find_cause, generalize, is_generalized
from mqdlq.constants import reason_text
from mqdlq.model import AttemptState, MessageClass, Outcome, QueueKind, Trait
from mqdlq.reading.report.commands import command_for
from mqdlq.reading.report.records import MessageGroup, MessageRow, Tried, TriedGroup
from mqdlq.reading.run import NO_RULE, Sources
from mqdlq.reading.run_messages import Message
from mqdlq.reasons import code_of, words_of
from mqdlq.words import (
    CLASSES,
    STATES,
    count,
    next_step,
    numbers,
    place,
    reason_in_words,
    span,
    target,
    visible,
)

MOST_OF_A_GROUP: Final = 1_000
"""How many messages in the same trouble a report lists in full."""
MOST_ROWS: Final = 10_000
"""How many messages it lists in full in all."""
MOST_TROUBLES: Final = 2_000
"""How many groups a report has; it groups the other messages by outcome and reason only."""

_MOST_APPLICATIONS: Final = 3
MANY: Final = "various destinations"

_ORDER = {outcome: at for at, outcome in enumerate(Outcome)}


def needs_attention(message: Message) -> bool:
    """Whether a message's outcome needs attention; not for a dry run, nor if it is known now."""
    fact = message.outcome
    if fact is None or message.is_known_since:
        return False
    return Trait.NEEDS_ATTENTION in fact.outcome.traits and not fact.is_only_dry_run


def message_row(message: Message, sources: Sources) -> MessageRow:
    """Return the report's row of a message: its fault, its attempts, and the next step."""
    outcome = message.outcome.outcome if message.outcome else None
    failures = [a.mqrc for a in message.attempts if a.state is AttemptState.FAILED]
    why = message.outcome.why if message.outcome else None
    in_the_way = failures[-1] if failures else message.reason
    return MessageRow(
        **message.facts(),
        outcome=outcome,
        reason_text=reason_text(message.reason) if message.reason else "",
        cause=_cause(message, sources.run.queue_kind if sources.run else QueueKind.DEAD_LETTER),
        cause_id=_cause_id(message),
        why=words_of(why),
        why_code=code_of(why),
        next_step=next_step(
            outcome,
            message.cls,
            in_the_way,
            has_given_action=sources.run is not None and sources.run.has_given_action,
            has_repair=sources.run is not None and bool(sources.run.repair),
        ),
        tried=tuple(
            Tried(
                rule=attempt.rule,
                line=sources.rules.get(attempt.rule, NO_RULE).line,
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
        command=command_for(sources.run, outcome, message.cls, [message.message_key]),
    )


def _cause(message: Message, queue_kind: QueueKind) -> str:
    if message.cls is None:
        return "the snapshot has no row of it"
    if message.cls is MessageClass.DEAD_LETTER:
        return reason_in_words(message.reason)
    if queue_kind.acts_on is message.cls:
        put_by = visible(message.put_appl_name)
        return f"backed out; put by {put_by}, format {visible(message.format)}"
    return CLASSES[message.cls]


def _cause_id(message: Message) -> str:
    if message.cls is None:
        return ""
    names = (message.dest_q_name, message.dest_q_mgr_name)
    return find_cause(message.cls, message.reason, *names).cause_id


class GroupedMessages:
    """Messages grouped by their trouble, added one by one.

    Of a message that is not listed in full, only its browse_seq is kept: eight bytes.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[object, ...], _Group] = {}
        self.messages = 0
        self._listed = 0

    def add(self, row: MessageRow) -> None:
        self.messages += 1
        trouble = _trouble(row)
        group = self._groups.get(trouble)
        if group is None:
            if len(self._groups) >= MOST_TROUBLES:
                trouble = (row.outcome, row.cls, row.reason)
            group = self._groups.setdefault(trouble, _Group(row, is_mixed=len(trouble) == 3))  # noqa: PLR2004
        is_listed = len(group.rows) < MOST_OF_A_GROUP and self._listed < MOST_ROWS
        self._listed += is_listed
        group.add(row, is_listed=is_listed)

    @property
    def browse_seqs(self) -> array[int]:
        return array("Q", (place for group in self._groups.values() for place in group.places))

    def groups(self) -> tuple[MessageGroup, ...]:
        """Return the messages in the same trouble together, worst first, then the largest."""
        made = [group.made() for group in self._groups.values()]
        return tuple(sorted(made, key=lambda group: (-_worry(group.first), -group.messages)))

    def rows(self) -> tuple[MessageRow, ...]:
        """Return the messages that are listed in full, in browse order."""
        rows = [row for group in self._groups.values() for row in group.rows]
        return tuple(sorted(rows, key=lambda row: row.browse_seq))


class _Group:
    """Collects messages in the same trouble: `first` speaks for all, but for browse_seqs, times."""

    def __init__(self, first: MessageRow, *, is_mixed: bool) -> None:
        self.first = first
        self.is_mixed = is_mixed
        self.rows: list[MessageRow] = []
        self.places = array("Q")
        self.tried: dict[tuple[object, ...], tuple[Tried, int, datetime, datetime]] = {}

    def add(self, row: MessageRow, *, is_listed: bool) -> None:
        self.places.append(row.browse_seq)
        if row.browse_seq < self.first.browse_seq:
            self.first = row
        if is_listed:
            self.rows.append(row)
        for one in () if self.is_mixed else row.tried:
            how = _attempted(one)
            first, made, since, until = self.tried.get(how, (one, 0, one.at, one.at))
            self.tried[how] = (first, made + 1, min(since, one.at), max(until, one.at))

    def made(self) -> MessageGroup:
        messages = len(self.places)
        return MessageGroup(
            first=self.first,
            messages=messages,
            browse_seqs=numbers(self.places),
            rows=tuple(sorted(self.rows, key=lambda row: row.browse_seq)),
            tried=tuple(
                TriedGroup(first, made // messages, since, until)
                for first, made, since, until in self.tried.values()
            ),
            is_mixed=self.is_mixed,
        )


def _worry(row: MessageRow) -> int:
    return len(_ORDER) if row.outcome is None else _ORDER[row.outcome]


def _trouble(row: MessageRow) -> tuple[object, ...]:
    to = (_shared(row.dest_q_name), row.dest_q_mgr_name)
    tried = tuple(_attempted(one) for one in row.tried)
    return (row.outcome, row.cause, row.problem, to, row.why_code, row.why, row.next_step, tried)


def _shared(name: str) -> str:
    """Return a generated name as its stem, another one as it is, with the NULs in it."""
    stem = generalize(name)
    return stem if is_generalized(stem) else name


def _attempted(one: Tried) -> tuple[object, ...]:
    return (one.rule, _shared(one.target_q), one.target_q_mgr, one.state, one.reason)


def destination_in_words(group: MessageGroup) -> str:
    """Return where the messages of a group were to go."""
    first = group.first
    return MANY if group.is_mixed else place(_shared(first.dest_q_name), first.dest_q_mgr_name)


def origin_in_words(group: MessageGroup, now: datetime) -> str:
    """Return the applications that put the messages, and the oldest age: ``payments; 2 h 5 min``.

    Only the messages that are listed in full count.
    """
    found = Counter(row.put_appl_name for row in group.rows if row.put_appl_name)
    named = [visible(name) for name, _ in found.most_common(_MOST_APPLICATIONS)]
    if len(found) > len(named):
        named.append(f"{len(found) - len(named):,} more")
    since = min((row.since for row in group.rows if row.since is not None), default=None)
    age = "" if since is None else f"oldest {span((now - since).total_seconds())}"
    return "; ".join(filter(None, [", ".join(named), age]))


def tried_in_words(tried: TriedGroup, messages: int) -> str:
    """Say what was tried on each of so many messages, when, and how it went."""
    first = tried.first
    to = f" to {target(_shared(first.target_q), first.target_q_mgr)}" if first.target_q else ""
    each = " each" if messages > 1 else ""
    until = f" to {tried.last_at:%H:%M:%S}" if tried.last_at > tried.first_at else ""
    return (
        f"{first.action}{to} by rule {first.rule} (line {first.line}), "
        f"{count(tried.attempts, 'attempt')}{each}, {tried.first_at:%H:%M:%S}{until}: "
        f"{first.reason_text or STATES[first.state]}"
    )
