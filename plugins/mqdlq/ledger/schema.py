"""The ledger's tables, and the numbered migrations that bring a database to them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
    text,
)

from mqdlq.ledger.age_tables import m0007_know_the_age_of_what_stays
from mqdlq.ledger.columns import UtcDateTime, Words
from mqdlq.ledger.database import in_turn
from mqdlq.ledger.learning_tables import m0006_learn_what_was_unknown
from mqdlq.ledger.parking_tables import m0002_park_messages
from mqdlq.ledger.restoring_tables import m0005_restore_from_the_archive
from mqdlq.ledger.retention_tables import m0004_know_what_was_pruned
from mqdlq.ledger.workflow_tables import m0003_look_and_approve

metadata = MetaData()

migrations = Table(
    "migrations",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("applied_at", UtcDateTime, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(250), primary_key=True),
    Column("handler", String(100), nullable=False),
    Column("dag_run_id", String(250), nullable=False),
    Column("run_type", String(50), nullable=False),
    Column("queue_manager", String(48), nullable=False),
    Column("queue", String(48), nullable=False),
    Column("state_queue", String(48), nullable=False),
    Column("rules_source", Text, nullable=False),
    Column("rules_digest", String(64), nullable=False),
    Column("rules_text", Text, nullable=False),
    Column("retry_interval_s", Integer, nullable=False),
    Column("wait_s", Integer),
    Column("carry_attempts", Boolean, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("max_run_time_s", Integer, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("nul_as_blank", Boolean, nullable=False),
    Column("hold_while_blocked", Boolean, nullable=False),
    Column("deliver_truncated", Boolean, nullable=False),
    Column("messages_in_a_unit", Integer, nullable=False),
    Column("max_plan_age_s", Integer, nullable=False),
    Column("message_keys", Words, nullable=False),
)

refusals = Table(
    "refusals",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(250), nullable=False, index=True),
    Column("handler", String(100), nullable=False),
    Column("why", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("run_id", ForeignKey("runs.run_id"), primary_key=True),
    Column("snapshot_id", String(100), nullable=False),
    Column("location", Text, nullable=False),
    Column("messages", Integer, nullable=False),
    Column("taken_at", UtcDateTime, nullable=False),
)

plans = Table(
    "plans",
    metadata,
    Column("run_id", ForeignKey("runs.run_id"), primary_key=True),
    Column("plan_id", String(150), nullable=False),
    Column("plan_hash", String(64), nullable=False),
    Column("location", Text, nullable=False),
    Column("accepted_at", UtcDateTime, nullable=False),
)

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
    Column("run_id", ForeignKey("runs.run_id"), primary_key=True),
    Column("message_id", ForeignKey("messages.message_id"), primary_key=True),
    Column("browse_seq", Integer, nullable=False),
    Column("disposition", String(20), nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("unit", String(48), nullable=False, index=True),
    Column("run_id", ForeignKey("runs.run_id"), nullable=False, index=True),
    Column("plan_id", String(150), nullable=False),
    Column("message_id", ForeignKey("messages.message_id"), nullable=False, index=True),
    Column("rule", Integer, nullable=False),
    Column("attempt_no", Integer, nullable=False),
    Column("action", String(10), nullable=False),
    Column("target_q", String(48), nullable=False),
    Column("target_q_mgr", String(48), nullable=False),
    Column("state", String(25), nullable=False),
    Column("mqrc", Integer, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("run_id", ForeignKey("runs.run_id"), primary_key=True),
    Column("message_id", ForeignKey("messages.message_id"), primary_key=True, index=True),
    Column("outcome", String(20), nullable=False),
    Column("why", Text, nullable=False),
    Column("rule", Integer, nullable=False),
    Column("action", String(10), nullable=False),
    Column("target_q", String(48), nullable=False),
    Column("target_q_mgr", String(48), nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

passes = Table(
    "passes",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("run_id", ForeignKey("runs.run_id"), nullable=False, index=True),
    Column("started_at", UtcDateTime, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("message_id", ForeignKey("messages.message_id"), nullable=False, index=True),
    Column("run_id", ForeignKey("runs.run_id"), nullable=False),
    Column("until", UtcDateTime, nullable=False),
)

archive = Table(
    "archive",
    metadata,
    Column("run_id", ForeignKey("runs.run_id"), primary_key=True),
    Column("message_id", ForeignKey("messages.message_id"), primary_key=True),
    Column("location", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

sightings = Table(
    "sightings",
    metadata,
    Column("run_id", ForeignKey("runs.run_id"), primary_key=True),
    Column("depth", Integer, nullable=False),
    Column("seen", Integer, nullable=False),
    Column("returned", Integer, nullable=False),
    Column("arrived", Integer, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

# What an attempt has come to: each change of its state is a row of its own.
ATTEMPT_STATES = """
CREATE VIEW attempt_states AS
SELECT a.* FROM attempts a
WHERE a.seq = (
    SELECT max(b.seq) FROM attempts b WHERE b.unit = a.unit AND b.message_id = a.message_id
)
"""

attempt_states = Table(
    "attempt_states",
    MetaData(),
    *(Column(column.name, column.type) for column in attempts.columns),
)


def m0001_create_the_ledger(connection: Connection) -> None:
    """All tables of the first version, and the view that reads attempts by their latest state."""
    metadata.create_all(connection)
    connection.execute(text(ATTEMPT_STATES))


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    m0001_create_the_ledger,
    m0002_park_messages,
    m0003_look_and_approve,
    m0004_know_what_was_pruned,
    m0005_restore_from_the_archive,
    m0006_learn_what_was_unknown,
    m0007_know_the_age_of_what_stays,
)


def migrate(engine: Engine, now: datetime) -> None:
    """Apply what is missing, each migration with its record in one transaction.

    Of several processes that do so at once, one does and the others find it done.
    """
    for step in MIGRATIONS:
        if step.__name__ in applied(engine):
            continue
        with in_turn(engine) as connection:
            if step.__name__ not in _names(connection):
                step(connection)
                values = {"name": step.__name__, "applied_at": now}
                connection.execute(migrations.insert(), values)


def applied(engine: Engine) -> set[str]:
    """Return the names of the migrations a database has had."""
    with engine.connect() as connection:
        return _names(connection)


def _names(connection: Connection) -> set[str]:
    if not inspect(connection).has_table(migrations.name):
        return set()
    return set(connection.scalars(select(migrations.c.name)))
