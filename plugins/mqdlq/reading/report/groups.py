"""Group messages by their trouble, and say of each group what was tried and what to do.

All are counted, and their numbers kept; the first of each group are listed in full.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mqdlq.causes import generalize, is_generalized
from mqdlq.model import Outcome
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.run_messages import Message, Selection, Tried, command_for, selected
from mqdlq.words import count, numbers, place, span, target, visible

MOST_OF_A_GROUP: Final = 1_000
"""How many messages in the same trouble a report lists in full."""
MOST_ROWS: Final = 10_000
"""How many messages it lists in full in all."""
MOST_TROUBLES: Final = 2_000
"""How many groups a report has; it groups the other messages by outcome and reason only."""

MOST_KEYS_IN_TEXT: Final = 3
MOST_KEYS_IN_AN_ADDRESS: Final = 50
"""Proxies take addresses of 8 KB, half of which these keys need."""
_WIDTH: Final = 84
_BETWEEN_KEYS: Final = re.compile(r"""(?<=\[)(?=")|(?<=[0-9a-f]",) (?=")|(?<="\],) """)
_MOST_APPLICATIONS: Final = 3
MANY: Final = "various destinations"

_ORDER: Final = {outcome: at for at, outcome in enumerate([*Outcome, None])}
"""The outcomes by how much they worry; a message without one worries most."""


@dataclass(frozen=True, slots=True)
class TriedGroup:
    """Equal attempts on several messages; `attempts` is the number for each message."""

    first: Tried
    attempts: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class MessageGroup:
    """Messages in the same trouble: the first speaks for all, but for browse_seqs and times.

    `browse_seqs` lists them in words, `rows` has some in full. With `is_mixed` they share only the
    outcome and the reason code, since there were too many groups.
    """

    first: Message
    messages: int
    browse_seqs: str
    rows: tuple[Message, ...]
    tried: tuple[TriedGroup, ...]
    is_mixed: bool = False

    @property
    def selection(self) -> Selection:
        """The parameter that selects them: many are all of the cause with the same outcome."""
        keys = selected([row.message_key for row in self.rows])
        if keys and len(self.rows) == self.messages:
            return keys
        first = self.first
        is_alike = first.cause_id and first.outcome is not None and not self.is_mixed
        return {"where": f"cause={first.cause_id} and state={first.outcome}"} if is_alike else {}

    @property
    def command(self) -> str:
        """The command that acts on all of them, "" if no command helps."""
        first = self.first
        return command_for(first.sources.run, first.outcome, first.cls, self.selection)


class GroupedMessages:
    """Messages grouped by their trouble, added one by one.

    Of a message that is not listed in full, only its browse_seq is kept: eight bytes.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[object, ...], _Group] = {}
        self.messages = 0
        self._listed = 0

    def add(self, message: Message) -> None:
        self.messages += 1
        tried = message.tried
        trouble = _trouble(message, tried)
        is_mixed = trouble not in self._groups and len(self._groups) >= MOST_TROUBLES
        if is_mixed:
            trouble = (message.outcome, message.cls, message.reason)
        group = self._groups.setdefault(trouble, _Group(message, is_mixed=is_mixed))
        is_listed = len(group.rows) < MOST_OF_A_GROUP and self._listed < MOST_ROWS
        self._listed += is_listed
        group.add(message, tried, is_listed=is_listed)

    @property
    def browse_seqs(self) -> array[int]:
        return array("Q", (place for group in self._groups.values() for place in group.places))

    def groups(self) -> tuple[MessageGroup, ...]:
        """Return the messages in the same trouble together, worst first, then the largest."""
        made = [group.made() for group in self._groups.values()]
        made.sort(key=lambda group: (-_ORDER[group.first.outcome], -group.messages))
        return tuple(made)

    def rows(self) -> tuple[Message, ...]:
        """Return the messages that are listed in full, in browse order."""
        rows = [row for group in self._groups.values() for row in group.rows]
        return tuple(sorted(rows, key=lambda row: row.browse_seq))


class _Group:
    """Collects messages in the same trouble: `first` speaks for all, but for browse_seqs, times."""

    def __init__(self, first: Message, *, is_mixed: bool) -> None:
        self.first = first
        self.is_mixed = is_mixed
        self.rows: list[Message] = []
        self.places = array("Q")
        self.tried: dict[tuple[object, ...], tuple[Tried, int, datetime, datetime]] = {}

    def add(self, message: Message, tried: tuple[Tried, ...], *, is_listed: bool) -> None:
        self.places.append(message.browse_seq)
        if message.browse_seq < self.first.browse_seq:
            self.first = message
        if is_listed:
            self.rows.append(message)
        for one in () if self.is_mixed else tried:
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


def _trouble(message: Message, tried: tuple[Tried, ...]) -> tuple[object, ...]:
    return (
        *(message.outcome, message.cause, message.problem),
        *(_shared(message.dest_q_name), message.dest_q_mgr_name),
        *(message.why_code, message.why, message.next_step),
        *map(_attempted, tried),
    )


def _shared(name: str) -> str:
    """Return a generated name as its stem, another one as it is, with the NULs in it."""
    stem = generalize(name)
    return stem if is_generalized(stem) else name


def _attempted(one: Tried) -> tuple[object, ...]:
    return (one.rule, _shared(one.target_q), one.target_q_mgr, one.state, one.reason)


# A group in words, and what acts on it.


def destination_in_words(group: MessageGroup) -> str:
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
        f"{first.reason_text or first.state.words}"
    )


def act_address(paths: Paths, handler: str, group: MessageGroup) -> str:
    """Return the address of the form that acts on a group, "" if the page cannot act on it.

    A group with too many messages for an address is that of its cause, with the other messages of
    this cause.
    """
    first = group.first
    if first.outcome in (None, Outcome.UNKNOWN) or first.cls is None:
        return ""
    keys = [row.message_key for row in group.rows]
    if len(keys) == group.messages <= MOST_KEYS_IN_AN_ADDRESS and all(keys):
        return paths.act_on(handler, keys)
    if group.is_mixed:
        return paths.causes(handler)
    return paths.act_on(handler, cause_id=first.cause_id)


def text_command(group: MessageGroup) -> str:
    """Return the command of a group for a text report, "" if it is too long for it.

    It has line breaks where JSON allows them, so that it can be pasted.
    """
    lines = _BETWEEN_KEYS.sub("\n", group.command).splitlines()
    keys = group.selection.get("message_keys", ())
    fits = len(keys) <= MOST_KEYS_IN_TEXT and all(len(line) <= _WIDTH for line in lines)
    return "\n".join(lines) if fits else ""
