"""Tables of runs: what each was given, what it saw, planned and asked, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, String, Table

from mqdlq.failures import Failure
from mqdlq.ledger.tables.columns import (
    TYPES,
    Digest,
    HandlerName,
    ObjectName,
    RunId,
    UtcDateTime,
    at,
    columns,
    metadata,
    of_run,
    seq,
    table,
)
from mqdlq.ledger.tables.messages import Decision
from mqdlq.model import GIVEN_ACTION, Outcome, QueueKind


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a handler, with the rules it read at its start; they hold to its end.

    `wait_s` is WAIT in seconds: 0 for NO, None for YES. `carry_attempts` says that attempts made
    by earlier runs count (see DESIGN, "Attempts"), `nul_as_blank` that the rules take NULs for
    blanks. `hold_while_blocked` keeps attempts while a destination is blocked, `deliver_truncated`
    delivers what may have been cut, `max_messages_per_unit` bounds a unit of work per destination.
    `message_keys` (hex) are the only messages to act on; none means all. `started_by` is who or
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
    run_type: Annotated[str, String(50)]
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
    max_plan_age_s: int = 86_400
    message_keys: tuple[str, ...] = ()
    started_by: str = ""
    started_by_user: str = ""
    why: str = ""
    controls: str = "{}"
    queue_kind: QueueKind = QueueKind.DEAD_LETTER
    repair: str = ""

    @property
    def has_given_action(self) -> bool:
        """Whether one action is given for the named messages, in place of a rules table."""
        return self.rules_source == GIVEN_ACTION

    @property
    def named(self) -> frozenset[bytes]:
        """The keys in `message_keys` as the snapshot holds them; empty where all are meant."""
        return frozenset(bytes.fromhex(key) for key in self.message_keys)


runs = table(
    "runs",
    Run,
    Column("run_id", String(250), primary_key=True),
    Index("runs_of_a_queue", "handler", "queue_manager", "queue", "started_at"),
)

failures = table(
    "failures",
    Failure,
    seq(),
    Column("run_id", String(250), nullable=False, index=True),
    Column("handler", String(100), nullable=False, index=True),
    Column("task", String(250), nullable=False),
    Column("error_id", String(20), nullable=False),
    at(),
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


looks = table("looks", Look, seq(), of_run(nullable=False, index=True))


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """A snapshot that a run works on: where it is, and how many messages it has.

    `settled` of them have compact rows.
    """

    run_id: RunId
    snapshot_id: Annotated[str, String(100)]
    location: str
    messages: int
    taken_at: datetime
    settled: int = 0


snapshots = table(
    "snapshots", TakenSnapshot, of_run(primary_key=True), Column("pruned_at", UtcDateTime)
)
"""`pruned_at` is when the retention settings removed it from the lake, null while it is there."""

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


@dataclass(frozen=True, slots=True)
class AcceptedPlan:
    """The plan that a run acts by, and where it is."""

    run_id: RunId
    plan_id: Annotated[str, String(150)]
    plan_hash: Digest
    location: str
    accepted_at: datetime


plans = table("plans", AcceptedPlan, of_run(primary_key=True))


@dataclass(frozen=True, slots=True)
class Approval:
    """The question about a plan, and the answer, if there is one.

    `decision` is "asked", "approved" or "rejected", `who` the person who answered ("nobody" for a
    silence that counts as an answer), `guards` the names of the guards that asked, `why` the
    comment of the person.
    """

    plan_hash: Digest
    guards: tuple[str, ...]
    decision: Annotated[str, String(10)]
    who: str
    at: datetime
    why: str = ""


approvals = table("approvals", Approval, seq(), of_run(nullable=False, index=True))

passes = Table(
    "passes",
    metadata,
    seq(),
    of_run(nullable=False, index=True),
    at("started_at"),
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
    "sightings", Sighting, of_run(primary_key=True), Column("oldest_left", UtcDateTime)
)
"""`oldest_left` is the time since when the oldest remaining message is on the queue.

The report finds it; null: none.
"""


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """The verdict of a run's report, and its numbers, so that a list of runs need not count.

    `verdict`, `headline` and `why` are those of the report. `messages` (of the snapshot) and
    `adds_up` are None without a snapshot. `attention` messages need attention. The times are those
    from arrival to departure of the messages that departed, in seconds, None if none did.
    """

    verdict: Annotated[str, String(20)]
    headline: str
    why: str
    messages: int | None
    adds_up: bool | None
    attention: int
    resolution_median_s: float | None
    resolution_p90_s: float | None
    at: datetime


verdicts = table("verdicts", RecordedVerdict, seq(), of_run(nullable=False, index=True))
"""A report written again adds a row: the last one counts."""

verdict_outcomes = Table(
    "verdict_outcomes",
    metadata,
    Column("verdict_seq", ForeignKey("verdicts.seq"), primary_key=True),
    of_run(nullable=False, index=True),
    Column("outcome", TYPES[Outcome], primary_key=True),
    *columns(Decision, key=True),
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
