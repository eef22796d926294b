"""Read everything that a report says of a run into one frozen `Report`, before it is rendered.

All messages are counted and grouped while they are read once. No record holds a message's body.
Names from a message keep their control characters; the renderers make them visible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq import lake
from mqdlq.causes import CauseCounter, CountedCause, find_cause
from mqdlq.controls.evidence.report import evidence_in_words
from mqdlq.controls.loops.round_trips import ReturnRow, return_in_words, return_rows
from mqdlq.controls.ramp.report import RampRow, ramp_in_words, ramp_rows
from mqdlq.controls.repair.changes import RepairRow, repair_in_words, repair_rows
from mqdlq.diagnosis.records import diagnosed_in_words
from mqdlq.errors import HandlerError, LakeError
from mqdlq.evaluation.value_masks import Numbers
from mqdlq.failures import Failure, left_no_word
from mqdlq.handlers import load_handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.database import in_parts
from mqdlq.ledger.reading.later_outcomes import LaterReader, SinceSnapshot
from mqdlq.ledger.reading.run_messages import HANDLED, AttemptCount, Endings, RunCounts
from mqdlq.ledger.tables import (
    AuditEvent,
    EvidenceCheck,
    KnownDiagnosis,
    LearnedCount,
    RecordedVerdict,
    Run,
    Sighting,
    TakenSnapshot,
)
from mqdlq.model import DEPARTED, AttemptState, MessageClass, Outcome, Trait, Verdict
from mqdlq.reading.report.groups import GroupedMessages, MessageGroup
from mqdlq.reading.run import (
    Account,
    FailedRule,
    RuleRow,
    Sources,
    account_of,
    booked_outcomes,
    failed_rules,
    judge,
    over_time,
    read_sources,
    rule_rows,
)
from mqdlq.reading.run_messages import Message, MessageList, UnreadableError, messages_of
from mqdlq.words import count, moment, stop_in_words

STAGES: Final = ("sense", "snapshot", "evaluate", "approve", "execute", "retry")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReading:
    """The verdict of a run, its account, and the counts behind them, for report and page alike.

    Of the messages, `needs_attention` need it. `learned` has the outcomes that this run corrected
    for earlier runs, and later runs for this one. `ramps` has the ramps and breakers of the run's
    causes, `returns` the messages that came back and are not quarantined on this queue, `evidence`
    the checks of the queue by other records, `repairs` the changes of a run with a repair,
    `diagnoses` what was found in the way of causes on its queue since it started, `stopped` who
    asked the run to stop. With `is_reported`, verdict, headline and reason are those
    of the run's last report.
    """

    run_id: str
    sources: Sources
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
    diagnoses: tuple[KnownDiagnosis, ...]
    needs_attention: int
    stopped: AuditEvent | None
    is_reported: bool = False

    @property
    def run(self) -> Run | None:
        return self.sources.run

    def as_reported(self, recorded: RecordedVerdict) -> Self:
        verdict, headline, why = Verdict(recorded.verdict), recorded.headline, recorded.why
        return replace(self, verdict=verdict, headline=headline, why=why, is_reported=True)


@dataclass(frozen=True, slots=True)
class Expiry:
    """The messages that expire before the next run, and messages gone at their expiry.

    `until` is when the handler's schedule starts the next run after this one, or a day after this
    run if no clock starts it (`has_schedule`). `causes` begin with the largest; the first message
    of each expires at its `first_at`. `expired` is the number of messages that the previous run
    left, whose expiry has passed since and that are not in this run's snapshot: they expired, or
    another application took them; None if that is unknown. `new` messages were not in the forecast
    of the previous run.
    """

    until: datetime
    has_schedule: bool
    causes: tuple[CountedCause, ...]
    expired: int | None
    new: int

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.causes)

    @property
    def first_at(self) -> datetime | None:
        """When the first message expires, None without messages."""
        return min((one.first_at for one in self.causes if one.first_at), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(RunReading):
    """Everything a report shows.

    `ended_at` is the time of the last fact that the ledger has of the run. `stages` are the states
    Airflow gave the stages before this one, `failures` say why stages failed. Of the messages that
    need attention, `attention_groups` has all by trouble, and `attention_messages` lists some in
    full. `without_outcome`, `unaccounted_groups` and `unaccounted` do the same for messages without
    an outcome. `more` says how many messages are not listed, and which command lists them all; it
    is "" if all are listed. `oldest_left` is the time since when the oldest remaining message is on
    the queue. `expiry` is None if the run has no snapshot, or is for named messages.
    """

    ended_at: datetime | None
    stages: Mapping[str, str]
    failures: tuple[Failure, ...]
    causes: tuple[CountedCause, ...]
    attention_groups: tuple[MessageGroup, ...]
    attention_messages: tuple[Message, ...]
    without_outcome: int
    unaccounted_groups: tuple[MessageGroup, ...]
    unaccounted: tuple[Message, ...]
    more: str
    oldest_left: datetime | None
    written_at: datetime
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
        return "; ".join(dict.fromkeys(one.next_step for one in self.failures if one.next_step))

    @property
    def short(self) -> str:
        """Headline, reason and next step, as an alert has them."""
        steps = f"Next: {self.next_steps}" if self.next_steps else ""
        return "\n".join(filter(None, (self.headline, self.why, steps)))

    @property
    def adds_up(self) -> bool:
        """Whether the account adds up; one that no last browse has closed says nothing."""
        account = self.account
        return account is None or account.last_browse is None or account.adds_up

    @property
    def expiring(self) -> str:
        """Which messages expire before the next run, in words; "" if none does."""
        return expiry_in_words(self.expiry)

    @property
    def breakers(self) -> tuple[str, ...]:
        """The open breakers, in words."""
        return tuple(ramp_in_words(row) for row in self.ramps if row.is_open)

    @property
    def reasons(self) -> Counter[int]:
        """How many messages of the snapshot have which reason in their MQDLH, 0 without one."""
        counted: Counter[int] = Counter()
        for group in self.causes:
            counted[group.cause.reason] += group.messages
        if self.sources.snapshot is not None and not self.sources.troubles:
            counted[0] += self.sources.snapshot.messages - counted.total()
        return +counted

    @property
    def attention(self) -> Counter[Outcome]:
        """How many messages with which outcome need attention."""
        counted: Counter[Outcome] = Counter()
        for group in self.attention_groups:
            if group.first.outcome is not None:
                counted[group.first.outcome] += group.messages
        return counted


def read_report(
    run_id: str,
    *,
    ledger: Ledger,
    lake_root: str,
    stages: Mapping[str, str],
    failures: Sequence[Failure] = (),
    now: datetime,
    since: SinceSnapshot | None = None,
) -> Report:
    """Read everything there is to say of a run; a run nobody recorded has a report too.

    With `since`, the messages that need attention are those of today: later runs settled others.

    `lake_root` is where a plan is looked for that was never accepted.

    `stages` are the states of the stages before the report, as Airflow names them ("success",
    "failed", "upstream_failed", "skipped"); `failures` say why stages failed. A failed stage
    without a failure has left no word, and one that did not run because of it needs none.
    """
    stages = ordered(stages)
    sources, gathered = gather(read_sources(run_id, ledger, lake_root), ledger, since)
    counts = ledger.run_messages.counts(run_id)
    failures = all_failures(stages, failures)
    attention, unaccounted = gathered.attention, gathered.unaccounted
    # A run that failed before it touched anything has nothing to account for.
    is_untouched = not (sources.attempted or counts.booked or sources.sighting)
    account = None
    if not (failures and is_untouched):
        account = account_of(sources, counts, unaccounted.browse_seqs)
    elif sources.snapshot is not None:
        unaccounted = GroupedMessages()  # their causes are listed, and none is missing
    how = {"stages": stages, "failures": failures, "attention": attention.messages}
    listed, missing = attention.rows(), unaccounted.rows()
    return Report(
        **_reading(run_id, sources, counts, account, ledger, **how),
        ended_at=_last_fact(sources, counts.last_at),
        stages=stages,
        failures=failures,
        causes=tuple(gathered.causes.counted()),
        attention_groups=attention.groups(),
        attention_messages=listed,
        without_outcome=unaccounted.messages,
        unaccounted_groups=unaccounted.groups(),
        unaccounted=missing,
        more=_more(run_id, attention.messages + unaccounted.messages, len(listed) + len(missing)),
        oldest_left=gathered.oldest_left,
        written_at=now,
        expiry=gathered.expiry.result(_count_expired(sources, ledger)) if gathered.expiry else None,
    )


def summarize_run(run_id: str, ledger: Ledger, lake_root: str) -> RunReading:
    """Summarize a run that the ledger has by counts alone; no message is read one by one.

    The last report knew the states of the run's tasks: its verdict, headline and reason stay.
    """
    sources, counts = read_sources(run_id, ledger, lake_root), ledger.run_messages.counts(run_id)
    recorded = ledger.accounts.verdict_of(run_id)
    account = None
    if recorded is None or recorded.adds_up is not None:
        missing = MessageList(sources, ledger).without_outcome(counts)
        account = account_of(sources, counts, missing)
    booked, open_ones = booked_outcomes(sources, counts), Outcome.having(Trait.NEEDS_ATTENTION)
    attention = sum(booked[one] - counts.known_since[one] for one in open_ones)
    attention -= counts.only_dry_run.total()
    how = {"stages": {}, "failures": (), "attention": attention}
    found = RunReading(**_reading(run_id, sources, counts, account, ledger, **how))
    return found if recorded is None else found.as_reported(recorded)


def _reading(
    run_id: str,
    sources: Sources,
    counts: RunCounts,
    account: Account | None,
    ledger: Ledger,
    **how: Any,
) -> dict[str, Any]:
    """Return the values of a `RunReading` by name; `how` are the arguments of `judge`."""
    verdict, headline, why = judge(sources, counts, account, **how)
    tried = ledger.run_messages.tried(run_id)
    rules = rule_rows(counts.booked, sources)
    states: Counter[AttemptState] = Counter()
    for one in tried:
        states[one.state] += one.attempts
    settled_at = sources.sighting.at if sources.sighting is not None else None
    return {
        "run_id": run_id,
        "sources": sources,
        "verdict": verdict,
        "headline": headline,
        "why": why,
        "account": account,
        "rules": rules,
        "failed_rules": tuple(failed_rules(tried, rules, sources, ledger)),
        "learned": tuple(ledger.outcomes.learned_counts(run_id)),
        "timeline": over_time(tried, sources.attempted),
        "attempts": {state: states[state] for state in AttemptState if states[state]},
        "ramps": ramp_rows(sources.run, ledger, settled_at),
        "returns": return_rows(sources.run, ledger),
        "repairs": repair_rows(sources.run, ledger),
        "evidence": tuple(ledger.evidence.of_run(run_id)),
        "diagnoses": tuple(ledger.diagnoses.since_start(sources.run)) if sources.run else (),
        "needs_attention": how["attention"],
        "stopped": ledger.audit.stop_of(run_id),
    }


def control_lines(run: RunReading) -> list[tuple[str, list[str]]]:
    """Return what a report says of the controls of a run: the title and lines of each section."""
    stop = run.stopped
    return [
        ("Stopped", [stop_in_words(stop)] if stop else []),
        ("Came back", [return_in_words(row) for row in run.returns]),
        ("Ramps and breakers", [ramp_in_words(row) for row in run.ramps]),
        ("Repairs", [repair_in_words(row) for row in run.repairs]),
        ("Evidence", [evidence_in_words(one) for one in run.evidence]),
        ("Diagnosis", [diagnosed_in_words(one) for one in run.diagnoses]),
    ]


def all_failures(stages: Mapping[str, str], failures: Sequence[Failure]) -> tuple[Failure, ...]:
    """Return why each failed stage failed, in the order of the run; `failures` are those known."""
    known = {failure.task: failure for failure in failures}
    states = ("failed", "upstream_failed")
    found = ([name for name in stages if stages[name] == state] for state in states)
    failed = next(filter(None, found), [])
    rest = [failure for failure in failures if failure.task not in stages]
    return (*(known.get(name) or left_no_word(name) for name in failed), *rest)


def ordered(stages: Mapping[str, str]) -> dict[str, str]:
    """Return the states of stages in the order of the run, other tasks last."""
    names = sorted(
        stages, key=lambda one: (STAGES.index(one) if one in STAGES else len(STAGES), one)
    )
    return {name: str(stages[name] or "none") for name in names}


def _more(run_id: str, messages: int, listed: int) -> str:
    if listed >= messages:
        return ""
    rest = count(messages - listed, "message")
    return (
        f"{rest} more of {messages:,} {'is' if messages - listed == 1 else 'are'} counted here but"
        f" not listed: `mqdlq report {run_id} --needs-attention` lists all of them."
    )


def _last_fact(sources: Sources, last_outcome: datetime | None) -> datetime | None:
    run, snapshot, plan, sighting = sources.run, sources.snapshot, sources.plan, sources.sighting
    times = (
        run.started_at if run else None,
        snapshot.taken_at if snapshot else None,
        plan.accepted_at if plan else None,
        sighting.at if sighting else None,
        sources.attempted[1] if sources.attempted else None,
        last_outcome,
    )
    return max((at for at in times if at is not None), default=None)


# The messages, counted and grouped one by one.


_CAUSE: Final = ("class", "dlh_reason", "dlh_dest_q_name", "dlh_dest_q_mgr_name")
_COUNTED: Final = ("kind", "since", "place")


class Gathered:
    """The messages of a run, counted and grouped; those that the run handled are not kept.

    The `handled` ones are counted in columns of batches, if there may be many, the others one by
    one. `full_rows` counts the snapshot's full rows. `attention` has the messages that need
    attention, `unaccounted` those without an outcome.
    """

    def __init__(self, expiry: ExpiryForecast | None, handled: Endings | None) -> None:
        facts = handled.facts if handled else ()
        self._outcomes = [*dict.fromkeys(fact.outcome for fact in facts)]
        # The last ones belong to the number -1.
        self._kinds = np.array([*(self._outcomes.index(fact.outcome) for fact in facts), -1])
        self.expiry = expiry
        self.causes = CauseCounter()
        self.attention = GroupedMessages()
        self.unaccounted = GroupedMessages()
        self.full_rows = 0
        self.oldest_left: datetime | None = None

    def add(self, message: Message) -> None:
        outcome, fact = message.outcome, message.fact
        self.full_rows += message.cls is not None and not message.is_settled
        if message.cls is MessageClass.DEAD_LETTER:
            names = (message.dest_q_name, message.dest_q_mgr_name)
            cause = find_cause(message.cls, message.reason, *names)
            self.causes.add(cause, names[0], message.since, outcome)
        if not message.is_known_since and outcome not in DEPARTED:  # it remains on the queue
            if self.expiry is not None:
                self.expiry.add(message)
            if message.since is not None:
                self.oldest_left = min(self.oldest_left or message.since, message.since)
        if message.needs_attention:
            self.attention.add(message)
        if fact is None:
            self.unaccounted.add(message)

    def take(self, rows: pa.RecordBatch, numbers: Numbers) -> None:
        """Count the messages of a batch whose endings have a number; there may be a million.

        The causes of the others are met, too, in their order: a counter has room for so many.
        """
        since = pc.coalesce(rows.column("dead_lettered_at"), rows.column("put_at"))
        columns = [*(rows.column(name) for name in _CAUSE), self._kinds[numbers], since]
        self._count_causes(pa.table([*columns, np.arange(len(rows))], [*_CAUSE, *_COUNTED]))
        self.full_rows += int((numbers >= 0).sum())

    def _count_causes(self, table: pa.Table) -> None:
        numbers = [("since", "min"), ("since", "max"), ("place", "min"), ([], "count_all")]
        groups = table.group_by([*_CAUSE, "kind"]).aggregate(numbers).to_pylist()
        for group in sorted(groups, key=itemgetter("place_min")):
            cls, kind, name = MessageClass(group["class"]), group["kind"], group["dlh_dest_q_name"]
            if cls is MessageClass.DEAD_LETTER:
                names = name or "", group["dlh_dest_q_mgr_name"] or ""
                self.causes.add(
                    find_cause(cls, group["dlh_reason"] or 0, *names),
                    names[0],
                    group["since_min"],
                    self._outcomes[kind] if kind >= 0 else None,
                    messages=group["count_all"] if kind >= 0 else 0,
                    last_at=group["since_max"],
                )


def gather(
    sources: Sources, ledger: Ledger, since: SinceSnapshot | None
) -> tuple[Sources, Gathered]:
    """Read all messages of a run once; data missing in the lake is reported in `troubles`."""
    forecast = _start_forecast(sources, ledger)
    is_whole = sources.run is not None and not (since and since.by_key)
    handled = (
        ledger.run_messages.endings(sources.run.run_id, HANDLED)
        if sources.run and is_whole
        else None
    )
    may = {"in_lake": True, "settled": True}
    while True:
        gathered = Gathered(forecast() if forecast is not None else None, handled)
        try:
            found = messages_of(sources, ledger, handled=handled, take=gathered.take, **may)
            for message in _as_of_today(found, since):
                gathered.add(message)
        except UnreadableError as error:
            may["settled" if error.is_of_settled else "in_lake"] = False
            if not error.is_of_settled:
                sources = replace(sources, manifest=None)
            sources = replace(sources, troubles=(*sources.troubles, str(error)))
        else:
            break
    has_all = not sources.is_for_named  # else the messages that are not named are left out
    if has_all and sources.manifest is not None and sources.snapshot is not None:
        held, recorded = gathered.full_rows + sources.manifest.settled, sources.snapshot.messages
        if held != recorded:
            trouble = f"the snapshot holds {held} messages, the ledger says {recorded}"
            sources = replace(sources, troubles=(*sources.troubles, trouble))
    return sources, gathered


def _as_of_today(messages: Iterator[Message], since: SinceSnapshot | None) -> Iterator[Message]:
    """Mark the messages that later runs settled, and leave out those without an outcome."""
    if since is None or not since.by_key:
        yield from messages
        return
    reader = LaterReader(since.by_key)
    for message in messages:
        later = reader.take(bytes.fromhex(message.message_key))
        if later is None or later.needs_attention:
            yield message
        elif message.fact is not None:
            yield replace(message, is_known_since=True)


def rows_needing_attention(sources: Sources, ledger: Ledger) -> Iterator[Message]:
    """Yield every message that needs attention or has no outcome, one after another.

    Raises UnreadableError where the snapshot cannot be read to its end.
    """
    for message in messages_of(sources, ledger):
        if message.fact is None or message.needs_attention:
            yield message


# The forecast of which messages expire before the next run, and the messages that expired since.

WITHOUT_SCHEDULE: Final = timedelta(days=1)
_KEYS_AT_ONCE: Final = 500


class ExpiryForecast:
    """Counts the remaining messages that expire until a time.

    `known` counts the messages of the previous run's forecast by message key.
    """

    def __init__(self, until: datetime, known: Mapping[bytes, int], *, has_schedule: bool) -> None:
        self._until, self._has_schedule = until, has_schedule
        self._causes = CauseCounter()
        self._known = Counter(known)
        self._new = 0

    def add(self, message: Message) -> None:
        at, cls = message.expires_at, message.cls
        if cls is None or at is None or at > self._until:
            return
        key = bytes.fromhex(message.message_key)
        self._new += not self._known[key]
        self._known[key] -= self._known[key] > 0
        names = (message.dest_q_name, message.dest_q_mgr_name)
        self._causes.add(find_cause(cls, message.reason, *names), names[0], at)

    def result(self, expired: int | None) -> Expiry:
        causes = tuple(self._causes.counted())
        return Expiry(self._until, self._has_schedule, causes, expired, self._new)


def _start_forecast(sources: Sources, ledger: Ledger) -> Callable[[], ExpiryForecast] | None:
    """Return what makes the forecast until the next run, None if the run says nothing of a queue.

    The schedule is that of the handler's file now. Without a schedule, or without the file, the
    forecast is for a day.
    """
    run = sources.run
    if run is None or sources.snapshot is None or sources.is_for_named:
        return None
    at = sources.sighting.at if sources.sighting is not None else sources.snapshot.taken_at
    following, known = _find_next_start(run, at), Counter[bytes]()
    if (before := _run_before(run, ledger)) is not None:
        taken, sighting = before
        until = _find_next_start(run, sighting.at) or sighting.at + WITHOUT_SCHEDULE
        with suppress(LakeError, OSError, ValueError):  # else all messages count as new
            known = lake.expiring_keys(taken.location, sighting.at, until)
    until = following or at + WITHOUT_SCHEDULE
    return partial(ExpiryForecast, until, known, has_schedule=following is not None)


def _find_next_start(run: Run, at: datetime) -> datetime | None:
    try:
        return load_handler(run.handler).next_start(at)
    except HandlerError:
        return None


def _run_before(run: Run, ledger: Ledger) -> tuple[TakenSnapshot, Sighting] | None:
    before = ledger.alerts.run_before(run, is_closed=True)
    taken = ledger.snapshots.of_run(before) if before is not None else None
    sighting = ledger.accounts.of_run(before) if before is not None else None
    return (taken, sighting) if taken is not None and sighting is not None else None


def _count_expired(sources: Sources, ledger: Ledger) -> int | None:
    """Count messages that the previous run left and that expired, or were taken, before this one.

    Their expiry has passed, they are not in this run's snapshot, and no run has moved them. Another
    application may have taken a message before its expiry; the ledger cannot know. Return None if
    the snapshots do not say.
    """
    run, snapshot = sources.run, sources.snapshot
    before = _run_before(run, ledger) if run is not None else None
    if run is None or snapshot is None or before is None or before[1].at > snapshot.taken_at:
        return None
    taken, sighting = before
    try:
        expired = lake.expiring_keys(taken.location, sighting.at, snapshot.taken_at)
        gone = expired - lake.count_keys(snapshot.location, expired) if expired else expired
    except (LakeError, OSError, ValueError):  # the report names a snapshot that it cannot read
        return None
    place, found = (run.queue_manager, run.queue), 0
    for keys in in_parts(sorted(gone), _KEYS_AT_ONCE):
        residents = ledger.messages.residents(*place, keys)
        found += sum(min(gone[key], number) for key, number in residents.items())
    return found


def expiry_in_words(expiry: Expiry | None) -> str:
    """Say how many messages expire before the next run, and when the first does; "" for none."""
    if expiry is None or not expiry.messages:
        return ""
    verb = "expires" if expiry.messages == 1 else "expire"
    until = moment(expiry.until)
    when = f"before the next run at {until}" if expiry.has_schedule else f"before {until}"
    first = f"the first at {moment(expiry.first_at)}"
    return f"{count(expiry.messages, 'message')} {verb} {when}, {first}"


def expired_in_words(expiry: Expiry) -> str:
    """Say how many messages expired, or were taken, since the previous run; "" for none."""
    if not expiry.expired:
        return ""
    messages, were = count(expiry.expired, "message"), "was" if expiry.expired == 1 else "were"
    return f"{messages} of the previous run expired, or {were} taken, before this run"
