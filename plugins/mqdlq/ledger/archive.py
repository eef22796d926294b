"""The archive: which messages have a copy, where it is, and how they have left their queue."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import case, func, or_, select

from mqdlq.ledger.database import Repository, add, columns_of, in_parts
from mqdlq.ledger.tables.controls import repairs
from mqdlq.ledger.tables.messages import archive, attempts, messages
from mqdlq.ledger.tables.retention import pruned_copies, prunes
from mqdlq.ledger.tables.runs import runs
from mqdlq.model import Action, AttemptState
from mqdlq.reasons import Reason

CopyId = tuple[str, int]
"""An archived copy: the run that made it, and the message it is of."""


@dataclass(frozen=True, slots=True)
class MessageRepair:
    """The changes that a run makes to a message when it puts it, each from and to.

    The original destination is "" for a message without an MQDLH. `length` counts the bytes of the
    body, which do not change. With a `refusal` the run leaves the message, and archives nothing.
    """

    message_id: int
    format_from: str
    format_to: str
    ccsid_from: int
    ccsid_to: int
    dest_q_from: str
    dest_q_mgr_from: str
    target_q: str
    target_q_mgr: str
    length: int
    refusal: Reason | None = None


@dataclass(frozen=True, slots=True)
class ArchivedCopy:
    """A copy that a run made of a message before it was to discard it, or to deliver it repaired.

    `occurrence` tells messages with the same key apart (see `RunMessage`). `move` is the state of
    the attempt that was to move the message, None if none was begun; `rule` is its rule's ordinal
    and `moved_at` when the state was recorded, else 0 and None. `pruned_at` is when a prune removed
    the copy, None if none did, and `pruned_by` is its policy. `repair` has the changes with which
    the run was to deliver the message, None for a DISCARD.
    """

    run_id: str
    message_id: int
    handler: str
    queue_manager: str
    queue: str
    message_key: bytes
    occurrence: int
    location: str
    digest: str
    at: datetime
    pruned_at: datetime | None = None
    pruned_by: str | None = None
    move: AttemptState | None = None
    rule: int = 0
    moved_at: datetime | None = None
    repair: MessageRepair | None = None

    @property
    def key(self) -> CopyId:
        """Return what tells it from all others."""
        return self.run_id, self.message_id

    @property
    def is_provisional(self) -> bool:
        """Whether the message may still be on its queue: its unit of work is not confirmed."""
        return self.move is not AttemptState.CONFIRMED

    @property
    def can_be_restored(self) -> bool:
        """Whether the archive has the only copy of a message that has left its queue."""
        is_only_copy = not self.is_provisional and self.repair is None
        return self.pruned_at is None and is_only_copy


class Archive(Repository):
    """Archived copies of messages that runs have discarded or repaired, or were about to."""

    def record(
        self,
        run_id: str,
        location: str,
        digests: Mapping[int, str],
        at: datetime,
        changes: Collection[MessageRepair] = (),
    ) -> None:
        """Record copies that were read back: message id to SHA-256 of key and body.

        `changes` are those of messages to be delivered repaired, and of messages whose repair is
        refused; changes that are recorded already stay. Raises sqlalchemy.exc.IntegrityError, and
        records none, if a copy is recorded already.
        """
        copies = {"run_id": run_id, "location": location, "at": at}
        rows = [{**copies, "message_id": one, "digest": digest} for one, digest in digests.items()]
        known = self.repairs(run_id) if changes else {}
        changed = [
            {**asdict(one), "run_id": run_id, "at": at}
            for one in changes
            if one.message_id not in known
        ]
        with self._engine.begin() as connection:
            add(connection, archive, rows)
            add(connection, repairs, changed)

    def repairs(self, run_id: str) -> dict[int, MessageRepair]:
        """Return the recorded changes of a run's messages by message id."""
        query = select(*columns_of(repairs, MessageRepair)).where(repairs.c.run_id == run_id)
        return {row["message_id"]: MessageRepair(**row) for row in self._all(query)}

    def digests(self, run_id: str) -> dict[int, str]:
        """Return the digests of a run's copies by message id."""
        query = select(archive.c.message_id, archive.c.digest).where(archive.c.run_id == run_id)
        return {row["message_id"]: row["digest"] for row in self._all(query)}

    def locations(self, run_id: str) -> list[str]:
        """Return where a run's copies are, oldest first."""
        query = select(archive.c.location).where(archive.c.run_id == run_id)
        ordered = query.group_by(archive.c.location).order_by(func.min(archive.c.at))
        return list(self._values(ordered))

    def copies(
        self,
        *,
        handler: str = "",
        run_id: str = "",
        place: tuple[str, str] | None = None,
        message_keys: Collection[str] = (),
    ) -> list[ArchivedCopy]:
        """Return the copies in the archive, oldest first; an argument left out narrows nothing.

        `place` is a queue manager and a queue, `message_keys` are hex.
        """
        query = (
            select(
                archive,
                *(runs.c.handler, runs.c.queue_manager, runs.c.queue),
                *(messages.c.message_key, messages.c.occurrence),
                *(prunes.c.at.label("pruned_at"), prunes.c.policy.label("pruned_by")),
            )
            .join(runs, runs.c.run_id == archive.c.run_id)
            .join(messages, messages.c.message_id == archive.c.message_id)
            .outerjoin(
                pruned_copies,
                (pruned_copies.c.run_id == archive.c.run_id)
                & (pruned_copies.c.message_id == archive.c.message_id),
            )
            .outerjoin(prunes, prunes.c.prune_id == pruned_copies.c.prune_id)
            .order_by(archive.c.at, archive.c.location, archive.c.message_id)
        )
        if handler:
            query = query.where(runs.c.handler == handler)
        if run_id:
            query = query.where(archive.c.run_id == run_id)
        if place:
            query = query.where(runs.c.queue_manager == place[0], runs.c.queue == place[1])
        keys = [bytes.fromhex(key) for key in message_keys]
        narrowed = [query.where(messages.c.message_key.in_(some)) for some in in_parts(keys)]
        rows = [row for each in narrowed or [query] for row in self._all(each)]
        run_ids = {row["run_id"] for row in rows}
        moves, repaired = self._moves(run_ids), self._repaired(run_ids)
        copies = [
            ArchivedCopy(
                **row,
                **moves.get((row["run_id"], row["message_id"]), {}),
                repair=repaired.get((row["run_id"], row["message_id"])),
            )
            for row in rows
        ]
        return sorted(copies, key=lambda copy: (copy.at, copy.location))

    def _repaired(self, run_ids: Collection[str]) -> dict[CopyId, MessageRepair]:
        return {
            (run_id, message_id): repair
            for run_id in run_ids
            for message_id, repair in self.repairs(run_id).items()
        }

    def _moves(self, run_ids: Collection[str]) -> dict[CopyId, dict[str, Any]]:
        """Return by copy the state of the attempt to move its message; a confirmed one wins.

        It is a DISCARD, or the delivery of a repaired message; rule 0 is a quarantine.
        """
        repaired = select(repairs.c.message_id).where(
            repairs.c.run_id == attempts.c.run_id, repairs.c.message_id == attempts.c.message_id
        )
        confirmed = case((attempts.c.state == AttemptState.CONFIRMED, attempts.c.seq))
        found = {}
        for run_id in run_ids:
            decisive = (
                select(func.coalesce(func.max(confirmed), func.max(attempts.c.seq)))
                .where(
                    attempts.c.run_id == run_id,
                    or_(
                        attempts.c.action == Action.DISCARD,
                        repaired.exists() & (attempts.c.rule != 0),
                    ),
                )
                .group_by(attempts.c.message_id)
            )
            for row in self._all(select(attempts).where(attempts.c.seq.in_(decisive))):
                found[row["run_id"], row["message_id"]] = {
                    "move": row["state"],
                    "rule": row["rule"],
                    "moved_at": row["at"],
                }
        return found
