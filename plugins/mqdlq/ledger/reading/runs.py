"""Runs as people look for them: one record of a run, lists of runs, and the last runs of a queue.

The number of SQL statements does not depend on the number of runs. Of handlers, some hundred more
take one statement more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Integer,
    ScalarSelect,
    Select,
    String,
    Subquery,
    and_,
    case,
    cast,
    func,
    literal,
    null,
    select,
    type_coerce,
    union_all,
)

from mqdlq.ledger.columns import UtcDateTime
from mqdlq.ledger.database import Repository, columns_of, in_parts
from mqdlq.ledger.reading.later_outcomes import LaterCount, LaterOutcomes
from mqdlq.ledger.runs import before_the_start
from mqdlq.ledger.snapshots import taken_snapshots
from mqdlq.ledger.tables import (
    Look,
    Prune,
    RecordedVerdict,
    Restoration,
    Run,
    Sighting,
    TakenSnapshot,
    approvals,
    failures,
    leases,
    looks,
    messages,
    passes,
    plans,
    pruned_runs,
    prunes,
    restorations,
    run_messages,
    runs,
    sightings,
    snapshots,
    verdict_outcomes,
    verdicts,
)
from mqdlq.model import DEPARTED, GIVEN_ACTION, Disposition, Outcome


class EntryKind(StrEnum):
    """Kind of an entry in a list of runs."""

    RUN = "run"
    REFUSED = "refused"
    PRUNED = "pruned"
    RESTORATION = "restoration"


NO_REPORT: Final = "no_report"
"""The state of a run without a report: it is in progress, or it broke off."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """The runs to list; an empty field narrows nothing.

    `since` counts, `until` does not. `state` is a verdict, `NO_REPORT`, or a kind other than
    `run`. `run_type` is Airflow's ("scheduled", "manual", "backfill"). `started_by` is a part of
    the text, in any case.
    """

    since: datetime | None = None
    until: datetime | None = None
    state: str = ""
    run_type: str = ""
    started_by: str = ""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run without its rules: how it was started, what it saw of its queue, and how it ended.

    `asked_why` is the reason or ticket of the person who started it. `look` is the last look by
    MQINQ, `sighting` the last browse, `report` the verdict of the last report. `oldest_left` is the
    time since when the oldest remaining message is on the queue. `departed` counts the messages
    that the report booked as departed. `asked_at` is when the run asked for an approval that it
    still lacks.
    A list also has runs that were refused (`started_at` is the last of so many `tries`, and `why`
    says why) or pruned (`why` is the policy), and restorations.
    """

    run_id: str
    started_at: datetime
    handler: str = ""
    dag_run_id: str = ""
    run_type: str = ""
    queue_manager: str = ""
    queue: str = ""
    rules_source: str = ""
    rules_digest: str = ""
    dry_run: bool = False
    started_by: str = ""
    asked_why: str = ""
    max_run_time_s: int = 0
    named_messages: int = 0
    oldest_left: datetime | None = None
    departed: int = 0
    asked_at: datetime | None = None
    look: Look | None = None
    snapshot: TakenSnapshot | None = None
    sighting: Sighting | None = None
    report: RecordedVerdict | None = None
    kind: EntryKind = EntryKind.RUN
    why: str = ""
    tries: int = 0

    @property
    def verdict(self) -> str:
        return self.report.verdict if self.report is not None else ""

    @property
    def found_no_work(self) -> bool:
        return self.look is not None and not self.look.is_work

    @property
    def messages(self) -> int | None:
        return self.snapshot.messages if self.snapshot is not None else None

    @property
    def ended_at(self) -> datetime | None:
        """The time of the last browse or, without one, of the report."""
        last = self.sighting or self.report
        return last.at if last is not None else None


@dataclass(frozen=True, slots=True)
class SeenQueue:
    """The last runs of a handler on a queue.

    `last` is the newest run of any kind. The others are for the whole queue, so neither backfills
    nor for named messages: `whole` is the newest, `before` the one before it. `closed` is the
    newest with an account and a report; it is looked for only if `whole` lacks one of them and saw
    messages. `later` says what the runs after `counted` did with its messages.
    """

    handler: str
    queue_manager: str
    queue: str
    last: RunFacts
    whole: RunFacts | None
    before: RunFacts | None
    closed: RunFacts | None
    later: tuple[LaterCount, ...] = ()

    @property
    def counted(self) -> RunFacts | None:
        """The last run with an account of the whole queue; None if there is none, or no message.

        A run that found no work, is in progress or broke off, or whose report is missing, has none.
        """
        whole = self.whole
        has_account = whole is not None and whole.sighting is not None and whole.report is not None
        return whole if has_account else self.closed


class SeenRefusal(NamedTuple):
    """The last refusal of a handler: a run that could not start, why, and when."""

    handler: str
    run_id: str
    why: str
    at: datetime


@dataclass(frozen=True, slots=True)
class OpenApproval:
    """A plan without an answer: its run, the guards that asked, and the messages it plans.

    `of` is the run's handler, queue manager and queue.
    """

    of: tuple[str, str, str]
    run_id: str
    guards: tuple[str, ...]
    messages: int
    at: datetime


class Overview(Repository):
    """The state of all handlers, or of one."""

    def queues(self, handler: str | None = None) -> list[SeenQueue]:
        """Return each queue that a handler had a run on, by handler, queue manager and queue."""
        picked = _picked(handler)
        found = self._all(select(picked).order_by(*list(picked.c)[:3]))
        names = ("last", "whole", "before", "closed")
        known: dict[str | None, RunFacts] = {}
        for some in in_parts({row[name] for row in found for name in names} - {None}):
            with self._stream(run_facts(runs.c.run_id.in_(some))) as rows:
                known |= {run.run_id: run for run in map(_run, rows)}
        queues = []
        for row in found:
            whole, before, closed = (known.get(row[name]) for name in names[1:])
            key = (row["handler"], row["queue_manager"], row["queue"])
            queues.append(SeenQueue(*key, known[row["last"]], whole, before, closed))
        passed = {q.counted.run_id for q in queues if q.counted and q.counted != q.last}
        later = LaterOutcomes(self._engine).counts(sorted(passed))
        return [
            replace(q, later=later.get(q.counted.run_id, ()) if q.counted else ()) for q in queues
        ]

    def refusals(self, handler: str | None = None) -> dict[str, SeenRefusal]:
        newest = select(func.max(failures.c.seq)).where(before_the_start())
        newest = newest.group_by(failures.c.handler)
        if handler is not None:
            newest = newest.where(failures.c.handler == handler)
        columns = (failures.c[name] for name in SeenRefusal._fields)
        query = select(*columns).where(failures.c.seq.in_(newest))
        return {row["handler"]: SeenRefusal(**row) for row in self._all(query)}

    def open_approvals(self, handler: str | None = None) -> list[OpenApproval]:
        """Return the plans without an answer of runs that have not ended, oldest first.

        Airflow knows whether a run still waits for the answer.
        """
        planned = (
            select(func.count())
            .select_from(run_messages)
            .where(
                run_messages.c.run_id == runs.c.run_id,
                run_messages.c.disposition == Disposition.PLANNED,
            )
        )
        query = (
            select(
                *(runs.c.handler, runs.c.queue_manager, runs.c.queue, runs.c.run_id),
                *(approvals.c.guards, planned.correlate(runs).scalar_subquery(), approvals.c.at),
            )
            .join(runs, runs.c.run_id == approvals.c.run_id)
            .where(_is_unanswered())
            .order_by(approvals.c.seq)
        )
        if handler is not None:
            query = query.where(runs.c.handler == handler)
        with self._stream(query) as rows:
            return [OpenApproval(row[:3], *row[3:]) for row in rows]

    def last_prune(self, handler: str) -> Prune | None:
        query = select(*columns_of(prunes, Prune)).where(prunes.c.handler == handler)
        return self._one(Prune, query.order_by(prunes.c.at.desc()))

    def last_runs(self, handler: str, at_most: int) -> list[RunFacts]:
        newest = select(runs.c.run_id).where(runs.c.handler == handler)
        newest = newest.order_by(runs.c.started_at.desc()).limit(at_most)
        query = run_facts(runs.c.run_id.in_(newest)).order_by(runs.c.started_at.desc())
        with self._stream(query) as rows:
            return [_run(row) for row in rows]


class HandledQueues(Repository):
    """Queues that handlers handled, and the runs that say what happens to all their messages.

    Backfills, runs for named messages and runs with a given action do not count: they take no
    snapshot of the whole queue, or do not use the handler's table.
    """

    def of_handler(self, handler: str) -> list[tuple[str, str]]:
        """Return each queue manager and queue, in the order of their last runs, newest first."""
        query = (
            select(runs.c.queue_manager, runs.c.queue)
            .where(runs.c.handler == handler)
            .group_by(runs.c.queue_manager, runs.c.queue)
            .order_by(func.max(runs.c.started_at).desc())
        )
        return [(row["queue_manager"], row["queue"]) for row in self._all(query)]

    def newest_run(self, handler: str, queue_manager: str, queue: str) -> Run | None:
        query = select(runs).where(*_has_table(handler, queue_manager, queue))
        return self._one(Run, query.order_by(runs.c.started_at.desc()))

    def newest_snapshot(self, handler: str, queue_manager: str, queue: str) -> TakenSnapshot | None:
        return next(iter(self.snapshots(handler, queue_manager, queue, limit=1)), None)

    def snapshots(
        self,
        handler: str,
        queue_manager: str,
        queue: str,
        *,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[TakenSnapshot]:
        """Return the newest snapshots that were not pruned, the newest first.

        `since` counts, `until` does not.
        """
        query = (
            taken_snapshots()
            .join(runs, runs.c.run_id == snapshots.c.run_id)
            .where(
                snapshots.c.pruned_at.is_(None),
                *_has_table(handler, queue_manager, queue),
                *_within(since, until, snapshots.c.taken_at),
            )
            .order_by(snapshots.c.taken_at.desc())
        )
        return [TakenSnapshot(**row) for row in self._all(query.limit(limit))]


class RunLists(Repository):
    """Runs of a handler as a list, and the facts about single runs that only pages show."""

    def page(
        self, handler: str, chosen: RunFilter, *, offset: int = 0, limit: int = 50
    ) -> list[RunFacts]:
        """Return runs of a handler, also refused and pruned ones and restorations, newest first."""
        listed = _entries(handler, chosen)
        query = select(listed).order_by(listed.c.at.desc(), listed.c.id.desc())
        found = [(row["kind"], row["id"]) for row in self._all(query.offset(offset).limit(limit))]
        known = {
            (kind, run.run_id): run
            for kind in EntryKind
            for run in self._described(kind, [name for of, name in found if of == kind])
        }
        return [known[entry] for entry in found if entry in known]

    def count(self, handler: str, chosen: RunFilter) -> int:
        query = select(func.count()).select_from(_entries(handler, chosen))
        return int(next(iter(self._values(query))))

    def run_types(self, handler: str) -> list[str]:
        query = select(runs.c.run_type).where(runs.c.handler == handler).distinct()
        return sorted(self._values(query))

    def outcomes(self, run_ids: Collection[str]) -> dict[str, Counter[Outcome]]:
        """Return the outcomes that the last report of each run counted."""
        last = _last_verdicts()
        table = verdict_outcomes.c
        query = (
            select(table.run_id, table.outcome, func.sum(table.messages).label("messages"))
            .join(last, last.c.seq == table.verdict_seq)
            .group_by(table.run_id, table.outcome)
        )
        found: dict[str, Counter[Outcome]] = {}
        for some in in_parts(run_ids):
            for row in self._all(query.where(table.run_id.in_(some))):
                counted = found.setdefault(row["run_id"], Counter())
                counted[row["outcome"]] = int(row["messages"])
        return found

    def leased_until(self, run_ids: Collection[str], now: datetime) -> dict[str, datetime]:
        """Return which of these runs hold leases at a time, and until when."""
        query = (
            select(leases.c.run_id, func.max(leases.c.until).label("until"))
            .where(leases.c.run_id.in_(run_ids), leases.c.until > now, _is_last_lease())
            .group_by(leases.c.run_id)
        )
        return {row["run_id"]: row["until"] for row in self._all(query)}

    def leased(
        self, queue_manager: str, queue: str, keys: Collection[str], now: datetime
    ) -> dict[str, str]:
        """Return the run that has a lease on the messages of a queue with these keys (hex)."""
        query = (
            select(messages.c.message_key, leases.c.run_id)
            .join(leases, leases.c.message_id == messages.c.message_id)
            .where(
                messages.c.queue_manager == queue_manager,
                messages.c.queue == queue,
                leases.c.until > now,
                _is_last_lease(),
            )
        )
        found: dict[str, str] = {}
        for some in in_parts(sorted(map(bytes.fromhex, keys))):
            for row in self._all(query.where(messages.c.message_key.in_(some))):
                found[row["message_key"].hex()] = row["run_id"]
        return found

    def passes(self, run_id: str) -> list[datetime]:
        query = select(passes.c.started_at).where(passes.c.run_id == run_id)
        return list(self._values(query.order_by(passes.c.seq)))

    def refused_handler(self, run_id: str) -> str:
        """Return the handler of a refused run, "" if no failure is recorded."""
        query = select(failures.c.handler).where(failures.c.run_id == run_id)
        return next(iter(self._values(query.limit(1))), "")

    def pruned(self, run_id: str) -> RunFacts | None:
        return next(iter(self._described(EntryKind.PRUNED, [run_id])), None)

    def planned_before(self, run: Run) -> tuple[str, str] | None:
        """Return the id and the plan's location of the last run on the queue before a run.

        Only runs for all messages with an accepted plan count. None if there is none.
        """
        query = (
            select(runs.c.run_id, plans.c.location)
            .join(plans, plans.c.run_id == runs.c.run_id)
            .where(
                runs.c.handler == run.handler,
                runs.c.queue_manager == run.queue_manager,
                runs.c.queue == run.queue,
                runs.c.started_at < run.started_at,
                runs.c.message_keys == (),
            )
            .order_by(runs.c.started_at.desc())
        )
        row = self._first(query)
        return None if row is None else (row["run_id"], row["location"])

    def restoration(self, restoration_id: str) -> Restoration | None:
        query = select(restorations).where(restorations.c.restoration_id == restoration_id)
        return self._one(Restoration, query)

    def _described(self, kind: EntryKind, ids: Sequence[str]) -> list[RunFacts]:
        if not ids:
            return []
        if kind is EntryKind.RUN:
            with self._stream(run_facts(runs.c.run_id.in_(ids))) as rows:
                return [_run(row) for row in rows]
        return [RunFacts(**row, kind=kind) for row in self._all(_DESCRIPTIONS[kind](ids))]


# The columns of a run.

_PARTS: Final = (Look, TakenSnapshot, Sighting, RecordedVerdict)
_OF_RUN: Final = [one.name for one in fields(RunFacts)[: -len(_PARTS) - 3]]


def run_facts(is_meant: ColumnElement[bool]) -> Select[Any]:
    look, report = looks.alias("look"), verdicts.alias("report")
    last_look = select(func.max(looks.c.seq)).where(looks.c.run_id == runs.c.run_id)
    last_report = select(func.max(verdicts.c.seq)).where(verdicts.c.run_id == runs.c.run_id)
    departed = select(func.sum(verdict_outcomes.c.messages)).where(
        verdict_outcomes.c.verdict_seq == report.c.seq,
        verdict_outcomes.c.outcome.in_(sorted(DEPARTED)),
    )
    departed = departed.correlate(report)
    asked = select(func.max(approvals.c.at)).where(
        approvals.c.run_id == runs.c.run_id, _is_unanswered()
    )
    asked = asked.correlate(runs)
    made = {
        "asked_why": runs.c.why,
        "named_messages": _words(runs.c.message_keys),
        "oldest_left": sightings.c.oldest_left,
        "departed": cast(func.coalesce(departed.scalar_subquery(), 0), Integer),
        "asked_at": asked.scalar_subquery(),
    }
    parts: list[FromClause] = [look, snapshots, sightings, report]
    return (
        select(
            *(made[name] if name in made else runs.c[name] for name in _OF_RUN),
            *(
                part.c[one.name]
                for part, kind in zip(parts, _PARTS, strict=True)
                for one in fields(kind)
            ),
        )
        .select_from(runs)
        .outerjoin(look, look.c.seq == last_look.correlate(runs).scalar_subquery())
        .outerjoin(report, report.c.seq == last_report.correlate(runs).scalar_subquery())
        .outerjoin(snapshots, snapshots.c.run_id == runs.c.run_id)
        .outerjoin(sightings, sightings.c.run_id == runs.c.run_id)
        .where(is_meant)
    )


def _run(row: Sequence[Any]) -> RunFacts:
    """Return a run of its row, in which the columns of each part stand together."""
    at = len(_OF_RUN)
    parts: list[Any] = []
    for kind in _PARTS:
        part = row[at : at + len(kind.__slots__)]
        parts.append(None if part[0] is None else kind(*part))
        at += len(part)
    return RunFacts(*row[: len(_OF_RUN)], *parts)


def _refused(ids: Sequence[str]) -> Select[Any]:
    last = (
        select(func.max(failures.c.seq).label("seq"), func.count().label("tries"))
        .where(failures.c.run_id.in_(ids))
        .group_by(failures.c.run_id)
        .subquery("last_failures")
    )
    at = failures.c.at.label("started_at")
    return select(failures.c.run_id, at, failures.c.why, last.c.tries).join(
        last, last.c.seq == failures.c.seq
    )


def _pruned(ids: Sequence[str]) -> Select[Any]:
    names = ("run_id", "started_at", "run_type", "started_by", "queue_manager", "queue", "dry_run")
    return (
        select(
            *(pruned_runs.c[name] for name in names),
            pruned_runs.c.why.label("asked_why"),
            prunes.c.policy.label("why"),
        )
        .join(prunes, prunes.c.prune_id == pruned_runs.c.prune_id)
        .where(pruned_runs.c.run_id.in_(ids))
    )


def _restored(ids: Sequence[str]) -> Select[Any]:
    table = restorations.c
    return select(
        table.restoration_id.label("run_id"),
        table.started_at,
        table.who.label("started_by"),
        table.why.label("asked_why"),
        *(table[name] for name in ("queue_manager", "queue", "dry_run")),
        _words(table.message_keys).label("named_messages"),
    ).where(table.restoration_id.in_(ids))


_DESCRIPTIONS: Final = {
    EntryKind.REFUSED: _refused,
    EntryKind.PRUNED: _pruned,
    EntryKind.RESTORATION: _restored,
}


def _words(column: ColumnElement[Any]) -> ColumnElement[int]:
    text = type_coerce(column, String)
    blanks = func.length(text) - func.length(func.replace(text, " ", ""))
    return case((text == "", 0), else_=blanks + 1)


# Which runs are meant.


def _picked(handler: str | None) -> CTE:
    """Return handler, queue manager and queue of each group of runs, with the ids of its runs."""
    key = ("handler", "queue_manager", "queue")
    group = select(*(runs.c[name] for name in key)).group_by(*(runs.c[name] for name in key))
    if handler is not None:
        group = group.where(runs.c.handler == handler)
    groups = group.subquery("queues")
    one = runs.alias("one")

    def nth(number: int, of: FromClause, *conditions: ColumnElement[bool]) -> ScalarSelect[Any]:
        own = (one.c[name] == of.c[name] for name in key)
        query = select(one.c.run_id).where(*own, *conditions)
        return query.order_by(one.c.started_at.desc()).offset(number).limit(1).scalar_subquery()

    is_whole = (one.c.message_keys == ()) & (one.c.run_type != "backfill")
    inner = select(
        groups,
        nth(0, groups).label("last"),
        nth(0, groups, is_whole).label("whole"),
        nth(1, groups, is_whole).label("before"),
    ).cte("newest")
    closed = nth(0, inner, is_whole, *_account_of(one.c.run_id))
    seen = looks.alias("seen")
    has_own = and_(*_account_of(inner.c.whole))
    is_empty = (
        select(seen.c.seq)
        .where(seen.c.run_id == inner.c.whole, ~seen.c.is_work, seen.c.depth == 0)
        .exists()
    )
    return select(inner, case((has_own | is_empty, null()), else_=closed).label("closed")).cte(
        "picked"
    )


def _account_of(run_id: ColumnElement[str]) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the conditions that a run has closed its account, and that its report is recorded."""
    ended, reported = sightings.alias(), verdicts.alias()
    return (
        select(ended.c.run_id).where(ended.c.run_id == run_id).exists(),
        select(reported.c.seq).where(reported.c.run_id == run_id).exists(),
    )


def _is_unanswered() -> ColumnElement[bool]:
    """Return the condition that an approval is a question, the last of a run that has not ended."""
    later = approvals.alias()
    is_answered = select(later.c.seq).where(
        later.c.run_id == approvals.c.run_id, later.c.seq > approvals.c.seq
    )
    has_ended, has_report = _account_of(approvals.c.run_id)
    return (approvals.c.decision == "asked") & ~is_answered.exists() & ~has_ended & ~has_report


def _is_last_lease() -> ColumnElement[bool]:
    """Return the condition that a lease is the last one of its message: a later one ends it."""
    later = leases.alias()
    return ~(
        select(later.c.seq)
        .where(later.c.message_id == leases.c.message_id, later.c.seq > leases.c.seq)
        .exists()
    )


def _has_table(handler: str, queue_manager: str, queue: str) -> tuple[ColumnElement[bool], ...]:
    return (
        runs.c.handler == handler,
        runs.c.queue_manager == queue_manager,
        runs.c.queue == queue,
        runs.c.run_type != "backfill",
        runs.c.message_keys == (),
        runs.c.rules_source != GIVEN_ACTION,
    )


def _last_verdicts() -> Subquery:
    return (
        select(verdicts.c.run_id, func.max(verdicts.c.seq).label("seq"))
        .group_by(verdicts.c.run_id)
        .subquery("last_verdicts")
    )


def _within(
    since: datetime | None, until: datetime | None, at: ColumnElement[Any]
) -> Iterator[ColumnElement[bool]]:
    if since is not None:
        yield at >= since
    if until is not None:
        yield at < until


def _entries(handler: str, chosen: RunFilter) -> Subquery:
    """Return kind, id and time of the entries that a filter chooses."""
    return union_all(*_kinds(handler, chosen)).subquery("entries")


def _kinds(handler: str, chosen: RunFilter) -> Iterator[Select[Any]]:
    of_pruned = select(pruned_runs.c.run_id)
    is_report = chosen.state not in {EntryKind.REFUSED, EntryKind.PRUNED, EntryKind.RESTORATION}
    if is_report:
        started = _entry(EntryKind.RUN, runs, "run_id", chosen, who="started_by")
        started = started.where(runs.c.handler == handler, runs.c.run_id.not_in(of_pruned))
        yield _of_type(_with_state(started, chosen.state), runs, chosen)
    if chosen.state in {"", EntryKind.REFUSED} and not chosen.started_by:
        yield _refusals(handler, chosen)
    if chosen.state in {"", EntryKind.PRUNED}:
        pruned = _entry(EntryKind.PRUNED, pruned_runs, "run_id", chosen, who="started_by")
        yield _of_type(pruned.where(pruned_runs.c.handler == handler), pruned_runs, chosen)
    if chosen.state in {"", EntryKind.RESTORATION} and not chosen.run_type:
        restored = _entry(EntryKind.RESTORATION, restorations, "restoration_id", chosen, who="who")
        yield restored.where(restorations.c.handler == handler)


def _entry(
    kind: EntryKind, table: FromClause, name: str, chosen: RunFilter, *, who: str
) -> Select[Any]:
    """Return the query for the entries of a table that started in time, by the right person."""
    at = table.c.started_at
    columns = _columns(kind, table.c[name], at)
    query = select(*columns).where(*_within(chosen.since, chosen.until, at))
    if chosen.started_by:
        query = query.where(table.c[who].icontains(chosen.started_by, autoescape=True))
    return query


def _columns(
    kind: EntryKind, name: ColumnElement[str], at: ColumnElement[Any]
) -> list[ColumnElement[Any]]:
    moment = type_coerce(at, UtcDateTime).label("at")
    return [literal(kind.value).label("kind"), name.label("id"), moment]


def _of_type(query: Select[Any], table: FromClause, chosen: RunFilter) -> Select[Any]:
    return query.where(table.c.run_type == chosen.run_type) if chosen.run_type else query


def _with_state(query: Select[Any], state: str) -> Select[Any]:
    if not state:
        return query
    last = _last_verdicts()
    query = query.outerjoin(last, last.c.run_id == runs.c.run_id).outerjoin(
        verdicts, verdicts.c.seq == last.c.seq
    )
    is_meant = verdicts.c.seq.is_(None) if state == NO_REPORT else verdicts.c.verdict == state
    return query.where(is_meant)


def _refusals(handler: str, chosen: RunFilter) -> Select[Any]:
    at = func.max(failures.c.at)
    query = select(*_columns(EntryKind.REFUSED, failures.c.run_id, at)).where(
        failures.c.handler == handler,
        failures.c.run_id.not_in(select(runs.c.run_id)),
        failures.c.run_id.not_in(select(pruned_runs.c.run_id)),
        failures.c.run_id.not_in(select(restorations.c.restoration_id)),
    )
    if chosen.run_type:  # a refused run has no type; its id begins with it
        start = f"{handler}-{chosen.run_type}__"
        query = query.where(failures.c.run_id.startswith(start, autoescape=True))
    return query.group_by(failures.c.run_id).having(*_within(chosen.since, chosen.until, at))
