"""Tables of messages: the attempts made on them, their outcomes, copies and restorations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from mqdlq.ledger.tables.columns import (
    TYPES,
    CauseId,
    HandlerName,
    ObjectName,
    RunId,
    at,
    columns,
    metadata,
    of_message,
    of_run,
    seq,
    table,
)
from mqdlq.model import Action, AttemptState, Disposition, Outcome, RestorationState
from mqdlq.reasons import Reason, Why


@dataclass(frozen=True, slots=True)
class Decision:
    """The rule that decided, its action and its target; `rule` is 0 where no rule decided."""

    rule: int
    action: Annotated[str, String(10)]
    target_q: ObjectName
    target_q_mgr: ObjectName


@dataclass(frozen=True, slots=True)
class Ending(Decision):
    """How a message ended, or was left on the queue: its outcome, and what decided it."""

    outcome: Outcome


messages = Table(
    "messages",
    metadata,
    Column("message_id", Integer, primary_key=True),
    Column("queue_manager", String(48), nullable=False),
    Column("queue", String(48), nullable=False),
    Column("message_key", LargeBinary(32), nullable=False),
    Column("occurrence", Integer, nullable=False),
    Column("residence", Integer, nullable=False),
    UniqueConstraint("queue_manager", "queue", "message_key", "occurrence", "residence"),
)

run_messages = Table(
    "run_messages",
    metadata,
    of_run(primary_key=True),
    of_message(primary_key=True, index=True),
    Column("browse_seq", Integer, nullable=False),
    Column("disposition", TYPES[Disposition], nullable=False),
)

leases = Table(
    "leases",
    metadata,
    seq(),
    of_message(nullable=False, index=True),
    of_run(nullable=False, index=True),
    at("until"),
)

HAS_CAUSE: Final = text("cause_id <> ''")
"""The condition of the index of attempts by cause, which a query repeats word for word."""


@dataclass(frozen=True, slots=True)
class Attempt(Decision):
    """One try of one rule's action on one message, within the unit of work `unit`.

    `mqrc` is the reason code of a failed attempt, else 0. `cause_id` is the cause of the message if
    a control of the run acts by cause, else "".
    """

    action: Action
    unit: str
    run_id: str
    plan_id: Annotated[str, String(150)]
    message_id: int
    message_key: bytes
    attempt_no: int
    state: AttemptState
    mqrc: int
    at: datetime
    cause_id: CauseId = ""


attempts = table(
    "attempts",
    Attempt,
    seq(),
    Column("unit", String(48), nullable=False, index=True),
    of_run(nullable=False, index=True),
    of_message(nullable=False, index=True),
    Index(
        "attempts_of_a_cause",
        "cause_id",
        "target_q",
        "target_q_mgr",
        "seq",
        sqlite_where=HAS_CAUSE,
        postgresql_where=HAS_CAUSE,
    ),
    without={"message_key"},
)
"""Each change of an attempt's state is a separate row; the last row is the current state."""

ATTEMPT_STATES = """
CREATE VIEW attempt_states AS
SELECT a.* FROM attempts a
WHERE a.seq = (
    SELECT max(b.seq) FROM attempts b WHERE b.unit = a.unit AND b.message_id = a.message_id
)
"""

attempt_states = Table(
    "attempt_states",
    MetaData(),  # separate: create_all would make a table of it
    *(Column(column.name, column.type) for column in attempts.columns),
)
"""The view that has each attempt in its current state."""

CopyId = tuple[str, int]
"""An archived copy: the run that made it, and the message it is of."""

archive = Table(
    "archive",
    metadata,
    of_run(primary_key=True),
    of_message(primary_key=True, index=True),
    Column("location", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    at(),
)

IS_DISCARDED: Final = text("outcome = 'discarded'")
"""The condition of the index of discards; a query that has it word for word can use the index."""


@dataclass(frozen=True, slots=True)
class OutcomeFact(Ending):
    """How one message ended in one run, why and when."""

    message_id: int
    why: Reason
    at: datetime

    @property
    def is_only_dry_run(self) -> bool:
        """Whether nothing but the dry run kept the message's next step from being taken."""
        return self.outcome is Outcome.NOT_ATTEMPTED and self.why == Why.DRY_RUN()


outcomes = table(
    "outcomes",
    OutcomeFact,
    of_run(primary_key=True),
    of_message(primary_key=True, index=True),
    Index(
        "outcomes_discarded",
        "run_id",
        "at",
        sqlite_where=IS_DISCARDED,
        postgresql_where=IS_DISCARDED,
    ),
)


@dataclass(frozen=True, slots=True)
class Correction:
    """How messages had ended in the run `of_run`, as the run `run_id` came to know.

    The earlier run had booked another outcome, since nothing proved this one then: the run `run_id`
    found the marker of the unit of work that moved them. The booked outcome stays.
    """

    of_run: str
    run_id: str
    outcome: Outcome
    target_q: ObjectName
    target_q_mgr: ObjectName


@dataclass(frozen=True, slots=True)
class LearnedCount(Correction):
    """A correction with the number of its messages."""

    messages: int


@dataclass(frozen=True, slots=True)
class Learned(Correction):
    """The correction of one message."""

    message_id: int
    at: datetime


learned = table(
    "learned",
    Learned,
    of_run("of_run", primary_key=True),
    of_message(primary_key=True, index=True),
    of_run(nullable=False, index=True),
)

IS_LEARNED: Final = (learned.c.of_run == outcomes.c.run_id) & (
    learned.c.message_id == outcomes.c.message_id
)
"""The condition that a later run learned how a message ended that has this outcome."""

settled_lots = Table(
    "settled_lots",
    metadata,
    Column("lot_id", Integer, primary_key=True),
    of_run(nullable=False, index=True),
    Column("snapshot_id", String(100), nullable=False),
    Column("needs_carry", Boolean, nullable=False),
    *columns(Ending),
)
"""Messages that a run settled in the same way; `needs_carry`: only if attempts carry on."""

settled_messages = Table(
    "settled_messages",
    metadata,
    Column("lot_id", ForeignKey("settled_lots.lot_id"), primary_key=True),
    of_message(primary_key=True, index=True),
)

settled_outcomes = Table(
    "settled_outcomes",
    metadata,
    of_run(primary_key=True),
    Column("outcome", TYPES[Outcome], primary_key=True),
    *columns(Decision, key=True),
    Column("messages", Integer, nullable=False),
    at(),
)
"""How many settled messages of a run's snapshot kept which outcome in the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """A request to restore archived copies: its user, its selection and its target.

    It selects copies of the handler: those of `run_id` ("" for all runs), of the messages in
    `message_keys` (hex; empty for all) that were dead letters for `reason` (0 for any). `queue` is
    the dead-letter queue they were on, "" until they are selected, and then the target unless
    `to_queue` names another. `to_queue_manager` is "" if name resolution finds it. `header` keeps
    the MQDLH; `again` also puts copies that were restored before. The markers on `state_queue`
    prove the puts. `why` is the reason or ticket that the user gave.
    """

    restoration_id: RunId
    handler: HandlerName
    who: str = ""
    queue_manager: ObjectName = ""
    queue: ObjectName = ""
    state_queue: ObjectName
    run_id: RunId = ""
    message_keys: tuple[str, ...] = ()
    reason: int = 0
    to_queue: ObjectName = ""
    to_queue_manager: ObjectName = ""
    header: bool = True
    again: bool = False
    dry_run: bool = False
    started_at: datetime
    why: str = ""

    @property
    def puts_back(self) -> bool:
        """Whether the messages go back to the queue they were discarded from."""
        is_here = self.to_queue_manager in {"", self.queue_manager}
        return is_here and self.to_queue == self.queue


restorations = table(
    "restorations", Restoration, Column("restoration_id", String(250), primary_key=True)
)


@dataclass(frozen=True, slots=True)
class CopyState:
    """The state of one copy in a restoration; `mqrc` is the reason of a failed put, or 0."""

    run_id: RunId
    message_id: int
    state: RestorationState
    at: datetime
    unit: ObjectName = ""
    mqrc: int = 0
    why: Reason | None = None

    @property
    def key(self) -> CopyId:
        """Return the copy."""
        return self.run_id, self.message_id


restoration_states = table(
    "restoration_states",
    CopyState,
    seq(),
    Column("restoration_id", ForeignKey("restorations.restoration_id"), nullable=False, index=True),
    ForeignKeyConstraint(["run_id", "message_id"], ["archive.run_id", "archive.message_id"]),
    Index("restoration_states_of_a_copy", "run_id", "message_id"),
)
"""The states of a restoration's copies: each change is a separate row; the last one is current."""
