"""Tables of runs: what each was given, what it saw, planned and asked, and how it ended."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, ForeignKey, Index, Integer, String, Table, Text

from mqdlq.ledger.tables.columns import (
    Kind,
    UtcDateTime,
    Words,
    at,
    decision,
    metadata,
    of_run,
    seq,
)
from mqdlq.model import Outcome, QueueKind

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
    Column("started_by", Text, nullable=False),
    Column("started_by_user", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("controls", Text, nullable=False),
    Column("queue_kind", Kind(QueueKind, 20), nullable=False),
    Column("repair", Text, nullable=False),
    Index("runs_of_a_queue", "handler", "queue_manager", "queue", "started_at"),
)

failures = Table(
    "failures",
    metadata,
    seq(),
    Column("run_id", String(250), nullable=False, index=True),
    Column("handler", String(100), nullable=False, index=True),
    Column("task", String(250), nullable=False),
    Column("why", Text, nullable=False),
    Column("error_id", String(20), nullable=False),
    Column("next_step", Text, nullable=False),
    at(),
)
"""Why attempts of tasks failed. The run of a failed `sense` need not be in `runs`.

A restoration has its failures here, too, by its id.
"""

looks = Table(
    "looks",
    metadata,
    seq(),
    of_run(nullable=False, index=True),
    Column("depth", Integer, nullable=False),
    Column("is_work", Boolean, nullable=False),
    Column("why", Text, nullable=False),
    at(),
    Column("max_depth", Integer),
)
"""The depth of a queue that a run saw, whether there was work, and the reason.

`max_depth` is MAXDEPTH; null in a look that did not inquire the queue.
"""

snapshots = Table(
    "snapshots",
    metadata,
    of_run(primary_key=True),
    Column("snapshot_id", String(100), nullable=False),
    Column("location", Text, nullable=False),
    Column("messages", Integer, nullable=False),
    Column("settled", Integer, nullable=False),
    at("taken_at"),
    Column("pruned_at", UtcDateTime),
)
"""The snapshot of a run; `settled` of its messages have compact rows.

`pruned_at` is when the retention settings removed it from the lake, null while it is there.
"""

causes = Table(
    "causes",
    metadata,
    of_run(primary_key=True),
    Column("reason", Integer, primary_key=True, autoincrement=False),
    Column("cause_id", String(12), primary_key=True, index=True),
    Column("message_class", String(30), nullable=False),
    Column("dest_q_name", String(48)),
    Column("dest_q_mgr_name", String(48), nullable=False),
    Column("messages", Integer, nullable=False),
    Column("settled", Integer, nullable=False),
    Column("queues", Integer),
    Column("first_at", UtcDateTime),
    Column("last_at", UtcDateTime),
)
"""Why the messages of a run's snapshot are dead letters, by cause.

A row without `cause_id` and `dest_q_name` has messages of several destinations.
"""

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
    Column("why", Text, nullable=False),
)
"""Questions about plans and their answers, with the person, the comment and the time."""

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
    Column("next_pass_at", UtcDateTime),
    Column("oldest_left", UtcDateTime),
)
"""The counts of runs' last browses.

`next_pass_at` is when the next run can try messages that are pending or held; null: not known.
`oldest_left` is the time since when the oldest remaining message is on the queue, which the report
finds; null: none.
"""

verdicts = Table(
    "verdicts",
    metadata,
    seq(),
    of_run(nullable=False, index=True),
    Column("verdict", String(20), nullable=False),
    Column("headline", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("messages", Integer),
    Column("adds_up", Boolean),
    Column("attention", Integer, nullable=False),
    Column("resolution_median_s", Float),
    Column("resolution_p90_s", Float),
    at(),
)
"""The verdicts of runs' reports. A report written again adds a row: the last one counts.

`messages` and `adds_up` are null without a snapshot, the times if no message departed.
"""

verdict_outcomes = Table(
    "verdict_outcomes",
    metadata,
    Column("verdict_seq", ForeignKey("verdicts.seq"), primary_key=True),
    of_run(nullable=False, index=True),
    Column("outcome", Kind(Outcome, 20), primary_key=True),
    *(
        Column(column.name, column.type, primary_key=True, autoincrement=False)
        for column in decision()
    ),
    Column("messages", Integer, nullable=False),
)
"""How many messages of a run had which outcome, as its report counted them."""

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
