"""Tables of runs: what each was given, what it saw, planned and asked, and how it ended."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Integer, String, Table, Text

from mqdlq.ledger.tables.columns import UtcDateTime, Words, at, metadata, of_run, seq

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
    at("started_at"),
    Column("nul_as_blank", Boolean, nullable=False),
    Column("hold_while_blocked", Boolean, nullable=False),
    Column("deliver_truncated", Boolean, nullable=False),
    Column("max_messages_per_unit", Integer, nullable=False),
    Column("max_plan_age_s", Integer, nullable=False),
    Column("message_keys", Words, nullable=False),
    Column("started_by", Text, nullable=False, server_default=""),
)

refusals = Table(
    "refusals",
    metadata,
    seq(),
    Column("run_id", String(250), nullable=False, index=True),
    Column("handler", String(100), nullable=False),
    Column("why", Text, nullable=False),
    at(),
)
"""The reasons why runs could not start. Such a run is not in `runs`."""

looks = Table(
    "looks",
    metadata,
    seq(),
    of_run(nullable=False, index=True),
    Column("depth", Integer, nullable=False),
    Column("is_work", Boolean, nullable=False),
    Column("why", Text, nullable=False),
    at(),
)
"""The depth of a queue that a run saw, whether there was work, and the reason."""

snapshots = Table(
    "snapshots",
    metadata,
    of_run(primary_key=True),
    Column("snapshot_id", String(100), nullable=False),
    Column("location", Text, nullable=False),
    Column("messages", Integer, nullable=False),
    at("taken_at"),
)

compact_snapshots = Table(
    "compact_snapshots",
    metadata,
    Column("run_id", ForeignKey("snapshots.run_id"), primary_key=True),
    Column("settled", Integer, nullable=False),
)
"""The snapshots that have compact rows; every other snapshot is complete."""

prunings = Table(
    "prunings",
    metadata,
    Column("snapshot_id", String(100), primary_key=True),
    at(),
)
"""Which snapshots were removed from the lake by the retention settings, and when."""

causes = Table(
    "causes",
    metadata,
    of_run(primary_key=True),
    Column("reason", Integer, primary_key=True),
    Column("messages", Integer, nullable=False),
    Column("oldest", UtcDateTime),
)
"""Why messages were dead-lettered, by the reason in their MQDLH (0: without one), for each run."""

plans = Table(
    "plans",
    metadata,
    of_run(primary_key=True),
    Column("plan_id", String(150), nullable=False),
    Column("plan_hash", String(64), nullable=False),
    Column("location", Text, nullable=False),
    at("accepted_at"),
)

approvals = Table(
    "approvals",
    metadata,
    seq(),
    of_run(nullable=False, index=True),
    Column("plan_hash", String(64), nullable=False),
    Column("guards", Words, nullable=False),
    Column("decision", String(10), nullable=False),
    Column("who", Text, nullable=False),
    at(),
)
"""Questions about plans and their answers, with the person and the time."""

passes = Table(
    "passes",
    metadata,
    seq(),
    of_run(nullable=False, index=True),
    at("started_at"),
)

sightings = Table(
    "sightings",
    metadata,
    of_run(primary_key=True),
    Column("depth", Integer, nullable=False),
    Column("seen", Integer, nullable=False),
    Column("returned", Integer, nullable=False),
    Column("arrived", Integer, nullable=False),
    at(),
)
"""The counts of runs' last browses."""

ages = Table(
    "ages",
    metadata,
    of_run(primary_key=True),
    Column("oldest_left", UtcDateTime),
)
"""The time since when the oldest remaining message of a run is on the queue; null: none."""

alerts = Table(
    "alerts",
    metadata,
    seq(),
    Column("run_id", String(250), nullable=False, index=True),
    Column("event", String(20), nullable=False),
    Column("is_sent", Boolean, nullable=False),
    at(),
)
"""Which alerts of a run were sent (`is_sent`), and which conditions last after it.

The run may have failed to start; then it is not in `runs`.
"""
