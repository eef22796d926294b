"""Tables of retention: legal holds, prunes, and what they removed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
)

from mqdlq.ledger.tables.columns import (
    TYPES,
    HandlerName,
    UtcDateTime,
    at,
    columns,
    metadata,
    seq,
    table,
)
from mqdlq.ledger.tables.messages import Decision, Ending
from mqdlq.model import AuditKind, Outcome, WorkNumber

holds = Table(
    "holds",
    metadata,
    Column("hold_id", Integer, primary_key=True),
    Column("handler", String(100), nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("message_key", LargeBinary(32)),
    Column("reason", Text, nullable=False),
    Column("who", Text, nullable=False),
    at(),
)
"""Legal holds, each on one handler, one run or one message; the other two are "" or null."""

released_holds = Table(
    "released_holds",
    metadata,
    Column("hold_id", ForeignKey("holds.hold_id"), primary_key=True),
    Column("reason", Text, nullable=False),
    Column("who", Text, nullable=False),
    at(),
)
"""The holds that no longer apply, with the person who removed them and the reason."""


@dataclass(frozen=True, slots=True)
class Prune:
    """A prune by the policy of a handler, in words; `who` is a person or "the schedule"."""

    handler: HandlerName
    policy: str
    who: str
    at: datetime


prunes = table(
    "prunes",
    Prune,
    Column("prune_id", Integer, primary_key=True),
    Column("trusted_until", UtcDateTime),
)

pruned_copies = Table(
    "pruned_copies",
    metadata,
    Column("run_id", String(250), primary_key=True),
    Column("message_id", Integer, primary_key=True, autoincrement=False),
    Column("prune_id", ForeignKey("prunes.prune_id"), nullable=False),
    ForeignKeyConstraint(["run_id", "message_id"], ["archive.run_id", "archive.message_id"]),
)
"""The archive copies that a prune removes; written before the file changes."""

pruned_files = Table(
    "pruned_files",
    metadata,
    Column("prune_id", ForeignKey("prunes.prune_id"), primary_key=True),
    Column("location", Text, primary_key=True),
    at(),
)
"""The files of the archive from which a prune has removed its copies; written afterwards."""

pruned_runs = Table(
    "pruned_runs",
    metadata,
    Column("run_id", String(250), primary_key=True),
    Column("prune_id", ForeignKey("prunes.prune_id"), nullable=False),
    Column("handler", String(100), nullable=False),
    Column("run_type", String(50), nullable=False),
    Column("queue_manager", String(48), nullable=False),
    Column("queue", String(48), nullable=False),
    Column("rules_digest", String(64), nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("started_by", Text, nullable=False),
    at("started_at"),
    Column("closed_at", UtcDateTime),
    Column("why", Text, nullable=False),
)
"""The runs that a prune removes; written before their rows and files go.

The prune of a run that is still in `runs` has not finished. `closed_at` is when the run closed its
account, null if it had none because it found no work.
"""


@dataclass(frozen=True, slots=True)
class PrunedOutcome(Ending):
    """How many messages of a pruned run had this outcome, corrections by later runs included.

    `is_settled` counts the settled messages of its snapshot.
    """

    run_id: str
    is_settled: bool
    messages: int


pruned_outcomes = table(
    "pruned_outcomes",
    PrunedOutcome,
    Column("run_id", ForeignKey("pruned_runs.run_id"), primary_key=True),
    Column("is_settled", Boolean, primary_key=True, autoincrement=False),
    Column("outcome", TYPES[Outcome], primary_key=True),
    *columns(Decision, key=True),
)


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
    handler: HandlerName = ""
    run_id: str = ""
    message_key: str = ""
    messages: int = 0
    why: str = ""
    details: str = ""


audit = table(
    "audit",
    AuditEvent,
    seq(),
    Column("at", UtcDateTime, nullable=False, index=True),
    Column("run_id", String(250), nullable=False, index=True),
    Column("message_key", LargeBinary(32), index=True),
)
"""Events that no other table records, and the approvals of pruned runs; rows are only added.

`run_id` refers to no row, so that a prune of the run leaves its events. `message_key` is null if
the event concerns no single message.
"""


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of the ledger: its last number, when work took it, and who began the epoch.

    `who` took on an older ledger; "" for the first epoch of a new one.
    """

    epoch: int
    name: Annotated[str, String(16)]
    number: int
    began_at: datetime
    worked_at: datetime
    who: str = ""
    why: str = ""

    @property
    def last(self) -> WorkNumber:
        """The number of the last pass or restoration."""
        return WorkNumber(self.epoch, self.number, self.name)


epochs = table("epochs", Epoch, Column("epoch", Integer, primary_key=True, autoincrement=False))
