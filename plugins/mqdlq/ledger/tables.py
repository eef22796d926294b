"""The ledger's tables, each declared once, with the records of their rows.

`mqdlq.ledger.migrations` makes them and the views in a database, one revision for each change. A
test fails where a table or the columns of a view declared here differ from what the revisions make.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple, Self

import sqlalchemy as sa

from mqdlq.causes import Cause
from mqdlq.failures import Failure
from mqdlq.ledger.columns import (
    CauseId,
    Digest,
    HandlerName,
    ObjectName,
    RunId,
    column,
    columns,
    refer_to,
    seq,
    table,
    views,
)
from mqdlq.model import (
    GIVEN_ACTION,
    Action,
    AttemptState,
    AuditKind,
    ChangeKind,
    Disposition,
    MessageClass,
    Outcome,
    QueueKind,
    RampPhase,
    RestorationState,
    WorkNumber,
)
from mqdlq.reasons import Reason, Why

SnapshotId = Annotated[str, sa.String(100)]

# Runs: what each was given, what it saw, planned and asked, and how it ended.


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a handler, with the rules it read at its start; they hold to its end.

    `wait_s` is WAIT in seconds: 0 for NO, None for YES. `carry_attempts` says that attempts made
    by earlier runs count (see DESIGN, "Attempts"), `nul_as_blank` that the rules take NULs for
    blanks. `hold_while_blocked` keeps attempts while a destination is blocked, `deliver_truncated`
    delivers what may have been cut, `max_messages_per_unit` bounds a unit of work per destination,
    and `connections` move messages side by side.
    `message_keys` (hex) are the only messages to act on, or those that meet `condition` (see
    `mqdlq.lake.filters.parse_where`); with neither it acts on all. With `as_of`, the id of a
    snapshot, the condition is for the messages in that one. `started_by` is who or
    what has started it, in words: "alice in Airflow", "the schedule"; "" for a run of a version
    that did not record it. `started_by_user` is the name of the user as Airflow knows it, "" where
    no user has started the run or the user is not known. `why` is the reason or ticket given.
    `controls` is JSON: the controls of the handler when the run started.
    `queue_kind` says which messages the rules act on. `repair` is JSON: what the run changes of the
    messages that its given action puts, "" for nothing.
    """

    run_id: RunId
    handler: HandlerName
    dag_run_id: RunId
    run_type: Annotated[str, sa.String(50)]
    queue_manager: ObjectName
    queue: ObjectName
    state_queue: ObjectName
    rules_source: str
    rules_digest: Digest
    rules_text: str
    retry_interval_s: int
    wait_s: int | None
    carry_attempts: bool
    dry_run: bool
    max_run_time_s: int
    started_at: datetime
    nul_as_blank: bool = False
    hold_while_blocked: bool = False
    deliver_truncated: bool = False
    max_messages_per_unit: int = 128
    connections: int = 1
    max_plan_age_s: int = 86_400
    message_keys: tuple[str, ...] = ()
    started_by: str = ""
    started_by_user: str = ""
    why: str = ""
    controls: str = "{}"
    queue_kind: QueueKind = QueueKind.DEAD_LETTER
    repair: str = ""
    condition: str = ""
    as_of: SnapshotId = ""

    @property
    def is_for_some(self) -> bool:
        """Whether the run is for some messages of its queue, not for all."""
        return bool(self.message_keys or self.condition)

    @property
    def meant(self) -> str:
        """The messages that the run is for, in words; "" for all."""
        if self.condition:
            since = f" in snapshot {self.as_of}" if self.as_of else ""
            return f"the messages{since} with {self.condition}"
        return f"{len(self.message_keys):,} named messages" if self.message_keys else ""

    @property
    def limit_at(self) -> datetime:
        """When `max_run_time` ends: the run then begins no further pass."""
        return self.started_at + timedelta(seconds=self.max_run_time_s)

    @property
    def has_given_action(self) -> bool:
        """Whether one action is given for some messages, in place of a rules table."""
        return self.rules_source == GIVEN_ACTION

    @property
    def named(self) -> frozenset[bytes]:
        """The keys in `message_keys` as the snapshot holds them."""
        return frozenset(bytes.fromhex(key) for key in self.message_keys)


runs = table(
    "runs",
    Run,
    sa.Column("run_no", sa.Integer, primary_key=True),
    column("run_id", RunId, unique=True),
    sa.Index("runs_of_a_queue", "handler", "queue_manager", "queue", "started_at"),
)

"""Tables with rows for each message refer to a run by its number, which takes less room."""

failures = table(
    "failures",
    Failure,
    seq(),
    column("run_id", RunId, index=True),
    column("handler", HandlerName, index=True),
    column("task", RunId),
    column("error_id", Annotated[str, sa.String(20)]),
    column("at", datetime),
)
"""Why attempts of tasks failed. The run of a failed `sense` need not be in `runs`.

A restoration has its failures here, too, by its id.
"""


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a queue that a run saw: whether there was work, and the reason in words.

    `max_depth` is MAXDEPTH, None if the queue was not inquired.
    """

    depth: int
    is_work: bool
    why: str
    at: datetime
    max_depth: int | None = None


looks = table("looks", Look, seq(), refer_to("runs.run_id", index=True))


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """A snapshot that a run works on: where it is, and how many messages it has.

    `settled` of them have compact rows. `absent` messages that the run is for were on the queue no
    more.
    """

    run_id: RunId
    snapshot_id: SnapshotId
    location: str
    messages: int
    taken_at: datetime
    settled: int = 0
    absent: int = 0


snapshots = table(
    "snapshots",
    TakenSnapshot,
    refer_to("runs.run_id", primary_key=True),
    column("pruned_at", datetime | None),
)
"""`pruned_at` is when the retention settings removed it from the lake, null while it is there."""

causes = table(
    "causes",
    None,
    refer_to("runs.run_id", primary_key=True),
    column("reason", int, key=True),
    column("cause_id", CauseId, key=True, index=True),
    column("message_class", Annotated[str, sa.String(30)]),
    column("dest_q_name", ObjectName | None),
    column("dest_q_mgr_name", ObjectName),
    column("messages", int),
    column("settled", int),
    column("queues", int | None),
    column("first_at", datetime | None),
    column("last_at", datetime | None),
)
"""Why the messages of a run's snapshot are dead letters, by cause.

A row without `cause_id` and `dest_q_name` has messages of several destinations.
"""


@dataclass(frozen=True, slots=True)
class CauseNumbers:
    """The messages of one cause on a queue, when a run last looked at the queue.

    The row of a run for the whole queue has the `messages` on it, of which `attention` need
    attention and `expiring` expire within a day after the look, the first at `expires_at`. The row
    of a later run for some messages has by how many its account changed them, which may be less
    than 0. `oldest_at` is when the oldest of them was dead-lettered, `first_at` and `last_at` are
    the times of the first and the last message of the cause that is known. `applications` are
    JSON: messages by the name of the application that put them, the most frequent ones.
    """

    message_class: Annotated[str, sa.String(30)]
    reason: int
    cause_id: CauseId
    dest_q_name: ObjectName | None
    dest_q_mgr_name: ObjectName
    messages: int = 0
    attention: int = 0
    expiring: int = 0
    expires_at: datetime | None = None
    oldest_at: datetime | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    applications: str = "{}"

    @property
    def cause(self) -> Cause:
        cls = MessageClass(self.message_class)
        return Cause(cls, self.reason, self.dest_q_name, self.dest_q_mgr_name)


cause_numbers = table(
    "cause_numbers",
    CauseNumbers,
    refer_to("runs.run_id", primary_key=True),
    column("reason", int, key=True),
    column("cause_id", CauseId, key=True),
    column("is_whole", bool),
    column("looked_at", datetime),
)
"""What is on each queue now, by cause: a later look at a queue replaces the rows of earlier ones.

A cause that has no message any more keeps its row for some weeks.
"""

arrivals = table(
    "arrivals",
    None,
    refer_to("runs.run_no", primary_key=True),
    column("cause_id", CauseId, key=True),
    column("hour", datetime, key=True, index=True),
    column("messages", int),
    sa.Index("arrivals_of_a_cause", "cause_id", "hour"),
    sqlite_with_rowid=False,
)
"""How many messages were dead-lettered in an hour, counted by the run that met them first.

A message is counted once, however many snapshots see it, and again if it was dead-lettered again.
Messages that came and went between two snapshots are not counted. Hours are kept for some days.
"""


@dataclass(frozen=True, slots=True)
class CauseChange:
    """A change of what people say of a cause: who made it, when, and to what `value`.

    The value is the text of a note, the number of a ticket, or the end of a mute. `messages` is how
    many messages of the cause were on all queues then.
    """

    cause_id: CauseId
    at: datetime
    who: str
    kind: ChangeKind
    value: str = ""
    messages: int = 0


cause_changes = table("cause_changes", CauseChange, seq(), column("cause_id", CauseId, index=True))
"""All changes: the last one of a kind of thing counts, and none is removed."""


@dataclass(frozen=True, slots=True)
class KnownDiagnosis:
    """A diagnosis of a cause on a handler's queue; it held from `first_at` until `last_at`.

    `found` is JSON of `mqdlq.diagnosis.Diagnosis`.
    """

    handler: HandlerName
    queue_manager: ObjectName
    queue: ObjectName
    cause_id: CauseId
    first_at: datetime
    last_at: datetime
    found: str

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.found)
        return record


diagnoses = table("diagnoses", KnownDiagnosis, seq(), column("cause_id", CauseId, index=True))
"""What diagnoses found: one that finds the facts of the last one extends its time."""


@dataclass(frozen=True, slots=True)
class AcceptedPlan:
    """The plan that a run acts by, and where it is."""

    run_id: RunId
    plan_id: Annotated[str, sa.String(150)]
    plan_hash: Digest
    location: str
    accepted_at: datetime


plans = table("plans", AcceptedPlan, refer_to("runs.run_id", primary_key=True))


@dataclass(frozen=True, slots=True)
class Approval:
    """The question about a plan, and the answer, if there is one.

    `decision` is "asked", "approved" or "rejected", `who` the person who answered ("nobody" for a
    silence that counts as an answer), `guards` the names of the guards that asked, `why` the
    comment of the person.
    """

    plan_hash: Digest
    guards: tuple[str, ...]
    decision: Annotated[str, sa.String(10)]
    who: str
    at: datetime
    why: str = ""


approvals = table("approvals", Approval, seq(), refer_to("runs.run_id", index=True))

passes = table(
    "passes", None, seq(), refer_to("runs.run_id", index=True), column("started_at", datetime)
)


@dataclass(frozen=True, slots=True)
class Sighting:
    """The counts of a run's last browse, compared with its bookings.

    `seen` messages of the run were on the queue; `returned` messages were on it although booked as
    departed; `arrived` messages were on it and are not the run's. `next_pass_at` is when the pass
    that the run left to the next run was due, None if it left none.
    """

    depth: int
    seen: int
    returned: int
    arrived: int
    at: datetime
    next_pass_at: datetime | None = None


sightings = table(
    "sightings",
    Sighting,
    refer_to("runs.run_id", primary_key=True),
    column("oldest_left", datetime | None),
)
"""`oldest_left` is the time since when the oldest remaining message is on the queue.

The report finds it; null: none.
"""


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """The verdict of a run's report, and its numbers, so that a list of runs need not count.

    `verdict`, `headline` and `why` are those of the report. `messages` (of the snapshot) and
    `adds_up` are None without a snapshot. `attention` messages need attention. The failures of
    `failed_tasks` are behind the verdict.
    """

    verdict: Annotated[str, sa.String(20)]
    headline: str
    why: str
    messages: int | None
    adds_up: bool | None
    attention: int
    at: datetime
    failed_tasks: tuple[str, ...] = ()


verdicts = table("verdicts", RecordedVerdict, seq(), refer_to("runs.run_id", index=True))
"""A report written again adds a row: the last one counts."""

alerts = table(
    "alerts",
    None,
    seq(),
    column("run_id", RunId, index=True),
    column("event", Annotated[str, sa.String(20)]),
    column("is_sent", bool),
    column("at", datetime),
)
"""Which alerts of a run were sent (`is_sent`), and which conditions last after it.

The run may have failed to start; then it is not in `runs`.
"""

# Messages: the attempts made on them, their outcomes, copies and restorations.


@dataclass(frozen=True, slots=True)
class Decision:
    """The rule that decided, its action and its target; `rule` is 0 where no rule decided."""

    rule: int
    action: Annotated[str, sa.String(10)]
    target_q: ObjectName
    target_q_mgr: ObjectName


@dataclass(frozen=True, slots=True)
class Ending(Decision):
    """How a message ended, or was left on the queue: its outcome, and what decided it."""

    outcome: Outcome

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Return what a compact row of a snapshot says of its message."""
        decided = row["rule"], row["action"], row["target_q"], row["target_q_mgr"]
        return cls(*decided, Outcome(row["outcome"]))


messages = table(
    "messages",
    None,
    sa.Column("message_id", sa.Integer, primary_key=True),
    column("queue_manager", ObjectName),
    column("queue", ObjectName),
    column("message_key", bytes),
    column("occurrence", int),
    column("residence", int),
    sa.UniqueConstraint("queue_manager", "queue", "message_key", "occurrence", "residence"),
)
"""`occurrence` counts equal keys in browse order from 0, `residence` returns to the queue."""

listed_messages = table(
    "listed_messages",
    None,
    refer_to("runs.run_no", primary_key=True),
    refer_to("messages.message_id", primary_key=True, index=True),
    column("browse_seq", int),
    column("disposition", Disposition),
    sqlite_with_rowid=False,
)

run_messages = sa.Table(
    "run_messages",
    views,
    refer_to(runs.c.run_id),
    refer_to(messages.c.message_id),
    column("browse_seq", int),
    column("disposition", Disposition),
)

leases = table(
    "leases",
    None,
    seq(),
    refer_to("messages.message_id", index=True),
    refer_to("runs.run_id", index=True),
    column("until", datetime),
)

HAS_CAUSE: Final = sa.text("cause_id <> ''")
"""The condition of the index of attempts by cause, which a query repeats word for word."""


@dataclass(frozen=True, slots=True)
class Attempt(Decision):
    """One try of one rule's action on one message, within the unit of work `unit`.

    `mqrc` is the reason code of a failed attempt, else 0. `cause_id` is the cause of the message if
    a control of the run acts by cause, else "".
    """

    action: Action
    unit: str
    run_id: str
    plan_id: Annotated[str, sa.String(150)]
    message_id: int
    message_key: bytes
    attempt_no: int
    state: AttemptState
    mqrc: int
    at: datetime
    cause_id: CauseId = ""


@dataclass(frozen=True, slots=True)
class AttemptLot(Decision):
    """What attempts of a unit of work have in common."""

    action: Action
    attempt_no: int
    cause_id: CauseId = ""


Try = tuple[AttemptLot, int]
"""An attempt to be added to a unit of work: what it has in common with others, and its message."""

units = table(
    "units",
    None,
    sa.Column("unit_no", sa.Integer, primary_key=True),
    column("unit", ObjectName, index=True),
    refer_to("runs.run_id", index=True),
    column("plan_id", Annotated[str, sa.String(150)]),
)
"""Units of work. Several may have one id: the ledger that wrote the first may be an older copy."""

attempt_lots = table(
    "attempt_lots",
    AttemptLot,
    refer_to("units.unit_no", primary_key=True),
    column("lot", int, key=True),
    column("messages", int),
    sa.Index(
        "attempts_of_a_cause",
        *("cause_id", "target_q", "target_q_mgr"),
        sqlite_where=HAS_CAUSE,
        postgresql_where=HAS_CAUSE,
    ),
    sqlite_with_rowid=False,
)
"""What the attempts of a unit of work have in common, with the number of their messages."""

attempt_messages = table(
    "attempt_messages",
    None,
    refer_to("units.unit_no", primary_key=True),
    column("place", int, key=True),
    column("lot", int),
    refer_to("messages.message_id", index=True),
    sqlite_with_rowid=False,
)
"""The messages of a unit of work, in the order in which it moves them."""

unit_states = table(
    "unit_states",
    None,
    seq(),
    refer_to("units.unit_no", index=True),
    refer_to("messages.message_id", nullable=True, index=True),
    column("state", AttemptState),
    column("mqrc", int),
    column("at", datetime),
)
"""Each change of the state of attempts is a separate row: those of a unit, or of one message.

Attempts that a unit makes together come to their states together; `message_id` is null then.
"""


def _attempts(name: str) -> sa.Table:
    return sa.Table(
        name,
        views,
        *(column("seq", int), column("place", int)),
        refer_to(runs.c.run_id),
        refer_to(messages.c.message_id),
        *columns(Attempt, without={"message_key", "message_id", "run_id"}),
    )


attempts = _attempts("attempts")
"""The attempts in each state they have come to; `seq` is that of the row in `unit_states`.

`place` is the place of an attempt in its unit of work.
"""

attempt_states = _attempts("attempt_states")
"""Each attempt in its current state."""

IS_DISCARDED: Final = sa.text("outcome = 'discarded'")
"""The condition of the index of discards; a query that has it word for word can use the index."""


@dataclass(frozen=True, slots=True)
class OutcomeFact(Ending):
    """How one message ended in one run, why and when."""

    message_id: int
    why: Reason
    at: datetime

    @property
    def is_only_dry_run(self) -> bool:
        """Whether nothing but the dry run kept the message's next step from being taken."""
        return self.outcome is Outcome.NOT_ATTEMPTED and self.why == Why.DRY_RUN()


outcome_lots = table(
    "outcome_lots",
    Ending,
    sa.Column("lot_id", sa.Integer, primary_key=True),
    refer_to("runs.run_no", index=True),
    column("why", Reason),
    column("at", datetime),
    column("messages", int),
    sa.Index(
        "outcomes_discarded",
        "run_no",
        sqlite_where=IS_DISCARDED,
        postgresql_where=IS_DISCARDED,
    ),
)
"""Outcomes that messages of a run have in common, with their number when they were booked."""

outcome_messages = table(
    "outcome_messages",
    None,
    refer_to("runs.run_no", primary_key=True),
    refer_to("messages.message_id", primary_key=True, index=True),
    refer_to("outcome_lots.lot_id", index=True),
    sqlite_with_rowid=False,
)
"""The one outcome of each message of a run."""

outcomes = sa.Table(
    "outcomes",
    views,
    refer_to(runs.c.run_id),
    refer_to(messages.c.message_id),
    *columns(OutcomeFact, without={"message_id"}),
)


@dataclass(frozen=True, slots=True)
class Correction:
    """How messages had ended in the run `of_run`, as the run `run_id` came to know.

    The earlier run had booked another outcome, since nothing proved this one then: the run `run_id`
    found the marker of the unit of work that moved them. The booked outcome stays.
    """

    of_run: str
    run_id: str
    outcome: Outcome
    target_q: ObjectName
    target_q_mgr: ObjectName


@dataclass(frozen=True, slots=True)
class LearnedCount(Correction):
    """A correction with the number of its messages."""

    messages: int


@dataclass(frozen=True, slots=True)
class Learned(Correction):
    """The correction of one message."""

    message_id: int
    at: datetime


learned = table(
    "learned",
    Learned,
    refer_to("runs.run_id", "of_run", primary_key=True),
    refer_to("messages.message_id", primary_key=True, index=True),
    refer_to("runs.run_id", index=True),
)

IS_LEARNED: Final = (learned.c.of_run == outcomes.c.run_id) & (
    learned.c.message_id == outcomes.c.message_id
)
"""The condition that a later run learned how a message ended that has this outcome."""

settled_lots = table(
    "settled_lots",
    Ending,
    sa.Column("lot_id", sa.Integer, primary_key=True),
    refer_to("runs.run_id", index=True),
    column("snapshot_id", Annotated[str, sa.String(100)]),
    column("needs_carry", bool),
)
"""Messages that a run settled in the same way; `needs_carry`: only if attempts carry on.

The snapshot has their full rows.
"""

settled_messages = table(
    "settled_messages",
    None,
    refer_to("settled_lots.lot_id", primary_key=True),
    refer_to("messages.message_id", primary_key=True, index=True),
)

settled_outcomes = table(
    "settled_outcomes",
    None,
    refer_to("runs.run_id", primary_key=True),
    column("outcome", Outcome, key=True),
    *columns(Decision, key=True),
    column("messages", int),
    column("at", datetime),
)
"""How many settled messages of a run's snapshot kept which outcome in the run."""

verdict_outcomes = table(
    "verdict_outcomes",
    None,
    refer_to("verdicts.seq", "verdict_seq", primary_key=True),
    refer_to("runs.run_id", index=True),
    column("outcome", Outcome, key=True),
    *columns(Decision, key=True),
    column("messages", int),
)
"""How many messages of a run had which outcome, as its report counted them."""

CopyId = tuple[str, int]
"""An archived copy: the run that made it, and the message it is of."""

archive = table(
    "archive",
    None,
    refer_to("runs.run_id", primary_key=True),
    refer_to("messages.message_id", primary_key=True, index=True),
    column("location", str),
    column("digest", Digest),
    column("at", datetime),
)


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

    restoration_id: RunId
    handler: HandlerName
    who: str = ""
    queue_manager: ObjectName = ""
    queue: ObjectName = ""
    state_queue: ObjectName
    run_id: RunId = ""
    message_keys: tuple[str, ...] = ()
    reason: int = 0
    to_queue: ObjectName = ""
    to_queue_manager: ObjectName = ""
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


restorations = table("restorations", Restoration, column("restoration_id", RunId, key=True))


@dataclass(frozen=True, slots=True)
class CopyState:
    """The state of one copy in a restoration; `mqrc` is the reason of a failed put, or 0."""

    run_id: RunId
    message_id: int
    state: RestorationState
    at: datetime
    unit: ObjectName = ""
    mqrc: int = 0
    why: Reason | None = None

    @property
    def key(self) -> CopyId:
        return self.run_id, self.message_id


restoration_states = table(
    "restoration_states",
    CopyState,
    seq(),
    refer_to("restorations.restoration_id", index=True),
    sa.ForeignKeyConstraint(["run_id", "message_id"], ["archive.run_id", "archive.message_id"]),
    sa.Index("restoration_states_of_a_copy", "run_id", "message_id"),
)
"""The states of a restoration's copies: each change is a separate row; the last one is current."""

# Controls that hold messages back or change them, and checks by evidence.


@dataclass(frozen=True, slots=True)
class EvidenceCheck:
    """One comparison of a queue with its evidence, over the time from `since` to `at`.

    `kind` is "stream" or "statistics", `source` the queue with the evidence. Of `examined` messages
    on a stream queue, `unseen` are in no snapshot; if not `is_exact`, this is the highest number
    possible. Of `examined` gets in statistics, `unseen` are more than runs made. `since` is None
    for the first check of a queue, which has nothing to compare. `trouble` says why the check was
    not made, or "". No outcome depends on a check.
    """

    kind: Annotated[str, sa.String(12)]
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
    refer_to("runs.run_id", primary_key=True),
    column("kind", Annotated[str, sa.String(12)], key=True),
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
    refer_to("messages.message_id", primary_key=True),
    column("identity", bytes, index=True),
)


@dataclass(frozen=True, slots=True)
class Meter:
    """The subject of a rate (a handler, a queue manager or a queue) and its unit."""

    subject: Annotated[str, sa.String(200)]
    unit: Annotated[str, sa.String(10)]


class Rate(NamedTuple):
    """A limit: the number in a second, and the number at once after a pause."""

    per_second: float
    burst: float


meters = table(
    "meters",
    Rate,
    *columns(Meter, key=True),
    column("handler", HandlerName),
    column("used_at", datetime),
    column("full_at", datetime),
    column("refused_run_id", RunId),
    column("refused_until", datetime),
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
    refer_to("runs.run_id", index=True),
    *columns(Subject),
    sa.Index("ramp_states_of_a_subject", *Subject._fields, "seq"),
)
"""Each change of a ramp or a breaker is a separate row; the last one of a subject is current."""


@dataclass(frozen=True, slots=True)
class MessageRepair:
    """The changes that a run makes to a message when it puts it, each from and to.

    The original destination is "" for a message without an MQDLH. `length` counts the bytes of the
    body. If it is replaced, `body_to` is the SHA-256 (hex) of the new one, and `length_to` its
    length. With a `refusal` the run leaves the message, and archives nothing.
    """

    message_id: int
    format_from: Annotated[str, sa.String(8)]
    format_to: Annotated[str, sa.String(8)]
    ccsid_from: int
    ccsid_to: int
    dest_q_from: ObjectName
    dest_q_mgr_from: ObjectName
    target_q: ObjectName
    target_q_mgr: ObjectName
    length: int
    refusal: Reason | None = None
    body_to: Digest = ""
    length_to: int = 0


repairs = table(
    "repairs",
    MessageRepair,
    refer_to("runs.run_id", primary_key=True),
    refer_to("messages.message_id", primary_key=True, index=True),
    column("at", datetime),
)
"""Recorded with the archive copy of the original message.

`archive` has the original and `attempts` the delivery under the same run and message.
"""

# Retention: legal holds, prunes, and what they removed.

holds = table(
    "holds",
    None,
    sa.Column("hold_id", sa.Integer, primary_key=True),
    column("handler", HandlerName),
    column("run_id", RunId),
    column("message_key", bytes | None),
    column("reason", str),
    column("who", str),
    column("at", datetime),
)
"""Legal holds, each on one handler, one run or one message; the other two are "" or null."""

released_holds = table(
    "released_holds",
    None,
    refer_to("holds.hold_id", primary_key=True),
    column("reason", str),
    column("who", str),
    column("at", datetime),
)
"""The holds that no longer apply, with the person who removed them and the reason."""


@dataclass(frozen=True, slots=True)
class Prune:
    """A prune by the policy of a handler, in words; `who` is a person or "the schedule"."""

    handler: HandlerName
    policy: str
    who: str
    at: datetime


prunes = table(
    "prunes",
    Prune,
    sa.Column("prune_id", sa.Integer, primary_key=True),
    column("trusted_until", datetime | None),
)

pruned_copies = table(
    "pruned_copies",
    None,
    column("run_id", RunId, key=True),
    column("message_id", int, key=True),
    refer_to("prunes.prune_id"),
    sa.ForeignKeyConstraint(["run_id", "message_id"], ["archive.run_id", "archive.message_id"]),
)
"""The archive copies that a prune removes; written before the file changes."""

pruned_files = table(
    "pruned_files",
    None,
    refer_to("prunes.prune_id", primary_key=True),
    sa.Column("location", sa.Text, primary_key=True),
    column("at", datetime),
)
"""The files of the archive from which a prune has removed its copies; written afterwards."""

_KEPT_OF_RUN: Final = (
    *("handler", "run_type", "queue_manager", "queue", "rules_digest"),
    *("dry_run", "started_by", "started_at", "why"),
)

pruned_runs = table(
    "pruned_runs",
    None,
    column("run_id", RunId, key=True),
    refer_to("prunes.prune_id"),
    *(sa.Column(name, runs.c[name].type, nullable=False) for name in _KEPT_OF_RUN),
    column("closed_at", datetime | None),
)
"""The runs that a prune removes; written before their rows and files go.

The prune of a run that is still in `runs` has not finished. `closed_at` is when the run closed its
account, null if it had none because it found no work.
"""


pruned_outcomes = table(
    "pruned_outcomes",
    None,
    refer_to("pruned_runs.run_id", primary_key=True),
    column("is_settled", bool, key=True),
    column("outcome", Outcome, key=True),
    *columns(Decision, key=True),
    column("messages", int),
)
"""How many messages of a pruned run had which outcome, corrections by later runs included.

`is_settled` counts the settled messages of its snapshot.
"""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One event: a person or program, what they did, when and why.

    `message_key` is hex, "" if the event concerns no single message. `messages` is the number of
    messages that the event concerns, 0 if it concerns none. `details` are words for people; they
    never have the content of a message, but the words that a person searched for in bodies.
    """

    at: datetime
    what: AuditKind
    who: str
    handler: HandlerName = ""
    run_id: str = ""
    message_key: str = ""
    messages: int = 0
    why: str = ""
    details: str = ""


audit = table(
    "audit",
    AuditEvent,
    seq(),
    column("at", datetime, index=True),
    column("run_id", RunId, index=True),
    column("message_key", bytes | None, index=True),
)
"""Events that no other table records, and the approvals of pruned runs; rows are only added.

`run_id` refers to no row, so that a prune of the run leaves its events. `message_key` is null if
the event concerns no single message.
"""


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of the ledger: its last number, when work took it, and who began the epoch.

    `who` took on an older ledger; "" for the first epoch of a new one.
    """

    epoch: int
    name: Annotated[str, sa.String(16)]
    number: int
    began_at: datetime
    worked_at: datetime
    who: str = ""
    why: str = ""

    @property
    def last(self) -> WorkNumber:
        """The number of the last pass or restoration."""
        return WorkNumber(self.epoch, self.number, self.name)


epochs = table("epochs", Epoch, column("epoch", int, key=True))

metadata: Final = runs.metadata
"""All of these tables, without the views."""
