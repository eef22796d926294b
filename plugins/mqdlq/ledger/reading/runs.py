"""Runs as people look for them: one record of a run, lists of runs, and the last runs of a queue.

The number of SQL statements does not depend on the number of runs. Of handlers, some hundred more
take one statement more.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.ledger import tables as t
from mqdlq.ledger.columns import UtcDateTime
from mqdlq.ledger.database import (
    Condition,
    Repository,
    Row,
    in_parts,
    is_last,
    is_on,
    select_records,
    total,
)
from mqdlq.ledger.messages import is_at, is_leased
from mqdlq.ledger.reading.later_outcomes import LaterCount, LaterOutcomes
from mqdlq.ledger.runs import IS_FOR_ALL, before_the_start, is_for_all
from mqdlq.ledger.snapshots import Snapshots
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
    condition: str = ""
    oldest_left: datetime | None = None
    departed: int = 0
    asked_at: datetime | None = None
    look: t.Look | None = None
    snapshot: t.TakenSnapshot | None = None
    sighting: t.Sighting | None = None
    report: t.RecordedVerdict | None = None
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
    """The last runs of a handler on a queue; without any, it has neither a run nor a queue.

    `last` is the newest run of any kind. The others are for the whole queue, so neither backfills
    nor for named messages: `whole` is the newest, `before` the one before it. `closed` is the
    newest with an account and a report; it is looked for only if `whole` lacks one of them and saw
    messages. `later` says what the runs after `counted` did with its messages.
    """

    handler: str
    queue_manager: str = ""
    queue: str = ""
    last: RunFacts | None = None
    whole: RunFacts | None = None
    before: RunFacts | None = None
    closed: RunFacts | None = None
    later: tuple[LaterCount, ...] = ()

    @property
    def counted(self) -> RunFacts | None:
        """The last run with an account of the whole queue; None if there is none, or no message.

        A run that found no work, is in progress or broke off, or whose report is missing, has none.
        """
        whole = self.whole
        has_account = whole is not None and whole.sighting is not None and whole.report is not None
        return whole if has_account else self.closed


class RunLists(Repository):
    """The state of all handlers, or of one, its runs as a list, and facts that only pages show."""

    def _facts(self, is_meant: Condition) -> list[RunFacts]:
        return [_run(row) for row in self._rows(_run_facts(is_meant))]

    def queues(self, handler: str | None = None) -> list[SeenQueue]:
        """Return each queue that a handler had a run on, by handler, queue manager and queue."""
        picked = _picked(handler)
        found = self._rows(sa.select(picked).order_by(*list(picked.c)[:3]))
        ids = {run_id for row in found for run_id in row[3:]} - {None}
        known: dict[str | None, RunFacts] = {}
        for some in in_parts(ids):
            known |= {run.run_id: run for run in self._facts(t.runs.c.run_id.in_(some))}
        queues = []
        for name, queue_manager, queue, last, *others in found:
            whole, before, closed = map(known.get, others)
            place = (name, queue_manager, queue)
            queues.append(SeenQueue(*place, known[last], whole, before, closed))
        passed = {q.counted.run_id for q in queues if q.counted and q.counted != q.last}
        later = LaterOutcomes(self._engine).counts(sorted(passed))
        return [
            replace(q, later=later.get(q.counted.run_id, ()) if q.counted else ()) for q in queues
        ]

    def refusals(self, handler: str | None = None) -> dict[str, Row]:
        """Return by handler its last refusal: a run that could not start, with `why` and `at`."""
        newest = sa.select(sa.func.max(t.failures.c.seq)).where(before_the_start())
        newest = newest.group_by(t.failures.c.handler)
        if handler is not None:
            newest = newest.where(t.failures.c.handler == handler)
        query = sa.select(t.failures).where(t.failures.c.seq.in_(newest))
        return {row.handler: row for row in self._rows(query)}

    def open_approvals(self, handler: str | None = None) -> Sequence[Row]:
        """Return the plans without an answer of runs that have not ended, oldest first.

        A row has `handler`, `queue_manager`, `queue`, `run_id`, the `guards` that asked, the number
        of `messages` planned, and `at`. Airflow knows whether a run still waits for the answer.
        """
        listed = t.run_messages.c
        planned = (
            sa.select(sa.func.count())
            .where(listed.run_id == t.runs.c.run_id, listed.disposition == Disposition.PLANNED)
            .correlate(t.runs)
        )
        query = (
            sa.select(
                *t.runs.c["handler", "queue_manager", "queue", "run_id"],
                *(t.approvals.c.guards, planned.label("messages"), t.approvals.c.at),
            )
            .join(t.runs, t.runs.c.run_id == t.approvals.c.run_id)
            .where(_is_unanswered())
            .order_by(t.approvals.c.seq)
        )
        return self._rows(query if handler is None else query.where(t.runs.c.handler == handler))

    def last_runs(self, handler: str, at_most: int) -> list[RunFacts]:
        newest = sa.select(t.runs.c.run_id).where(t.runs.c.handler == handler)
        newest = newest.order_by(t.runs.c.started_at.desc()).limit(at_most)
        found = self._facts(t.runs.c.run_id.in_(newest))
        return sorted(found, key=lambda run: run.started_at, reverse=True)

    def page(
        self, handler: str, chosen: RunFilter, *, offset: int = 0, limit: int = 50
    ) -> list[RunFacts]:
        """Return runs of a handler, also refused and pruned ones and restorations, newest first."""
        listed = _entries(handler, chosen)
        query = sa.select(listed).order_by(listed.c.started_at.desc(), listed.c.run_id.desc())
        found = [_entry_of(row) for row in self._rows(query.offset(offset).limit(limit))]
        ids = [one.run_id for one in found if one.kind is EntryKind.RUN]
        runs = {run.run_id: run for run in self._facts(t.runs.c.run_id.in_(ids))} if ids else {}
        # A prune may have erased a run since the entries were read.
        known = [runs.get(one.run_id) if one.kind is EntryKind.RUN else one for one in found]
        return [one for one in known if one is not None]

    def count(self, handler: str, chosen: RunFilter) -> int:
        entries = _entries(handler, chosen)
        return self._count(sa.select(sa.func.count()).select_from(entries))

    def run_types(self, handler: str) -> list[str]:
        query = sa.select(t.runs.c.run_type).where(t.runs.c.handler == handler).distinct()
        return sorted(self._values(query))

    def outcomes(self, run_ids: Collection[str]) -> dict[str, Counter[Outcome]]:
        """Return the outcomes that the last report of each run counted."""
        kinds = t.verdict_outcomes.c["run_id", "outcome"]
        query = (
            sa.select(*kinds, total(t.verdict_outcomes.c.messages))
            .join(t.verdicts, t.verdicts.c.seq == t.verdict_outcomes.c.verdict_seq)
            .where(is_last(t.verdicts, "run_id"))
            .group_by(*kinds)
        )
        found = defaultdict[str, Counter[Outcome]](Counter)
        for run_id, outcome, number in self._among(query, t.verdict_outcomes.c.run_id, run_ids):
            found[run_id][outcome] = number
        return dict(found)

    def leased_until(self, run_ids: Collection[str], now: datetime) -> dict[str, datetime]:
        """Return which of these runs hold leases at a time, and until when."""
        query = sa.select(t.leases.c.run_id, sa.func.max(t.leases.c.until))
        query = query.where(t.leases.c.run_id.in_(run_ids), is_leased(now))
        return self._map(query.group_by(t.leases.c.run_id))

    def leased(
        self, queue_manager: str, queue: str, keys: Collection[str] | None, now: datetime
    ) -> dict[str, str]:
        """Return by key (hex) the run that has a lease on a message of a queue.

        The messages are those with these keys, or all.
        """
        query = (
            sa.select(t.messages.c.message_key, t.leases.c.run_id)
            .join(t.leases, t.leases.c.message_id == t.messages.c.message_id)
            .where(is_at(queue_manager, queue), is_leased(now))
        )
        if keys is None:
            found: Iterable[Row] = self._rows(query)
        else:
            wanted = sorted(map(bytes.fromhex, keys))
            found = self._among(query, t.messages.c.message_key, wanted)
        return {key.hex(): run_id for key, run_id in found}

    def refused_handler(self, run_id: str) -> str:
        """Return the handler of a refused run, "" if no failure is recorded."""
        query = sa.select(t.failures.c.handler).where(t.failures.c.run_id == run_id)
        return str(self._value(query) or "")

    def pruned(self, run_id: str) -> RunFacts | None:
        row = self._first(_PRUNED.where(t.pruned_runs.c.run_id == run_id))
        return _entry_of(row) if row else None


class HandledQueues(Repository):
    """Queues that handlers handled, and the runs that say what happens to all their messages.

    Backfills, runs for named messages and runs with a given action do not count: they take no
    snapshot of the whole queue, or do not use the handler's table.
    """

    def of_handler(self, handler: str) -> list[tuple[str, str]]:
        """Return each queue manager and queue, in the order of their last runs, newest first."""
        place, last = t.runs.c["queue_manager", "queue"], sa.func.max(t.runs.c.started_at)
        query = sa.select(*place).where(t.runs.c.handler == handler).group_by(*place)
        rows = self._rows(query.order_by(last.desc()))
        return [(queue_manager, queue) for queue_manager, queue in rows]

    def newest_run(self, handler: str, queue_manager: str, queue: str) -> t.Run | None:
        query = select_records(t.runs, t.Run).where(_has_table(handler, queue_manager, queue))
        return self._one(t.Run, query.order_by(t.runs.c.started_at.desc()))

    def newest_snapshot(
        self, handler: str, queue_manager: str, queue: str
    ) -> t.TakenSnapshot | None:
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
    ) -> list[t.TakenSnapshot]:
        """Return the newest snapshots that are there, from `since` to before `until`."""
        at, is_there = t.snapshots.c.taken_at, t.snapshots.c.pruned_at.is_(None)
        is_meant = _has_table(handler, queue_manager, queue)
        query = Snapshots.taken(is_there, is_meant, *_within(since, until, at))
        return self._list(t.TakenSnapshot, query.order_by(at.desc()).limit(limit))


# The columns of a run.

_PARTS: Final = (t.Look, t.TakenSnapshot, t.Sighting, t.RecordedVerdict)
_OF_RUN: Final = [one.name for one in fields(RunFacts)[: -len(_PARTS) - 3]]


def _run_facts(is_meant: Condition) -> sa.Select[Any]:
    run_id, look, report = t.runs.c.run_id, t.looks.alias("look"), t.verdicts.alias("report")
    last_look = sa.select(sa.func.max(t.looks.c.seq)).where(t.looks.c.run_id == run_id)
    last_report = sa.select(sa.func.max(t.verdicts.c.seq)).where(t.verdicts.c.run_id == run_id)
    counted = t.verdict_outcomes.c
    departed = sa.select(total(counted.messages)).where(
        counted.verdict_seq == report.c.seq, counted.outcome.in_(sorted(DEPARTED))
    )
    asked = sa.select(sa.func.max(t.approvals.c.at)).where(
        t.approvals.c.run_id == run_id, _is_unanswered()
    )
    made = {
        "asked_why": t.runs.c.why,
        "named_messages": _words(t.runs.c.message_keys),
        "oldest_left": t.sightings.c.oldest_left,
        "departed": departed.correlate(report).scalar_subquery(),
        "asked_at": asked.correlate(t.runs).scalar_subquery(),
    }
    parts: list[sa.FromClause] = [look, t.snapshots, t.sightings, report]
    return (
        sa.select(
            *(made[name] if name in made else t.runs.c[name] for name in _OF_RUN),
            *(
                part.c[one.name]
                for part, kind in zip(parts, _PARTS, strict=True)
                for one in fields(kind)
            ),
        )
        .select_from(t.runs)
        .outerjoin(look, look.c.seq == last_look.correlate(t.runs).scalar_subquery())
        .outerjoin(report, report.c.seq == last_report.correlate(t.runs).scalar_subquery())
        .outerjoin(t.snapshots, t.snapshots.c.run_id == run_id)
        .outerjoin(t.sightings, t.sightings.c.run_id == run_id)
        .where(is_meant)
    )


def _run(row: Sequence[Any]) -> RunFacts:
    at = len(_OF_RUN)
    parts: list[Any] = []
    for kind in _PARTS:
        part = row[at : at + len(kind.__slots__)]
        parts.append(None if part[0] is None else kind(*part))
        at += len(part)
    return RunFacts(*row[: len(_OF_RUN)], *parts)


def _words(column: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    text = sa.type_coerce(column, sa.String)
    blanks = sa.func.length(text) - sa.func.length(sa.func.replace(text, " ", ""))
    return sa.case((text == "", 0), else_=blanks + 1)


# Which runs are meant.


def _picked(handler: str | None) -> sa.CTE:
    """Return handler, queue manager and queue of each group of runs, with the ids of its runs."""
    key = ("handler", "queue_manager", "queue")
    group = sa.select(*t.runs.c[key]).group_by(*t.runs.c[key])
    if handler is not None:
        group = group.where(t.runs.c.handler == handler)
    groups = group.subquery("queues")
    one = t.runs.alias("one")

    def nth(number: int, of: sa.FromClause, *conditions: Condition) -> sa.ScalarSelect[Any]:
        own = (one.c[name] == of.c[name] for name in key)
        query = sa.select(one.c.run_id).where(*own, *conditions)
        return query.order_by(one.c.started_at.desc()).offset(number).limit(1).scalar_subquery()

    is_whole = is_for_all(one) & (one.c.run_type != "backfill")
    inner = sa.select(
        groups,
        nth(0, groups).label("last"),
        nth(0, groups, is_whole).label("whole"),
        nth(1, groups, is_whole).label("before"),
    ).cte("newest")
    seen = t.looks.alias("seen")
    is_empty = sa.exists().where(seen.c.run_id == inner.c.whole, ~seen.c.is_work, seen.c.depth == 0)
    has_own = sa.and_(*_account_of(inner.c.whole))
    closed = nth(0, inner, is_whole, *_account_of(one.c.run_id))
    found = sa.case((has_own | is_empty, sa.null()), else_=closed)
    return sa.select(inner, found.label("closed")).cte("picked")


def _account_of(run_id: sa.ColumnElement[str]) -> tuple[Condition, Condition]:
    """Return the conditions that a run has an account, and that it has a report."""
    ended, reported = t.sightings.alias(), t.verdicts.alias()
    return (
        sa.exists().where(ended.c.run_id == run_id),
        sa.exists().where(reported.c.run_id == run_id),
    )


def _is_unanswered() -> Condition:
    """Return the condition that an approval is an open question of a run that has not ended."""
    has_ended, has_report = _account_of(t.approvals.c.run_id)
    is_open = (t.approvals.c.decision == "asked") & is_last(t.approvals, "run_id")
    return is_open & ~has_ended & ~has_report


def _has_table(handler: str, queue_manager: str, queue: str) -> Condition:
    is_whole = IS_FOR_ALL & (t.runs.c.run_type != "backfill")
    has_table = is_whole & (t.runs.c.rules_source != GIVEN_ACTION)
    return (t.runs.c.handler == handler) & is_on(t.runs, queue_manager, queue) & has_table


def _within(
    since: datetime | None, until: datetime | None, at: sa.ColumnElement[Any]
) -> Iterator[Condition]:
    if since is not None:
        yield at >= since
    if until is not None:
        yield at < until


def _entries(handler: str, chosen: RunFilter) -> sa.Subquery:
    """Return kind, id and time of the entries that a filter chooses."""
    return sa.union_all(*_kinds(handler, chosen)).subquery("entries")


_NOTHING: Final = {
    **dict.fromkeys(("run_type", "queue_manager", "queue", "started_by"), sa.literal("")),
    "dry_run": sa.false(),
    "asked_why": sa.literal(""),
    "named_messages": sa.literal(0),
    "condition": sa.literal(""),
    "why": sa.literal(""),
    "tries": sa.literal(0),
}


def _entry(kind: EntryKind, **columns: Any) -> sa.Select[Any]:
    """Select what a list has of a run by itself; a field that is not given is empty."""
    made = {"kind": sa.literal(kind.value), **_NOTHING, **columns}
    made["started_at"] = sa.type_coerce(made["started_at"], UtcDateTime)
    names = ("kind", "run_id", "started_at", *_NOTHING)
    return sa.select(*(made[name].label(name) for name in names))


def _entry_of(row: Row) -> RunFacts:
    return RunFacts(**row._asdict() | {"kind": EntryKind(row.kind), "dry_run": bool(row.dry_run)})


def _of(table: sa.Table, *names: str) -> dict[str, sa.ColumnElement[Any]]:
    return {name: table.c[name] for name in names}


_STARTED: Final = _entry(EntryKind.RUN, **_of(t.runs, "run_id", "started_at"))
_PRUNED: Final = _entry(
    EntryKind.PRUNED,
    **_of(t.pruned_runs, "run_id", "started_at", "run_type", "started_by"),
    **_of(t.pruned_runs, "queue_manager", "queue", "dry_run"),
    asked_why=t.pruned_runs.c.why,
    why=t.prunes.c.policy,
).join_from(t.pruned_runs, t.prunes)
_RESTORED: Final = _entry(
    EntryKind.RESTORATION,
    **_of(t.restorations, "started_at", "queue_manager", "queue", "dry_run"),
    run_id=t.restorations.c.restoration_id,
    started_by=t.restorations.c.who,
    asked_why=t.restorations.c.why,
    named_messages=_words(t.restorations.c.message_keys),
)


def _kinds(handler: str, chosen: RunFilter) -> Iterator[sa.Select[Any]]:
    def meant(query: sa.Select[Any], table: sa.Table, who: str) -> sa.Select[Any]:
        """Narrow a query to the runs of the handler that started in time, by the right person."""
        query = query.where(table.c.handler == handler)
        query = query.where(*_within(chosen.since, chosen.until, table.c.started_at))
        if chosen.started_by:
            query = query.where(table.c[who].icontains(chosen.started_by, autoescape=True))
        return query.where(table.c.run_type == chosen.run_type) if chosen.run_type else query

    if chosen.state not in {EntryKind.REFUSED, EntryKind.PRUNED, EntryKind.RESTORATION}:
        is_kept = t.runs.c.run_id.not_in(sa.select(t.pruned_runs.c.run_id))
        started = meant(_STARTED.where(is_kept), t.runs, "started_by")
        yield _with_state(started, chosen.state)
    if chosen.state in {"", EntryKind.REFUSED} and not chosen.started_by:
        yield _refusals(handler, chosen)
    if chosen.state in {"", EntryKind.PRUNED}:
        yield meant(_PRUNED, t.pruned_runs, "started_by")
    if chosen.state in {"", EntryKind.RESTORATION} and not chosen.run_type:
        yield meant(_RESTORED, t.restorations, "who")


def _with_state(query: sa.Select[Any], state: str) -> sa.Select[Any]:
    if not state:
        return query
    is_its_last = (t.verdicts.c.run_id == t.runs.c.run_id) & is_last(t.verdicts, "run_id")
    is_meant = t.verdicts.c.verdict == state
    if state == NO_REPORT:
        is_meant = t.verdicts.c.seq.is_(None)
    return query.outerjoin_from(t.runs, t.verdicts, is_its_last).where(is_meant)


def _refusals(handler: str, chosen: RunFilter) -> sa.Select[Any]:
    failure, other = t.failures.c, t.failures.alias()
    begun = (t.runs.c.run_id, t.pruned_runs.c.run_id, t.restorations.c.restoration_id)
    tries = sa.select(sa.func.count()).where(other.c.run_id == failure.run_id)
    query = _entry(
        EntryKind.REFUSED,
        run_id=failure.run_id,
        started_at=failure.at,
        why=failure.why,
        tries=tries.scalar_subquery(),
    ).where(
        failure.handler == handler,
        is_last(t.failures, "run_id"),
        *(failure.run_id.not_in(sa.select(one)) for one in begun),
        *_within(chosen.since, chosen.until, failure.at),
    )
    if chosen.run_type:  # a refused run has no type; its id begins with it
        start = f"{handler}-{chosen.run_type}__"
        query = query.where(failure.run_id.startswith(start, autoescape=True))
    return query
