"""Tables of the controls that hold messages back or change them, and of checks by evidence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, NamedTuple

from sqlalchemy import Column, Index, LargeBinary, String, Table

from mqdlq.ledger.tables.columns import (
    CauseId,
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
from mqdlq.model import RampPhase
from mqdlq.reasons import Reason


@dataclass(frozen=True, slots=True)
class EvidenceCheck:
    """One comparison of a queue with its evidence, over the time from `since` to `at`.

    `kind` is "stream" or "statistics", `source` the queue with the evidence. Of `examined` messages
    on a stream queue, `unseen` are in no snapshot; if not `is_exact`, this is the highest number
    possible. Of `examined` gets in statistics, `unseen` are more than runs made. `since` is None
    for the first check of a queue, which has nothing to compare. `trouble` says why the check was
    not made, or "". No outcome depends on a check.
    """

    kind: Annotated[str, String(12)]
    source: ObjectName
    since: datetime | None
    at: datetime
    examined: int = 0
    unseen: int = 0
    is_exact: bool = True
    trouble: str = ""


evidence_checks = table(
    "evidence_checks",
    EvidenceCheck,
    of_run(primary_key=True),
    Column("kind", String(12), primary_key=True),
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a message, which a later residence has, too, and its dead-lettering.

    `identity` is that of `mqdlq.headers.message_identity`; `cause_id` is "" if there is none.
    `dead_lettered_at` is None if the MQDLH has no valid date and time. Only runs of handlers with a
    control that recognises returning messages record identities.
    """

    message_id: int
    identity: bytes
    cause_id: CauseId
    dead_lettered_at: datetime | None


identities = table(
    "identities",
    Identity,
    of_message(primary_key=True),
    Column("identity", LargeBinary(32), nullable=False, index=True),
)


@dataclass(frozen=True, slots=True)
class Meter:
    """The subject of a rate (a handler, a queue manager or a queue) and its unit."""

    subject: Annotated[str, String(200)]
    unit: Annotated[str, String(10)]


class Rate(NamedTuple):
    """A limit: the number in a second, and the number at once after a pause."""

    per_second: float
    burst: float


meters = Table(
    "meters",
    metadata,
    *columns(Meter, key=True),
    *columns(Rate),
    Column("handler", String(100), nullable=False),
    at("used_at"),
    at("full_at"),
    Column("refused_run_id", String(250), nullable=False),
    at("refused_until"),
)
"""The rate of a handler, a queue manager or a queue: a token bucket for messages, bytes or depth.

The bucket is full from `full_at`; each reservation adds to this time, so rows are updated. If
several handlers limit a rate, the strictest limit applies: `handler` has it, and used it at
`used_at`. The run `refused_run_id` waits until `refused_until`.
"""


class Subject(NamedTuple):
    """The messages that one ramp, or one breaker, is for: a queue, a cause and a target."""

    queue_manager: ObjectName
    queue: ObjectName
    cause_id: CauseId
    target_q: ObjectName
    target_q_mgr: ObjectName


@dataclass(frozen=True, slots=True)
class RampState:
    """The state of a ramp or a breaker, recorded by a run.

    `step` counts the steps of a ramp from 1; 0 is the one message that a breaker tries, or a closed
    breaker without a ramp. In a step, `allowed` messages may move. `depth` is that of the target
    when the step began, None if it is not known. Attempts after `step_from` belong to the step;
    returns and failures count after `count_from`. Both are `seq` of attempts. `until` is when the
    state may change, None if that does not depend on the time.
    """

    run_id: RunId
    phase: RampPhase
    step: int
    allowed: int
    depth: int | None
    step_from: int
    count_from: int
    until: datetime | None
    why: Reason | None
    at: datetime


ramp_states = table(
    "ramp_states",
    RampState,
    seq(),
    of_run(nullable=False, index=True),
    *columns(Subject),
    Index("ramp_states_of_a_subject", *Subject._fields, "seq"),
)
"""Each change of a ramp or a breaker is a separate row; the last one of a subject is current."""


@dataclass(frozen=True, slots=True)
class MessageRepair:
    """The changes that a run makes to a message when it puts it, each from and to.

    The original destination is "" for a message without an MQDLH. `length` counts the bytes of the
    body, which do not change. With a `refusal` the run leaves the message, and archives nothing.
    """

    message_id: int
    format_from: Annotated[str, String(8)]
    format_to: Annotated[str, String(8)]
    ccsid_from: int
    ccsid_to: int
    dest_q_from: ObjectName
    dest_q_mgr_from: ObjectName
    target_q: ObjectName
    target_q_mgr: ObjectName
    length: int
    refusal: Reason | None = None


repairs = table(
    "repairs",
    MessageRepair,
    of_run(primary_key=True),
    of_message(primary_key=True, index=True),
    at(),
)
"""Recorded with the archive copy of the original message.

`archive` has the original and `attempts` the delivery under the same run and message.
"""
