"""The audit: events that no other table of the ledger records; and the epochs of the ledger.

Epochs number passes and restorations, so that an older copy of a ledger is recognised. A pass or
restoration takes the next number, which is then written to the lake and to each marker, before it
moves a message. So the ledger knows every number that the lake or a state queue has, unless it was
restored from an older copy, or another ledger wrote the number.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.ledger import tables as t
from mqdlq.ledger.database import Repository, add, in_turn, select_records
from mqdlq.model import AuditKind, WorkNumber

DECISIONS: Final[Mapping[str, AuditKind]] = {
    "asked": AuditKind.APPROVAL_ASKED,
    "approved": AuditKind.APPROVED,
    "rejected": AuditKind.REJECTED,
}
"""By the decision of an approval: the kind of its event."""


class Audit(Repository):
    """Add events to the audit; no event is changed or removed. `AuditTrail` reads them."""

    def record(self, event: t.AuditEvent) -> None:
        self._add(t.audit, audit_row(event))

    def knows(self, event: t.AuditEvent) -> bool:
        """Whether this very event is recorded."""
        same = [t.audit.c[name] == value for name, value in audit_row(event).items()]
        return self._value(sa.select(sa.literal(1)).select_from(t.audit).where(*same)) is not None

    def record_once(self, event: t.AuditEvent, *same: str) -> None:
        """Record an event unless one is recorded that is the same in these fields.

        By default they are those of an event of a task that may run twice.
        """
        fields = same or ("at", "what", "who", "run_id")
        self._add_once(t.audit, audit_row(event), *fields)

    def stop_of(self, run_id: str) -> t.AuditEvent | None:
        """Return the request that a run is to stop, or None; `mqdlq.stages.stopping` records it."""
        names = ("at", "what", "who", "handler", "run_id", "why")
        is_meant = (t.audit.c.run_id == run_id) & (t.audit.c.what == AuditKind.STOP_ASKED)
        row = self._first(sa.select(*t.audit.c[names]).where(is_meant))
        return t.AuditEvent(**row._asdict()) if row else None


def keep_approvals(connection: sa.Connection, run_ids: Sequence[str]) -> None:
    """Copy the approvals of runs to the audit, because a prune removes them with their runs."""
    query = (
        sa.select(t.approvals, t.runs.c.handler)
        .join(t.runs, t.runs.c.run_id == t.approvals.c.run_id)
        .where(t.approvals.c.run_id.in_(run_ids))
        .order_by(t.approvals.c.seq)
    )
    events = [
        t.AuditEvent(
            at=row.at,
            what=DECISIONS[row.decision],
            who=row.who,
            handler=row.handler,
            run_id=row.run_id,
            why=row.why,
            details=" ".join(row.guards),
        )
        for row in connection.execute(query)
    ]
    add(connection, t.audit, [audit_row(event) for event in events])


def audit_row(event: t.AuditEvent) -> dict[str, Any]:
    key = bytes.fromhex(event.message_key) if event.message_key else None
    return asdict(event) | {"message_key": key}


_NEWEST: Final = select_records(t.epochs, t.Epoch).order_by(t.epochs.c.epoch.desc()).limit(1)


class Epochs(Repository):
    """The epochs of the ledger. The number of the newest one is updated, all else only added."""

    def newest(self) -> t.Epoch | None:
        """Return the newest epoch, None if no work was ever begun."""
        return self._one(t.Epoch, _NEWEST)

    def taken_on(self) -> t.Epoch | None:
        """Return the newest epoch if a person began it by taking on an older ledger, or None."""
        newest = self.newest()
        return newest if newest is not None and newest.who else None

    def lost_since(self, moment: datetime) -> t.Epoch | None:
        """Return the epoch before which the ledger lost work that was done after a moment."""
        taken_on = self.taken_on()
        return taken_on if taken_on is not None and moment <= taken_on.began_at else None

    def knows(self, work: WorkNumber) -> bool:
        """Whether this ledger counted a number, or it is from before it was taken on."""
        newest = self.newest()
        if newest is None or work.epoch >= newest.epoch:
            return newest is not None and work.name == newest.name and work <= newest.last
        return True

    def next_number(self, at: datetime) -> WorkNumber:
        """Take the next number; it is durable when this returns."""
        with in_turn(self._engine) as connection:
            row = connection.execute(_NEWEST).first()
            if row is None:
                return _begin(connection, t.Epoch(1, secrets.token_hex(8), 1, at, at)).last
            is_newest = t.epochs.c.epoch == row.epoch
            values = {"number": row.number + 1, "worked_at": at}
            connection.execute(sa.update(t.epochs).where(is_newest).values(values))
            return WorkNumber(row.epoch, row.number + 1, row.name)

    def begin(self, above: int, who: str, why: str, details: str, at: datetime) -> t.Epoch:
        """Begin an epoch above another one; the audit has who took the ledger on, and why.

        A ledger that has begun no work may be a copy from before the first epoch: that counts, too.
        """
        with in_turn(self._engine) as connection:
            row = connection.execute(_NEWEST).first()
            epoch = max(above, row.epoch if row else 1) + 1
            event = t.AuditEvent(at, AuditKind.LEDGER_TAKEN_ON, who, why=why, details=details)
            add(connection, t.audit, [audit_row(event)])
            return _begin(connection, t.Epoch(epoch, secrets.token_hex(8), 0, at, at, who, why))


def _begin(connection: sa.Connection, epoch: t.Epoch) -> t.Epoch:
    connection.execute(sa.insert(t.epochs), asdict(epoch))
    return epoch
