"""Identities of messages, and the departures of messages with an identity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import func, select

from mqdlq.ledger.database import Repository, add, columns_of, in_parts, in_turn
from mqdlq.ledger.tables.controls import identities
from mqdlq.ledger.tables.messages import attempts, messages, run_messages
from mqdlq.ledger.tables.runs import runs
from mqdlq.model import Action, AttemptState

_BACKFILL: Final = "backfill"


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a message, which a later residence has, too, and its dead-lettering.

    `identity` is that of `mqdlq.headers.message_identity`; `cause_id` is "" if there is none.
    """

    message_id: int
    identity: bytes
    cause_id: str
    dead_lettered_at: datetime | None


@dataclass(frozen=True, slots=True)
class Departure:
    """A move of a message off a dead-letter queue, by a RETRY or FWD that is known to be committed.

    `cause_id` is the cause for which the message was a dead letter then. The queue is the
    dead-letter queue, the target the queue that the message was put to.
    """

    message_id: int
    identity: bytes
    cause_id: str
    dead_lettered_at: datetime | None
    run_id: str
    queue_manager: str
    queue: str
    rule: int
    action: Action
    target_q: str
    target_q_mgr: str
    at: datetime


class Identities(Repository):
    """Identities of messages; a message has at most one, which never changes."""

    def record(self, found: Iterable[Identity]) -> None:
        """Record identities, in one transaction; a message that has one keeps it."""
        for part in in_parts(found):
            with in_turn(self._engine) as connection:
                known = select(identities.c.message_id).where(
                    identities.c.message_id.in_([one.message_id for one in part])
                )
                has_one = set(connection.scalars(known))
                rows = [asdict(one) for one in part if one.message_id not in has_one]
                add(connection, identities, rows)

    def of_run(self, run_id: str) -> dict[int, bytes]:
        """Return the identities of a run's messages by message id."""
        query = (
            select(identities.c.message_id, identities.c.identity)
            .join(run_messages, run_messages.c.message_id == identities.c.message_id)
            .where(run_messages.c.run_id == run_id)
        )
        with self._stream(query) as rows:
            return {row.message_id: row.identity for row in rows}

    def of_messages(self, message_ids: Collection[int]) -> list[Identity]:
        """Return the identities of these messages, in no order."""
        query = select(*columns_of(identities, Identity))
        return [
            Identity(**row)
            for some in in_parts(message_ids)
            for row in self._all(query.where(identities.c.message_id.in_(some)))
        ]

    def departures(self, of: Collection[bytes]) -> dict[bytes, list[Departure]]:
        """Return by identity the departures of its messages from any queue, oldest first."""
        found = defaultdict[bytes, list[Departure]](list)
        held = {c.name: c for c in (*messages.c, *attempts.c, *identities.c)}
        query = (
            select(*(held[name] for name in Departure.__slots__))
            .select_from(identities)
            .join(attempts, attempts.c.message_id == identities.c.message_id)
            .join(messages, messages.c.message_id == identities.c.message_id)
            .where(
                attempts.c.state == AttemptState.CONFIRMED,
                attempts.c.action.in_((Action.RETRY, Action.FWD)),
            )
            .order_by(attempts.c.seq)
        )
        for some in in_parts(of):
            for row in self._all(query.where(identities.c.identity.in_(some))):
                found[row["identity"]].append(Departure(**row))
        return found

    def shared(self, among: Collection[bytes]) -> set[bytes]:
        """Return which of these identities two messages of one run had.

        They were on the queue at the same time, so they are different messages. Backfill runs do
        not count: they list messages of several times.
        """
        query = (
            select(identities.c.identity)
            .join(run_messages, run_messages.c.message_id == identities.c.message_id)
            .join(runs, runs.c.run_id == run_messages.c.run_id)
            .where(runs.c.run_type != _BACKFILL)
            .group_by(identities.c.identity, run_messages.c.run_id)
            .having(func.count() > 1)
        )
        return {
            one
            for some in in_parts(among)
            for one in self._values(query.where(identities.c.identity.in_(some)))
        }
