"""Tables of ramps: how far the handling of a cause is, step by step."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, String, Table, Text

from mqdlq.ledger.tables.columns import Kind, UtcDateTime, at, metadata, of_run, seq, target
from mqdlq.model import RampPhase

ramp_states = Table(
    "ramp_states",
    metadata,
    seq(),
    of_run(nullable=False, index=True),
    Column("queue_manager", String(48), nullable=False),
    Column("queue", String(48), nullable=False),
    Column("cause_id", String(12), nullable=False),
    *target(),
    Column("phase", Kind(RampPhase, 10), nullable=False),
    Column("step", Integer, nullable=False),
    Column("allowed", Integer, nullable=False),
    Column("depth", Integer),
    Column("step_from", Integer, nullable=False),
    Column("count_from", Integer, nullable=False),
    Column("until", UtcDateTime),
    Column("why", Text, nullable=False),
    at(),
    Index(
        "ramp_states_of_a_subject",
        "queue_manager",
        "queue",
        "cause_id",
        "target_q",
        "target_q_mgr",
        "seq",
    ),
)
"""Ramps and breakers by subject: a dead-letter queue, a cause and a target.

Each change is a separate row; the last one is current. `step` 0 is the try of a breaker, or
a closed breaker without a ramp. `depth` is that of the target when the step began, null if it is
not known. `step_from` and `count_from` are the last `attempts.seq` before the step, and before the
first message whose return counts.
"""
