"""Tables of messages: the attempts made on them, their outcomes, copies and restorations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

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
    Because,
    Kind,
    Words,
    at,
    decision,
    metadata,
    of_message,
    of_run,
    seq,
    target,
)
from mqdlq.model import Action, AttemptState, Disposition, Outcome, RestorationState
from mqdlq.reasons import Reason, Why

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
    Column("disposition", Kind(Disposition, 20), nullable=False),
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
class Attempt:
    """One try of one rule's action on one message, within the unit of work `unit`.

    `mqrc` is the reason code of a failed attempt, else 0. `cause_id` is the cause of the message if
    a control of the run acts by cause, else "".
    """

    unit: str
    run_id: str
    plan_id: str
    message_id: int
    message_key: bytes
    rule: int
    attempt_no: int
    action: Action
    target_q: str
    target_q_mgr: str
    state: AttemptState
    mqrc: int
    at: datetime
    cause_id: str = ""


attempts = Table(
    "attempts",
    metadata,
    seq(),
    Column("unit", String(48), nullable=False, index=True),
    of_run(nullable=False, index=True),
    Column("plan_id", String(150), nullable=False),
    of_message(nullable=False, index=True),
    Column("rule", Integer, nullable=False),
    Column("attempt_no", Integer, nullable=False),
    Column("action", Kind(Action, 10), nullable=False),
    *target(),
    Column("state", Kind(AttemptState, 25), nullable=False),
    Column("mqrc", Integer, nullable=False),
    at(),
    Column("cause_id", String(12), nullable=False),
    Index(
        "attempts_of_a_cause",
        "cause_id",
        "target_q",
        "target_q_mgr",
        "seq",
        sqlite_where=HAS_CAUSE,
        postgresql_where=HAS_CAUSE,
    ),
)
"""Each change of an attempt's state is a separate row; the last row is the current state.

`cause_id` is the cause of the message, "" if the run has no control that acts by cause.
"""

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
class OutcomeFact:
    """How one message ended in one run; `rule` is 0 where no rule decided."""

    message_id: int
    outcome: Outcome
    why: Reason
    rule: int
    action: str
    target_q: str
    target_q_mgr: str
    at: datetime

    @property
    def is_only_dry_run(self) -> bool:
        """Whether nothing but the dry run kept the message's next step from being taken."""
        return self.outcome is Outcome.NOT_ATTEMPTED and self.why == Why.DRY_RUN()


outcomes = Table(
    "outcomes",
    metadata,
    of_run(primary_key=True),
    of_message(primary_key=True, index=True),
    Column("outcome", Kind(Outcome, 20), nullable=False),
    Column("why", Because, nullable=False),
    *decision(),
    at(),
    Index(
        "outcomes_discarded",
        "run_id",
        "at",
        sqlite_where=IS_DISCARDED,
        postgresql_where=IS_DISCARDED,
    ),
)


@dataclass(frozen=True, slots=True)
class Learned:
    """How a message had ended in the run `of_run`, as the run `run_id` came to know.

    The earlier run had booked another outcome, since nothing proved this one then.
    """

    of_run: str
    message_id: int
    run_id: str
    outcome: Outcome
    target_q: str
    target_q_mgr: str
    at: datetime


learned = Table(
    "learned",
    metadata,
    of_run("of_run", primary_key=True),
    of_message(primary_key=True, index=True),
    of_run(nullable=False, index=True),
    Column("outcome", Kind(Outcome, 20), nullable=False),
    *target(),
    at(),
)
"""How a message ended in the run `of_run`, which had recorded another outcome.

The run `run_id` found the marker of the unit of work that moved it. The recorded outcome stays.
"""


@dataclass(frozen=True, slots=True, order=True)
class Settled:
    """How a message was left: its outcome, and the rule, action and target that decided."""

    outcome: Outcome
    rule: int
    action: str
    target_q: str
    target_q_mgr: str


settled_lots = Table(
    "settled_lots",
    metadata,
    Column("lot_id", Integer, primary_key=True),
    of_run(nullable=False, index=True),
    Column("snapshot_id", String(100), nullable=False),
    Column("needs_carry", Boolean, nullable=False),
    Column("outcome", Kind(Outcome, 20), nullable=False),
    *decision(),
)
"""Messages that a run settled in the same way; `needs_carry`: only if attempts carry on."""

settled_messages = Table(
    "settled_messages",
    metadata,
    Column("lot_id", ForeignKey("settled_lots.lot_id"), primary_key=True),
    of_message(primary_key=True, index=True),
)
"""The messages of a lot."""

settled_outcomes = Table(
    "settled_outcomes",
    metadata,
    of_run(primary_key=True),
    Column("outcome", Kind(Outcome, 20), primary_key=True),
    Column("rule", Integer, primary_key=True),
    Column("action", String(10), primary_key=True),
    Column("target_q", String(48), primary_key=True),
    Column("target_q_mgr", String(48), primary_key=True),
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

    restoration_id: str
    handler: str
    who: str = ""
    queue_manager: str = ""
    queue: str = ""
    state_queue: str
    run_id: str = ""
    message_keys: tuple[str, ...] = ()
    reason: int = 0
    to_queue: str = ""
    to_queue_manager: str = ""
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


restorations = Table(
    "restorations",
    metadata,
    Column("restoration_id", String(250), primary_key=True),
    Column("handler", String(100), nullable=False),
    Column("who", Text, nullable=False),
    Column("queue_manager", String(48), nullable=False),
    Column("queue", String(48), nullable=False),
    Column("state_queue", String(48), nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("message_keys", Words, nullable=False),
    Column("reason", Integer, nullable=False),
    Column("to_queue", String(48), nullable=False),
    Column("to_queue_manager", String(48), nullable=False),
    Column("header", Boolean, nullable=False),
    Column("again", Boolean, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    at("started_at"),
    Column("why", Text, nullable=False),
)
"""Requests to restore archived copies: the user, why and when.

`queue` is the dead-letter queue of the copies.
`run_id` is "" for all runs, `message_keys` empty for all messages, `reason` 0 for every reason.
"""


@dataclass(frozen=True, slots=True)
class CopyState:
    """The state of one copy in a restoration; `mqrc` is the reason of a failed put, or 0."""

    run_id: str
    message_id: int
    state: RestorationState
    at: datetime
    unit: str = ""
    mqrc: int = 0
    why: Reason | None = None

    @property
    def key(self) -> CopyId:
        """Return the copy."""
        return self.run_id, self.message_id


restoration_states = Table(
    "restoration_states",
    metadata,
    seq(),
    Column(
        "restoration_id",
        ForeignKey("restorations.restoration_id"),
        nullable=False,
        index=True,
    ),
    Column("run_id", String(250), nullable=False),
    Column("message_id", Integer, nullable=False),
    Column("unit", String(48), nullable=False),
    Column("state", Kind(RestorationState, 20), nullable=False),
    Column("mqrc", Integer, nullable=False),
    Column("why", Because, nullable=False),
    at(),
    ForeignKeyConstraint(["run_id", "message_id"], ["archive.run_id", "archive.message_id"]),
    Index("restoration_states_of_a_copy", "run_id", "message_id"),
)
"""The states of a restoration's copies: each change is a separate row; the last one is current."""
