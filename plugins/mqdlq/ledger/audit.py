"""The audit: events that no other table of the ledger records, such as a look at a body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, insert, select

from mqdlq.ledger.database import Repository, add, in_turn
from mqdlq.ledger.tables.retention import audit
from mqdlq.ledger.tables.runs import approvals, runs
from mqdlq.model import AuditKind

DECISIONS: Final[Mapping[str, AuditKind]] = {
    "asked": AuditKind.APPROVAL_ASKED,
    "approved": AuditKind.APPROVED,
    "rejected": AuditKind.REJECTED,
}
"""By the decision of an approval: the kind of its event."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One event: a person or program, what they did, when and why.

    `message_key` is hex, "" if the event concerns no single message. `messages` is the number of
    messages that the event concerns, 0 if it concerns none. `details` are words for people; they
    never have the content of a message.
    """

    at: datetime
    what: AuditKind
    who: str
    handler: str = ""
    run_id: str = ""
    message_key: str = ""
    messages: int = 0
    why: str = ""
    details: str = ""


class Audit(Repository):
    """Add events to the audit; no event is changed or removed. `AuditTrail` reads them."""

    def record(self, event: AuditEvent) -> None:
        """Record an event; it is durable when this returns."""
        with self._engine.begin() as connection:
            record_event(connection, event)

    def record_once(self, event: AuditEvent) -> None:
        """Record an event unless the same person did the same to the same run at that time.

        It is for a task that may run twice.
        """
        row = _row(event)
        with in_turn(self._engine) as connection:
            same = [audit.c[name] == row[name] for name in ("at", "what", "who", "run_id")]
            if connection.execute(select(audit.c.seq).where(*same)).first() is None:
                connection.execute(insert(audit), row)


def record_event(connection: Connection, event: AuditEvent) -> None:
    """Record an event in the transaction of what it speaks of."""
    connection.execute(insert(audit), _row(event))


def keep_approvals(connection: Connection, run_ids: Sequence[str]) -> None:
    """Copy the approvals of runs to the audit, because a prune removes them with their runs."""
    query = (
        select(approvals, runs.c.handler)
        .join(runs, runs.c.run_id == approvals.c.run_id)
        .where(approvals.c.run_id.in_(run_ids))
        .order_by(approvals.c.seq)
    )
    events = [
        AuditEvent(
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
    add(connection, audit, [_row(event) for event in events])


def _row(event: AuditEvent) -> dict[str, Any]:
    key = bytes.fromhex(event.message_key) if event.message_key else None
    return {**asdict(event), "message_key": key}
