"""What the ledger knows of single messages over all runs: keys, states, and whole histories."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.errors import KEYS_NAMED, MessageKeyError, ambiguous_key
from mqdlq.ledger import tables as t
from mqdlq.ledger.database import Condition, Repository, Row, columns_of, in_parts
from mqdlq.ledger.messages import has_departed, is_at, known_last
from mqdlq.model import Outcome, RestorationState
from mqdlq.reasons import Reason

KEY_DIGITS: Final = 64
MOST: Final = 500
"""How many facts of each kind a history has at most, the newest."""

_HEXADECIMAL: Final = frozenset("0123456789abcdef")
_MOST_MESSAGES: Final = 100
_URGENCY: Final = {outcome: place for place, outcome in enumerate(Outcome, start=1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSnapshot(t.TakenSnapshot):
    """A snapshot that a run took of a queue."""

    handler: str
    queue_manager: str
    queue: str

    @property
    def full(self) -> int:
        """How many full rows it has."""
        return self.messages - self.settled


@dataclass(frozen=True, slots=True)
class MessageState:
    """State of the messages of a queue that have the same key.

    `outcome` is the last one of the message that needs attention most, None if no run has booked
    one since the message came (back) to the queue. `run_id`, `why` and `at` are those of this
    outcome. `has_departed` says that no message with this key is on the queue, as far as known.
    `occurrences` counts the messages in their latest residence.
    """

    outcome: Outcome | None = None
    run_id: str = ""
    why: Reason | None = None
    at: datetime | None = None
    has_departed: bool = False
    occurrences: int = 1


UNKNOWN_MESSAGE: Final = MessageState()
"""The state of a message that no run has listed."""


@dataclass(frozen=True, slots=True)
class MessageHistory:
    """All facts about the messages of a queue with one key; each list is oldest first.

    `places` has by message id how often the message has come back, and its number among equal ones,
    both from 0. `listings` are rows of runs that list the message, with `message_id`, `run_id`,
    `started_by`, `dry_run`, `browse_seq` and `seen_at`, when the snapshot of the run was taken.
    `is_complete` is False if there are more facts of a kind than `MOST`.
    """

    places: dict[int, tuple[int, int]]
    listings: list[Row]
    attempts: list[t.Attempt]
    outcomes: list[tuple[str, t.OutcomeFact]]
    learned: list[t.Learned]
    restored: list[tuple[t.Restoration, t.CopyState]]
    is_complete: bool


class KnownMessages(Repository):
    """The keys, states and histories of the messages that runs have listed."""

    def complete(
        self, given: Iterable[str], handlers: Collection[str] | None = None
    ) -> tuple[str, ...]:
        """Return keys of 64 digits for keys of which the first digits may be given, each once.

        The digits are looked for on the queues of these handlers, or of all. A key of 64 digits is
        returned as it is, in lower case. Raises MessageKeyError if digits are not hexadecimal, or
        begin several keys, or none.
        """
        return tuple(dict.fromkeys(self._complete(digits, handlers) for digits in given))

    def _complete(self, given: str, handlers: Collection[str] | None) -> str:
        digits = given.strip().lower()
        if not digits or len(digits) > KEY_DIGITS or not set(digits) <= _HEXADECIMAL:
            raise MessageKeyError(
                "MQDLQ-271",
                f"{given[: KEY_DIGITS + 6]!r} is not a message_key; expected 64 hexadecimal digits,"
                " or the first of them",
            )
        if len(digits) == KEY_DIGITS:
            return digits
        number, first = self._beginning(digits, handlers)
        if not number:
            of = f" of handler {', '.join(sorted(handlers))}" if handlers else ""
            raise MessageKeyError(
                "MQDLQ-272",
                f"no run{of} has listed a message whose key begins with {digits}; copy the key from"
                " a page or a report, or give all 64 digits",
            )
        if number > 1:
            raise ambiguous_key(digits, first, number)
        return first[0]

    def _beginning(
        self, digits: str, handlers: Collection[str] | None
    ) -> tuple[int, Sequence[str]]:
        """Return how many keys begin with these digits, and the first of them."""
        is_own = sa.true() if handlers is None else t.runs.c.handler.in_(handlers)
        key = t.messages.c.message_key
        fits = (self._on_queues(is_own), *begins(key, digits))
        number = self._count(sa.select(sa.func.count(key.distinct())).where(*fits))
        query = sa.select(key).distinct().where(*fits).order_by(key).limit(KEYS_NAMED)
        return number, [key.hex() for key in self._values(query)]

    def _on_queues(self, is_own: Condition) -> Condition:
        """Return the condition that a message is on a queue of these runs.

        It names each queue: SQLite does not search its index for pairs.
        """
        queues = sa.select(*t.runs.c["queue_manager", "queue"]).where(is_own).distinct()
        return sa.or_(sa.false(), *(is_at(*place) for place in self._rows(queues)))

    def snapshots(
        self, handlers: Iterable[str], *, with_compact: bool = False
    ) -> list[KnownSnapshot]:
        """Return the snapshots of handlers that are there, newest first.

        Those without full rows are among them only `with_compact`.
        """
        taken = t.snapshots.c
        query = (
            sa.select(
                *columns_of(t.snapshots, t.TakenSnapshot),
                *t.runs.c["handler", "queue_manager", "queue"],
            )
            .join(t.runs, t.runs.c.run_id == taken.run_id)
            .where(taken.pruned_at.is_(None))
        )
        if not with_compact:
            query = query.where(taken.messages > taken.settled)
        rows = self._among(query, t.runs.c.handler, sorted(set(handlers)))
        found = [KnownSnapshot(**row._asdict()) for row in rows]
        return sorted(found, key=lambda one: (one.taken_at, one.snapshot_id), reverse=True)

    def places(self, handler: str, key: bytes, limit: int = 5) -> list[tuple[str, int]]:
        """Return (snapshot id, browse_seq) of a message in a handler's runs, newest first.

        A run may list a message that has a compact row in its snapshot.
        """
        own, listed = t.runs.c.handler == handler, t.run_messages.c
        query = (
            sa.select(t.snapshots.c.snapshot_id, listed.browse_seq)
            .join(t.run_messages, listed.run_id == t.snapshots.c.run_id)
            .join(t.messages, t.messages.c.message_id == listed.message_id)
            .join(t.runs, t.runs.c.run_id == listed.run_id)
            .where(t.messages.c.message_key == key, own, self._on_queues(own))
            .order_by(t.snapshots.c.taken_at.desc())
        )
        return [(snapshot_id, at) for snapshot_id, at in self._rows(query.limit(limit))]

    def with_last_outcome(
        self, outcome: Outcome, limit: int
    ) -> dict[tuple[str, str], set[bytes]] | None:
        """Return the keys of messages with this outcome in any run, by queue manager and queue.

        It is what narrows a search: the last outcome of a message may be another one. Returns None
        if more than `limit` outcomes are of this kind.
        """
        ids: set[int] = set()
        for table in (t.outcomes, t.learned):
            some = sa.select(table.c.message_id).where(table.c.outcome == outcome)
            found = self._values(some.limit(limit + 1))
            if len(found) > limit:
                return None
            ids.update(found)
        keys = defaultdict[tuple[str, str], set[bytes]](set)
        query = sa.select(*t.messages.c["queue_manager", "queue", "message_key"])
        for *place, key in self._among(query, t.messages.c.message_id, sorted(ids)):
            keys[place[0], place[1]].add(key)
        return dict(keys)

    def states(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, MessageState]:
        """Return by key the state of messages of a queue, without keys that no run has listed."""
        latest = defaultdict[bytes, dict[int, Row]](dict)
        found = sa.select(t.messages, has_departed(t.messages.c.message_id).label("departed"))
        found = found.where(is_at(queue_manager, queue)).order_by(t.messages.c.residence)
        for row in self._among(found, t.messages.c.message_key, sorted(set(keys))):
            latest[row.message_key][row.occurrence] = row
        ids = [row.message_id for rows in latest.values() for row in rows.values()]
        ends = {
            row.message_id: row for some in in_parts(ids) for row in self._rows(_last_ends(some))
        }
        return {key: _state_of(list(rows.values()), ends) for key, rows in latest.items()}

    def history(self, handler: str, queue_manager: str, queue: str, key: bytes) -> MessageHistory:
        """Return the history of the messages of a queue that have this key, in a handler's runs."""
        message = t.messages.c
        query = (
            sa.select(message.message_id, message.residence, message.occurrence)
            .where(is_at(queue_manager, queue), message.message_key == key)
            .order_by(message.residence.desc(), message.occurrence)
            .limit(_MOST_MESSAGES)
        )
        places = {one: (residence, number) for one, residence, number in self._rows(query)}

        def newest(table: sa.Table, order: str, query: sa.Select[Any] | None = None) -> list[Row]:
            """Return the newest rows about these messages, oldest first."""
            own = sa.select(t.runs.c.run_id).where(t.runs.c.handler == handler)
            rows = sa.select(table) if query is None else query
            column = rows.selected_columns[order]
            rows = rows.where(table.c.message_id.in_(places), table.c.run_id.in_(own))
            return [*reversed(self._rows(rows.order_by(column.desc()).limit(MOST)))]

        listings = newest(t.run_messages, "seen_at", _LISTINGS)
        attempts = newest(t.attempt_states, "seq")
        ends, news = newest(t.outcomes, "at"), newest(t.learned, "at")
        copies = newest(t.restoration_states, "seq", _COPIES)
        ids = {one.restoration_id for one in copies}
        meant = sa.select(t.restorations).where(t.restorations.c.restoration_id.in_(ids))
        restored = {one.restoration_id: one for one in self._list(t.Restoration, meant)}
        kinds = (listings, attempts, ends, news, copies)
        return MessageHistory(
            places,
            listings,
            [_record(t.Attempt, row, message_key=key) for row in attempts],
            [(row.run_id, _record(t.OutcomeFact, row)) for row in ends],
            [_record(t.Learned, row) for row in news],
            [(restored[row.restoration_id], _record(t.CopyState, row)) for row in copies],
            is_complete=len(places) < _MOST_MESSAGES and all(len(one) < MOST for one in kinds),
        )


def _record(kind: Any, row: Row, **more: Any) -> Any:
    values = row._asdict() | more
    return kind(**{name: values[name] for name in kind.__match_args__})


_LISTINGS: Final = (
    sa.select(
        *(t.run_messages.c.message_id, t.run_messages.c.run_id, t.runs.c.started_by),
        *(t.runs.c.dry_run, t.run_messages.c.browse_seq, t.snapshots.c.taken_at.label("seen_at")),
    )
    .join(t.runs, t.runs.c.run_id == t.run_messages.c.run_id)
    .join(t.snapshots, t.snapshots.c.run_id == t.run_messages.c.run_id)
)
_COPIES: Final = sa.select(t.restoration_states).where(
    t.restoration_states.c.state.not_in((RestorationState.SELECTED, RestorationState.INTENDED))
)


def begins(column: sa.ColumnElement[bytes], digits: str) -> list[Condition]:
    """Return the conditions that a key begins with these hexadecimal digits."""
    first = bytes.fromhex(digits.ljust(KEY_DIGITS, "0"))
    last = bytes.fromhex(digits.ljust(KEY_DIGITS, "f"))
    return [column >= first, column <= last]


def _last_ends(message_ids: Collection[int]) -> sa.Select[Any]:
    """Select the last outcome of each message, as learned later if it was."""
    booked = t.outcomes.c
    place = sa.func.row_number().over(
        partition_by=booked.message_id, order_by=(booked.at.desc(), booked.run_id.desc())
    )
    ranked = (
        sa.select(*booked["message_id", "run_id", "why"], place.label("place"))
        .add_columns(*(column.label(name) for name, column in known_last().items()))
        .outerjoin(t.learned, t.IS_LEARNED)
        .where(booked.message_id.in_(message_ids))
        .subquery()
    )
    return sa.select(ranked).where(ranked.c.place == 1)


def _state_of(rows: list[Row], ends: dict[int, Row]) -> MessageState:
    here = [row for row in rows if not row.departed] or rows
    known = [ends[row.message_id] for row in here if row.message_id in ends]
    most = max(known, key=lambda end: _URGENCY[end.outcome], default=None)
    has_departed, number = all(row.departed for row in rows), len(rows)
    if most is None:
        return MessageState(has_departed=has_departed, occurrences=number)
    return MessageState(most.outcome, most.run_id, most.why, most.at, has_departed, number)
