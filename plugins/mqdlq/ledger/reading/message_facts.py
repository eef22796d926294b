"""What the ledger knows of single messages over all runs: keys, states, and whole histories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, false, func, or_, select

from mqdlq.errors import MqDlqError
from mqdlq.ledger.database import Repository, columns_of, in_parts
from mqdlq.ledger.messages import has_departed
from mqdlq.ledger.tables import (
    Attempt,
    CopyState,
    Learned,
    OutcomeFact,
    Restoration,
    TakenSnapshot,
    attempt_states,
    learned,
    messages,
    outcomes,
    restoration_states,
    restorations,
    run_messages,
    runs,
    snapshots,
)
from mqdlq.model import Outcome, RestorationState
from mqdlq.reasons import Reason

KEY_DIGITS: Final = 64
MOST: Final = 500
"""How many facts of each kind a history has at most, the newest."""

_HEXADECIMAL: Final = frozenset("0123456789abcdef")
_NAMED: Final = 4
"""How many keys an error lists."""
_MOST_MESSAGES: Final = 100
_NOT_TRIED: Final = (RestorationState.SELECTED, RestorationState.INTENDED)
_URGENCY: Final = {outcome: place for place, outcome in enumerate(Outcome, start=1)}


class MessageKeyError(MqDlqError, ValueError):
    """A key is not one, or its first digits are those of several messages or of none."""

    parameter = "message_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSnapshot(TakenSnapshot):
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
class Listing:
    """A run that lists the message; `seen_at` is when its snapshot was taken."""

    message_id: int
    run_id: str
    started_by: str
    dry_run: bool
    browse_seq: int
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class MessageHistory:
    """All facts about the messages of a queue with one key; each list is oldest first.

    `places` has by message id how often the message has come back, and its number among equal ones,
    both from 0. `is_complete` is False if there are more facts of a kind than `MOST`.
    """

    places: dict[int, tuple[int, int]]
    listings: list[Listing]
    attempts: list[Attempt]
    outcomes: list[tuple[str, OutcomeFact]]
    learned: list[Learned]
    restored: list[tuple[Restoration, CopyState]]
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
            raise ambiguous(digits, first, number)
        return first[0]

    def _beginning(
        self, digits: str, handlers: Collection[str] | None
    ) -> tuple[int, Sequence[str]]:
        """Return how many keys begin with these digits, and the first of them."""
        queues = select(runs.c.queue_manager, runs.c.queue).distinct()
        if handlers is not None:
            queues = queues.where(runs.c.handler.in_(handlers))
        # One condition for each queue: SQLite does not search its index for pairs.
        here = [is_on_queue(*row.values()) for row in self._all(queues)]
        if not here:
            return 0, ()
        fits = or_(*here), *begins(messages.c.message_key, digits)
        number = self._values(select(func.count(messages.c.message_key.distinct())).where(*fits))
        query = select(messages.c.message_key).distinct().where(*fits)
        first = self._values(query.order_by(messages.c.message_key).limit(_NAMED))
        return int(number[0]), [key.hex() for key in first]

    def snapshots(self, handlers: Iterable[str]) -> list[KnownSnapshot]:
        """Return the snapshots of these handlers that were not pruned, newest first.

        A snapshot without full rows is left out.
        """
        query = (
            select(
                *columns_of(snapshots, TakenSnapshot),
                runs.c.handler,
                runs.c.queue_manager,
                runs.c.queue,
            )
            .join(runs, runs.c.run_id == snapshots.c.run_id)
            .where(snapshots.c.messages > snapshots.c.settled, snapshots.c.pruned_at.is_(None))
        )
        found = [
            KnownSnapshot(**row)
            for some in in_parts(sorted(set(handlers)))
            for row in self._all(query.where(runs.c.handler.in_(some)))
        ]
        return sorted(found, key=lambda one: (one.taken_at, one.snapshot_id), reverse=True)

    def places(self, handler: str, key: bytes, limit: int = 5) -> list[tuple[str, int]]:
        """Return (snapshot id, browse_seq) of a message in a handler's runs, newest first.

        A run may list a message that has a compact row in its snapshot.
        """
        # One by one: SQLite does not search its index for the pairs of a subquery.
        own = runs.c.handler == handler
        queues = select(runs.c.queue_manager, runs.c.queue).where(own).distinct()
        query = (
            select(snapshots.c.snapshot_id, run_messages.c.browse_seq)
            .join(run_messages, run_messages.c.message_id == messages.c.message_id)
            .join(runs, runs.c.run_id == run_messages.c.run_id)
            .join(snapshots, snapshots.c.run_id == runs.c.run_id)
            .where(messages.c.message_key == key, own)
            .where(or_(false(), *(is_on_queue(*row.values()) for row in self._all(queues))))
            .order_by(snapshots.c.taken_at.desc())
            .limit(limit)
        )
        return [(row["snapshot_id"], row["browse_seq"]) for row in self._all(query)]

    def with_last_outcome(
        self, outcome: Outcome, limit: int
    ) -> dict[tuple[str, str], set[bytes]] | None:
        """Return the keys of messages with this outcome in any run, by queue manager and queue.

        It is what narrows a search: the last outcome of a message may be another one. Returns None
        if more than `limit` outcomes are of this kind.
        """
        ids: set[int] = set()
        for table in (outcomes, learned):
            some = select(table.c.message_id).where(table.c.outcome == outcome)
            (number,) = self._values(
                select(func.count()).select_from(some.limit(limit + 1).subquery())
            )
            if number > limit:
                return None
            ids.update(self._values(some) if number else ())
        keys: dict[tuple[str, str], set[bytes]] = defaultdict(set)
        columns = (messages.c.queue_manager, messages.c.queue, messages.c.message_key)
        for part in in_parts(sorted(ids)):
            for row in self._all(select(*columns).where(messages.c.message_id.in_(part))):
                keys[row["queue_manager"], row["queue"]].add(row["message_key"])
        return dict(keys)

    def states(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, MessageState]:
        """Return by key the state of messages of a queue, without keys that no run has listed."""
        latest: dict[bytes, dict[int, Any]] = defaultdict(dict)
        found = select(messages, has_departed(messages.c.message_id).label("departed"))
        found = found.where(is_on_queue(queue_manager, queue)).order_by(messages.c.residence)
        for some in in_parts(sorted(set(keys))):
            for row in self._all(found.where(messages.c.message_key.in_(some))):
                latest[row["message_key"]][row["occurrence"]] = row
        ids = [row["message_id"] for rows in latest.values() for row in rows.values()]
        ends = {
            row["message_id"]: row
            for some in in_parts(ids)
            for row in self._all(_last_outcomes(some))
        }
        return {key: _state_of(list(rows.values()), ends) for key, rows in latest.items()}

    def history(self, handler: str, queue_manager: str, queue: str, key: bytes) -> MessageHistory:
        """Return the history of the messages of a queue that have this key, in a handler's runs."""
        query = (
            select(messages.c.message_id, messages.c.residence, messages.c.occurrence)
            .where(is_on_queue(queue_manager, queue), messages.c.message_key == key)
            .order_by(messages.c.residence.desc(), messages.c.occurrence)
            .limit(_MOST_MESSAGES)
        )
        places = {
            row["message_id"]: (row["residence"], row["occurrence"]) for row in self._all(query)
        }

        def newest(query: Any, table: Any, order: str) -> list[dict[str, Any]]:
            """Return the newest rows about these messages, oldest first."""
            own = select(runs.c.run_id).where(runs.c.handler == handler)
            query = query.where(table.c.message_id.in_(places), table.c.run_id.in_(own))
            column = query.selected_columns[order]
            rows = self._all(query.order_by(column.desc()).limit(MOST))
            return [dict(row) for row in reversed(rows)]

        listings = newest(_LISTINGS, run_messages, "seen_at")
        attempts = newest(select(attempt_states), attempt_states, "seq")
        ends = newest(select(outcomes), outcomes, "at")
        news = newest(select(learned), learned, "at")
        copies = newest(_COPIES, restoration_states, "seq")
        ids = {one["restoration_id"] for one in copies}
        query = select(restorations).where(restorations.c.restoration_id.in_(ids))
        restored = {row["restoration_id"]: Restoration(**row) for row in self._all(query)}
        for row in (*attempts, *copies):
            del row["seq"]
        kinds = (listings, attempts, ends, news, copies)
        return MessageHistory(
            places,
            [Listing(**row) for row in listings],
            [Attempt(message_key=key, **row) for row in attempts],
            [(row.pop("run_id"), OutcomeFact(**row)) for row in ends],
            [Learned(**row) for row in news],
            [(restored[row.pop("restoration_id")], CopyState(**row)) for row in copies],
            is_complete=len(places) < _MOST_MESSAGES and all(len(one) < MOST for one in kinds),
        )


_LISTINGS: Final = (
    select(
        run_messages.c.message_id,
        run_messages.c.run_id,
        runs.c.started_by,
        runs.c.dry_run,
        run_messages.c.browse_seq,
        snapshots.c.taken_at.label("seen_at"),
    )
    .join(runs, runs.c.run_id == run_messages.c.run_id)
    .join(snapshots, snapshots.c.run_id == run_messages.c.run_id)
)
_COPIES: Final = select(restoration_states).where(restoration_states.c.state.not_in(_NOT_TRIED))


def is_on_queue(queue_manager: str, queue: str) -> ColumnElement[bool]:
    """Return the condition that a message is on this queue; an index begins with both."""
    return (messages.c.queue_manager == queue_manager) & (messages.c.queue == queue)


def begins(column: ColumnElement[bytes], digits: str) -> list[ColumnElement[bool]]:
    """Return the conditions that a key begins with these hexadecimal digits."""
    first = bytes.fromhex(digits.ljust(KEY_DIGITS, "0"))
    last = bytes.fromhex(digits.ljust(KEY_DIGITS, "f"))
    return [column >= first, column <= last]


def ambiguous(digits: str, first: Sequence[str], number: int) -> MessageKeyError:
    """Return the error for digits with which so many keys begin, of which the first are given."""
    shown = ", ".join(key[: len(digits) + 8] for key in first[:_NAMED])
    more = ", …" if number > _NAMED else ""
    return MessageKeyError(
        "MQDLQ-904",
        f"key {digits} is the beginning of {number:,} messages' keys ({shown}{more}); give more"
        " digits",
    )


def _last_outcomes(message_ids: Collection[int]) -> Select[Any]:
    """Return the query for the last outcome of each message, as learned later if it was."""
    place = func.row_number().over(
        partition_by=outcomes.c.message_id,
        order_by=(outcomes.c.at.desc(), outcomes.c.run_id.desc()),
    )
    ranked = (
        select(
            outcomes.c.message_id,
            outcomes.c.run_id,
            outcomes.c.why,
            func.coalesce(learned.c.outcome, outcomes.c.outcome).label("outcome"),
            func.coalesce(learned.c.at, outcomes.c.at).label("at"),
            place.label("place"),
        )
        .outerjoin(
            learned,
            (learned.c.of_run == outcomes.c.run_id)
            & (learned.c.message_id == outcomes.c.message_id),
        )
        .where(outcomes.c.message_id.in_(message_ids))
        .subquery()
    )
    return select(ranked).where(ranked.c.place == 1)


def _state_of(rows: list[Any], ends: dict[int, Any]) -> MessageState:
    here = [row for row in rows if not row["departed"]] or rows
    most = max(
        (ends[row["message_id"]] for row in here if row["message_id"] in ends),
        key=lambda end: _URGENCY[end["outcome"]],
        default=None,
    )
    return MessageState(
        outcome=most and most["outcome"],
        run_id=most["run_id"] if most else "",
        why=most and most["why"],
        at=most and most["at"],
        has_departed=all(row["departed"] for row in rows),
        occurrences=len(rows),
    )
