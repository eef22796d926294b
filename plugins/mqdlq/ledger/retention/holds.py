"""Legal holds: which handlers, runs and messages no prune may touch, why, and by whose order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    FromClause,
    insert,
    literal,
    or_,
    select,
    union,
)

from mqdlq.errors import LedgerError
from mqdlq.ledger.database import Repository, in_turn, inserted
from mqdlq.ledger.tables.messages import archive, messages, run_messages
from mqdlq.ledger.tables.retention import holds, pruned_copies, pruned_runs, released_holds
from mqdlq.ledger.tables.runs import runs, snapshots


@dataclass(frozen=True, slots=True)
class Hold:
    """A legal hold on one handler, one run or one message; the other two are "".

    `message_key` is hex. `released_at` is None while the hold applies.
    """

    hold_id: int
    handler: str
    run_id: str
    message_key: str
    reason: str
    who: str
    at: datetime
    released_at: datetime | None = None
    released_by: str = ""
    release_reason: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """The number of runs and archive copies that a hold covers, pruned ones apart."""

    runs: int
    copies: int
    pruned_runs: int
    pruned_copies: int


class Holds(Repository):
    """Legal holds; a hold is never changed, and its removal is a separate fact."""

    def add(
        self,
        *,
        handler: str = "",
        run_id: str = "",
        message_key: str = "",
        reason: str,
        who: str,
        at: datetime,
    ) -> Hold:
        """Record a hold; from then on no prune begins to remove what it covers.

        Raises LedgerError if the ledger has no such run or message. A handler may have no run yet.
        """
        key = bytes.fromhex(message_key) if message_key else None
        values = {"handler": handler, "run_id": run_id, "message_key": key}
        with in_turn(self._engine) as connection:
            row = {**values, "reason": reason, "who": who, "at": at}
            hold = self._read(inserted(connection, holds, row), connection)
            if not handler and connection.execute(_covered(hold).limit(1)).first() is None:
                raise _nothing_to_hold(hold)
        return hold

    def release(self, hold_id: int, *, reason: str, who: str, at: datetime) -> Hold:
        """Record that a hold no longer applies; raise LedgerError if none has this number."""
        with in_turn(self._engine) as connection:
            hold = self._read(hold_id, connection)
            if hold.released_at is not None:
                raise LedgerError(
                    "MQDLQ-251",
                    f"hold {hold_id} was removed before, by {hold.released_by}; mqdlq hold list"
                    " shows the holds that apply",
                )
            values = {"hold_id": hold_id, "reason": reason, "who": who, "at": at}
            connection.execute(insert(released_holds), values)
            return self._read(hold_id, connection)

    def all(self, *, released: bool = False) -> list[Hold]:
        """Return the holds that apply, oldest first; with `released` also the others."""
        query = _HOLDS.order_by(holds.c.hold_id)
        if not released:
            query = query.where(released_holds.c.hold_id.is_(None))
        return [_hold(row) for row in self._all(query)]

    def snapshots(self) -> dict[str, int]:
        """Return the snapshots of runs that a hold covers: id to the hold's number."""
        held = held_runs(runs.c.run_id.in_(select(snapshots.c.run_id))).subquery()
        query = select(snapshots.c.snapshot_id, held.c.hold_id).join(
            held, held.c.run_id == snapshots.c.run_id
        )
        return {row["snapshot_id"]: row["hold_id"] for row in self._all(query)}

    def covered(self, hold: Hold) -> Held:
        """Count what a hold covers."""
        with self._engine.connect() as connection:
            kept = [row.run_id for row in connection.execute(_covered(hold))]
            is_gone = pruned_runs.c.run_id.in_(kept)
            gone = set(connection.scalars(select(pruned_runs.c.run_id).where(is_gone)))
            copies = select(archive.c.run_id, pruned_copies.c.run_id.label("pruned")).outerjoin(
                pruned_copies,
                (pruned_copies.c.run_id == archive.c.run_id)
                & (pruned_copies.c.message_id == archive.c.message_id),
            )
            if hold.message_key:
                copies = copies.join(messages, messages.c.message_id == archive.c.message_id)
                copies = copies.where(messages.c.message_key == bytes.fromhex(hold.message_key))
            else:
                copies = copies.join(runs, runs.c.run_id == archive.c.run_id)
                copies = copies.where(
                    runs.c.handler == hold.handler if hold.handler else runs.c.run_id == hold.run_id
                )
            found = connection.execute(copies).all()
        pruned = sum(row.pruned is not None for row in found)
        return Held(len(set(kept) - gone), len(found) - pruned, len(gone), pruned)

    def _read(self, hold_id: int, connection: Any) -> Hold:
        row = connection.execute(_HOLDS.where(holds.c.hold_id == hold_id)).mappings().first()
        if row is None:
            raise LedgerError(
                "MQDLQ-250", f"there is no hold {hold_id}; mqdlq hold list shows all of them"
            )
        return _hold(row)


_HOLDS = select(
    holds,
    released_holds.c.at.label("released_at"),
    released_holds.c.who.label("released_by"),
    released_holds.c.reason.label("release_reason"),
).outerjoin(released_holds, released_holds.c.hold_id == holds.c.hold_id)


def _hold(row: Any) -> Hold:
    values = dict(row)
    for name in ("released_by", "release_reason"):
        values[name] = values[name] or ""
    key = values.pop("message_key")
    return Hold(**values, message_key=key.hex() if key else "")


def _covered(hold: Hold) -> CompoundSelect[Any]:
    """Return the query for the runs that a hold covers, pruned runs included."""
    if hold.message_key:
        listed = select(run_messages.c.run_id).join(
            messages, messages.c.message_id == run_messages.c.message_id
        )
        return union(listed.where(messages.c.message_key == bytes.fromhex(hold.message_key)))
    name, value = ("handler", hold.handler) if hold.handler else ("run_id", hold.run_id)
    return union(
        *(select(table.c.run_id).where(table.c[name] == value) for table in (runs, pruned_runs))
    )


def _nothing_to_hold(hold: Hold) -> LedgerError:
    subject = f"run {hold.run_id}" if hold.run_id else f"message {hold.message_key}"
    return LedgerError(
        "MQDLQ-252",
        f"the ledger has no {subject}, so that a hold on it would keep nothing; correct the name",
    )


def _applies() -> ColumnElement[bool]:
    released = select(released_holds.c.hold_id).where(released_holds.c.hold_id == holds.c.hold_id)
    return ~released.exists()


def held_runs(scope: ColumnElement[bool]) -> CompoundSelect[Any]:
    """Return the query for the runs within a scope that a hold covers, each with its hold."""
    columns = runs.c.run_id, holds.c.hold_id
    by_name = select(*columns).where(
        scope,
        _applies(),
        or_(
            (holds.c.handler != "") & (holds.c.handler == runs.c.handler),
            (holds.c.run_id != "") & (holds.c.run_id == runs.c.run_id),
        ),
    )
    by_message = (
        select(*columns)
        .join(run_messages, run_messages.c.run_id == runs.c.run_id)
        .join(messages, messages.c.message_id == run_messages.c.message_id)
        .join(holds, holds.c.message_key == messages.c.message_key)
        .where(scope, _applies())
    )
    return union(by_name, by_message)


def held_copies(run_id: str) -> CompoundSelect[Any]:
    """Return the query for the archived messages of a run that a hold covers, with the hold."""
    own = archive.c.run_id == run_id
    source: FromClause = archive.join(runs, runs.c.run_id == archive.c.run_id)
    by_name = (
        select(archive.c.message_id, holds.c.hold_id)
        .select_from(source)
        .join(holds, literal(True))
        .where(
            own,
            _applies(),
            or_(
                (holds.c.handler != "") & (holds.c.handler == runs.c.handler),
                (holds.c.run_id != "") & (holds.c.run_id == runs.c.run_id),
            ),
        )
    )
    by_message = (
        select(archive.c.message_id, holds.c.hold_id)
        .join(messages, messages.c.message_id == archive.c.message_id)
        .join(holds, holds.c.message_key == messages.c.message_key)
        .where(own, _applies())
    )
    return union(by_name, by_message)
