"""Table of the checks of a queue by evidence: its stream queue, or statistics of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

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
from mqdlq.reasons import Reason


@dataclass(frozen=True, slots=True)
class EvidenceCheck:
    """One comparison of a queue with its evidence, over the time from `since` to `at`.

    `kind` is "stream" or "statistics", `source` the queue with the evidence. Of `examined` messages
    on a stream queue, `unseen` are in no snapshot; if not `is_exact`, this is the highest number
    possible. Of `examined` gets in statistics, `unseen` are more than runs made. `since` is None
    for the first check of a queue. `trouble` says why the check was not made, or "".
    """

    kind: str
    source: str
    since: datetime | None
    at: datetime
    examined: int = 0
    unseen: int = 0
    is_exact: bool = True
    trouble: str = ""


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


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a message, which a later residence has, too, and its dead-lettering.

    `identity` is that of `mqdlq.headers.message_identity`; `cause_id` is "" if there is none.
    """

    message_id: int
    identity: bytes
    cause_id: str
    dead_lettered_at: datetime | None


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


@dataclass(frozen=True, slots=True)
class Meter:
    """The subject of a rate (a handler, a queue manager or a queue) and its unit."""

    subject: str
    unit: str


@dataclass(frozen=True, slots=True)
class Rate:
    """A limit: the number in a second, and the number at once after a pause."""

    per_second: float
    burst: float


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


class Subject(NamedTuple):
    """The messages that one ramp, or one breaker, is for: a queue, a cause and a target."""

    queue_manager: str
    queue: str
    cause_id: str
    target_q: str
    target_q_mgr: str


@dataclass(frozen=True, slots=True)
class RampState:
    """The state of a ramp or a breaker, recorded by a run.

    `step` counts the steps of a ramp from 1; 0 is the one message that a breaker tries, or a closed
    breaker without a ramp. In a step, `allowed` messages may move. `depth` is that of the target
    when the step began, None if it is not known. Attempts after `step_from` belong to the step;
    returns and failures count after `count_from`. Both are `seq` of attempts. `until` is when the
    state may change, None if that does not depend on the time.
    """

    run_id: str
    phase: RampPhase
    step: int
    allowed: int
    depth: int | None
    step_from: int
    count_from: int
    until: datetime | None
    why: Reason | None
    at: datetime


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


@dataclass(frozen=True, slots=True)
class MessageRepair:
    """The changes that a run makes to a message when it puts it, each from and to.

    The original destination is "" for a message without an MQDLH. `length` counts the bytes of the
    body, which do not change. With a `refusal` the run leaves the message, and archives nothing.
    """

    message_id: int
    format_from: str
    format_to: str
    ccsid_from: int
    ccsid_to: int
    dest_q_from: str
    dest_q_mgr_from: str
    target_q: str
    target_q_mgr: str
    length: int
    refusal: Reason | None = None


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
