"""Table of the checks of a queue by evidence: its stream queue, or statistics of it."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Index, Integer, LargeBinary, String, Table, Text

from mqdlq.ledger.tables.columns import (
    Because,
    Kind,
    UtcDateTime,
    at,
    metadata,
    of_message,
    of_run,
    seq,
    target,
)
from mqdlq.model import RampPhase

evidence_checks = Table(
    "evidence_checks",
    metadata,
    of_run(primary_key=True),
    Column("kind", String(12), primary_key=True),
    Column("source", String(48), nullable=False),
    Column("since", UtcDateTime),
    at(),
    Column("examined", Integer, nullable=False),
    Column("unseen", Integer, nullable=False),
    Column("is_exact", Boolean, nullable=False),
    Column("trouble", Text, nullable=False),
)
"""The result of each run's comparison with evidence from `since` to `at`.

`source` is the queue with the evidence. `since` is null for the first check of a queue, which has
nothing to compare. No outcome depends on a check.
"""


# Table of the identities by which a returning message is recognised.

identities = Table(
    "identities",
    metadata,
    of_message(primary_key=True),
    Column("identity", LargeBinary(32), nullable=False, index=True),
    Column("cause_id", String(12), nullable=False),
    Column("dead_lettered_at", UtcDateTime),
)
"""The identity of a message, which a later residence of the same message has, too.

Only runs of handlers with a control that recognises returning messages write it. A message without
an identity has no row. `dead_lettered_at` is null if the MQDLH has no valid date and time.
"""


# Table of the meters of limited rates, which runs share.

meters = Table(
    "meters",
    metadata,
    Column("subject", String(200), primary_key=True),
    Column("unit", String(10), primary_key=True),
    Column("handler", String(100), nullable=False),
    Column("per_second", Float, nullable=False),
    Column("burst", Float, nullable=False),
    Column("used_at", UtcDateTime, nullable=False),
    Column("full_at", UtcDateTime, nullable=False),
    Column("refused_run_id", String(250), nullable=False),
    Column("refused_until", UtcDateTime, nullable=False),
)
"""The rate of a handler, a queue manager or a queue: a token bucket for messages, bytes or depth.

The bucket is full from `full_at`; each reservation adds to this time, so rows are updated. If
several handlers limit a rate, the strictest limit applies: `handler` has it, and used it at
`used_at`. The run `refused_run_id` waits until `refused_until`.
"""


# Tables of ramps: how far the handling of a cause is, step by step.

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
    Column("why", Because, nullable=False),
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


# Table of the changes that runs make to messages when they deliver them.

repairs = Table(
    "repairs",
    metadata,
    of_run(primary_key=True),
    of_message(primary_key=True, index=True),
    Column("format_from", String(8), nullable=False),
    Column("format_to", String(8), nullable=False),
    Column("ccsid_from", Integer, nullable=False),
    Column("ccsid_to", Integer, nullable=False),
    Column("dest_q_from", String(48), nullable=False),
    Column("dest_q_mgr_from", String(48), nullable=False),
    *target(),
    Column("length", Integer, nullable=False),
    Column("refusal", Because, nullable=False),
    at(),
)
"""The changes of a message, from and to, recorded with the archive copy of the original.

`archive` has the original and `attempts` the delivery under the same run and message. With a
`refusal` the message was neither archived nor moved. `length` counts the bytes of the body that is
put, which never change. `dest_q_from` is "" for a message without an MQDLH.
"""
