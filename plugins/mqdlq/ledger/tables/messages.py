"""Tables of messages: the attempts made on them, their outcomes, copies and restorations."""

from __future__ import annotations

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
