"""The report of one run as frozen records, before it is rendered.

No record holds a message's body. Names from a message keep their control characters; the renderers
make them visible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from mqdlq.causes import Cause
from mqdlq.controls.loops.round_trips import ReturnRow
from mqdlq.controls.ramp.report import RampRow
from mqdlq.controls.repair.changes import RepairRow
from mqdlq.failures import Failure
from mqdlq.ledger.reading.run_messages import AttemptCount
from mqdlq.ledger.tables import Decision, EvidenceCheck, LearnedCount, Run, Sighting, TakenSnapshot
from mqdlq.model import AttemptState, MessageClass, Outcome, Verdict


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """The plan of a run; `accepted_at` is None where it was evaluated and never accepted."""

    plan_id: str
    plan_hash: str
    accepted_at: datetime | None


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a run: the messages of the snapshot against the outcomes.

    `differences` say in words what does not add up. An account without differences adds up.
    `settled` messages kept the outcome of an earlier run.
    `not_selected` messages are not among the outcomes: the run was for named messages, and these
    were not named.
    """

    messages: int
    outcomes: Mapping[Outcome, int]
    last_browse: Sighting | None
    differences: tuple[str, ...]
    settled: int = 0
    not_selected: int = 0

    @property
    def selected(self) -> int:
        return self.messages - self.not_selected

    @property
    def booked(self) -> int:
        """How many messages are accounted for."""
        return sum(self.outcomes.values()) + self.not_selected

    @property
    def adds_up(self) -> bool:
        """Whether every message is accounted for, and the queue agrees."""
        return not self.differences


@dataclass(frozen=True, slots=True)
class RuleTarget(Decision):
    """A rule with its action on a target; `line` and `text` are the table's own."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class RuleRow(RuleTarget):
    """How many messages a rule's action on a target ended in one outcome."""

    outcome: Outcome
    messages: int


@dataclass(frozen=True, slots=True)
class FailedRule(RuleTarget):
    """A rule that no outcome belongs to, because all its attempts on a target failed.

    `reasons` counts the attempts by the reason code of their failure, 0 if there is none.
    """

    messages: int
    attempts: int
    reasons: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """Dead letters of one cause, and how they ended.

    `dest_q_name` is generalized, such as ``AMQ.*``; `queues` is the number of different names.
    The destinations beyond the limit are one group for each reason: their `dest_q_name` is None,
    and their `cause_id` is "".
    """

    cause_id: str
    reason: int
    reason_text: str
    meaning: str
    kind: str
    dest_q_name: str | None
    dest_q_mgr_name: str
    queues: int
    messages: int
    outcomes: Mapping[Outcome, int]
    first_at: datetime | None
    last_at: datetime | None

    @property
    def cause(self) -> Cause:
        names = (self.dest_q_name, self.dest_q_mgr_name)
        return Cause(MessageClass.DEAD_LETTER, self.reason, *names)


@dataclass(frozen=True, slots=True)
class Tried(Decision):
    """One attempt on one message; `reason_text` is "" where it did not fail."""

    line: int
    state: AttemptState
    reason: int
    reason_text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFacts:
    """The facts of a message alone; `cls` is None where the lake has no row of it.

    `message_key` and `msg_id` are hexadecimal digits. `reason` is the MQDLH's, 0 where there is no
    MQDLH; `since` is when the message was dead-lettered or, where nothing says that, put.
    `put_appl_name` and `user_identifier` are the MQMD's, `format` is that of the application data:
    the MQDLH's, or the MQMD's without an MQDLH. `total_length` is in bytes.
    """

    browse_seq: int
    message_key: str
    msg_id: str
    cls: MessageClass | None
    problem: str
    reason: int
    dest_q_name: str
    dest_q_mgr_name: str
    dead_lettered_at: datetime | None
    since: datetime | None
    put_appl_name: str
    user_identifier: str
    format: str
    total_length: int

    def facts(self) -> dict[str, Any]:
        """Return these facts by name, for another record about the same message."""
        return {field.name: getattr(self, field.name) for field in fields(MessageFacts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow(MessageFacts):
    """A message that needs attention: what is wrong with it, what was tried, what to do next.

    `outcome` is None where it has none. `command` acts on this message alone, in a POSIX shell; it
    is "" if no command helps.
    """

    outcome: Outcome | None
    reason_text: str
    cause: str
    cause_id: str
    why: str
    why_code: str
    next_step: str
    tried: tuple[Tried, ...]
    command: str = ""


@dataclass(frozen=True, slots=True)
class TriedGroup:
    """Equal attempts on several messages; `attempts` is the number for each message."""

    first: Tried
    attempts: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class MessageGroup:
    """Messages in the same trouble: the first speaks for all, but for browse_seqs and times.

    `browse_seqs` lists them in words, `rows` has some in full. With `is_mixed` they share only the
    outcome and the reason code, since there were too many groups. `command` acts on all of them; it
    is "" if there are too many for a command, or no command helps.
    """

    first: MessageRow
    messages: int
    browse_seqs: str
    rows: tuple[MessageRow, ...]
    tried: tuple[TriedGroup, ...]
    is_mixed: bool = False
    command: str = ""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The seconds from arrival to departure of the messages that departed in a run."""

    median_s: float
    p90_s: float


@dataclass(frozen=True, slots=True)
class ExpiringCause:
    """Messages of one cause that expire soon: their number, and when the first one does.

    `cause` is in words, with the destination.
    """

    cause_id: str
    cause: str
    messages: int
    first_at: datetime


@dataclass(frozen=True, slots=True)
class Expiry:
    """The messages that expire before the next run, and messages gone at their expiry.

    `until` is when the handler's schedule starts the next run after this one, or a day after this
    run if no clock starts it (`has_schedule`). `first_at` is None without messages; `causes` begin
    with the largest. `expired` is the number of messages that the previous run left, whose expiry
    has passed since and that are not in this run's snapshot: they expired, or another application
    took them; None if that is unknown. `new` messages were not in the forecast of the previous run.
    """

    until: datetime
    has_schedule: bool
    messages: int
    first_at: datetime | None
    causes: tuple[ExpiringCause, ...]
    expired: int | None
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReading:
    """The verdict of a run, its account, and the counts behind them, for report and page alike.

    `learned` has the outcomes that this run corrected for earlier runs, and later runs for this
    one. `ramps` has the ramps and breakers of the run's causes, `returns` the messages that came
    back and are not quarantined on this queue, `evidence` the checks of the queue by other records,
    `repairs` the changes of a run with a repair.
    """

    verdict: Verdict
    headline: str
    why: str
    account: Account | None
    rules: tuple[RuleRow, ...]
    failed_rules: tuple[FailedRule, ...]
    learned: tuple[LearnedCount, ...]
    timeline: tuple[AttemptCount, ...]
    attempts: Mapping[AttemptState, int]
    ramps: tuple[RampRow, ...]
    returns: tuple[ReturnRow, ...]
    repairs: tuple[RepairRow, ...]
    evidence: tuple[EvidenceCheck, ...]

    def reading(self) -> dict[str, Any]:
        """Return these values by name, for a record that has more of the same run."""
        return {field.name: getattr(self, field.name) for field in fields(RunReading)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(RunReading):
    """Everything a report shows; `run` is None, in the JSON empty, if the ledger has no such run.

    `ended_at` is the time of the last fact that the ledger has of the run. `stages` are the states
    Airflow gave the stages before this one, `failures` say why stages failed, `troubles` what could
    not be read for this report. Of the messages that need attention, `needs_attention` is the
    number, `attention_groups` has all of them by trouble, and `attention_messages` lists some in
    full. `without_outcome`, `unaccounted_groups` and `unaccounted` do the same for messages without
    an outcome. `more` says how many messages are not listed, and which command lists them all; it
    is "" if all are listed. `oldest_left` is the time since when the oldest remaining message is on
    the queue. `resolution` is None if no message departed. `expiry` is None without a snapshot, and
    for a run for named messages.
    """

    run_id: str
    run: Run | None
    ended_at: datetime | None
    stages: Mapping[str, str]
    failures: tuple[Failure, ...]
    troubles: tuple[str, ...]
    snapshot: TakenSnapshot | None
    plan: PlanFacts | None
    causes: tuple[CauseGroup, ...]
    needs_attention: int
    attention_groups: tuple[MessageGroup, ...]
    attention_messages: tuple[MessageRow, ...]
    without_outcome: int
    unaccounted_groups: tuple[MessageGroup, ...]
    unaccounted: tuple[MessageRow, ...]
    more: str
    oldest_left: datetime | None
    written_at: datetime
    resolution: Resolution | None = None
    expiry: Expiry | None = None

    @property
    def duration_s(self) -> float:
        if self.run is None or self.ended_at is None:
            return 0.0
        return (self.ended_at - self.run.started_at).total_seconds()

    @property
    def failed(self) -> bool:
        return self.verdict is Verdict.FAILED

    @property
    def next_steps(self) -> str:
        """What to do about the failures of stages, "" if nothing is known."""
        return "; ".join(dict.fromkeys(one.next_step for one in self.failures if one.next_step))
