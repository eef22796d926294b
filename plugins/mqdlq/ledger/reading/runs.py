"""Lists of runs: recorded, refused and pruned runs, and restorations, in one order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    String,
    Subquery,
    case,
    func,
    literal,
    select,
    type_coerce,
    union_all,
)

from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.restorations import Restoration
from mqdlq.ledger.runs import Run
from mqdlq.ledger.settled_messages import Settled
from mqdlq.ledger.tables.columns import UtcDateTime
from mqdlq.ledger.tables.messages import leases, restorations
from mqdlq.ledger.tables.retention import pruned_runs, prunes
from mqdlq.ledger.tables.runs import (
    approvals,
    looks,
    passes,
    plans,
    refusals,
    runs,
    sightings,
    snapshots,
    verdict_outcomes,
    verdicts,
)


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
class ListedRun:
    """An entry of a list of runs.

    `at` is when the run or the restoration started, or when the last try was refused. `verdict`,
    `headline` and `why` are those of the last report, "" without one; `why` of a refused run is the
    reason. `asked_why` is the reason or ticket of the person who started it. `messages` is the
    number in the snapshot, None without one. `ended_at` is the time of the last browse or of the
    report. `queue` is "" for a refused run. `tries` counts refusals.
    """

    kind: EntryKind
    run_id: str
    at: datetime
    run_type: str = ""
    started_by: str = ""
    asked_why: str = ""
    queue_manager: str = ""
    queue: str = ""
    dry_run: bool = False
    named_messages: int = 0
    rules_digest: str = ""
    max_run_time_s: int = 0
    messages: int | None = None
    snapshot_id: str = ""
    taken_at: datetime | None = None
    saw_no_work: bool = False
    verdict: str = ""
    headline: str = ""
    why: str = ""
    adds_up: bool | None = None
    attention: int = 0
    ended_at: datetime | None = None
    tries: int = 0


class RunLists(Repository):
    """Runs of a handler as a list, and the facts about single runs that only pages show."""

    def page(
        self, handler: str, chosen: RunFilter, *, offset: int = 0, limit: int = 50
    ) -> list[ListedRun]:
        """Return entries of a handler, the newest first."""
        entries = _entries(handler, chosen)
        query = select(entries).order_by(entries.c.at.desc(), entries.c.id.desc())
        found = self._all(query.offset(offset).limit(limit))
        by_kind: dict[str, list[str]] = {}
        for row in found:
            by_kind.setdefault(row["kind"], []).append(row["id"])
        known: dict[tuple[str, str], ListedRun] = {}
        for kind, ids in by_kind.items():
            for entry in self._described(EntryKind(kind), ids):
                known[kind, entry.run_id] = entry
        return [known[row["kind"], row["id"]] for row in found if (row["kind"], row["id"]) in known]

    def count(self, handler: str, chosen: RunFilter) -> int:
        """Return how many entries of a handler the filter chooses."""
        query = select(func.count()).select_from(_entries(handler, chosen))
        return int(next(iter(self._values(query))))

    def run_types(self, handler: str) -> list[str]:
        """Return the types of a handler's runs, sorted."""
        query = select(runs.c.run_type).where(runs.c.handler == handler).distinct()
        return sorted(self._values(query))

    def outcomes(self, run_ids: Collection[str]) -> dict[str, dict[Settled, int]]:
        """Return the outcomes that the last report of each run counted, by run and decision."""
        last = _last_verdicts()
        names = [field.name for field in fields(Settled)]
        query = select(
            verdict_outcomes.c.run_id,
            *(verdict_outcomes.c[name] for name in names),
            verdict_outcomes.c.messages,
        ).join(last, last.c.seq == verdict_outcomes.c.verdict_seq)
        found: dict[str, dict[Settled, int]] = {}
        for some in in_parts(run_ids):
            for row in self._all(query.where(verdict_outcomes.c.run_id.in_(some))):
                how = Settled(*(row[name] for name in names))
                found.setdefault(row["run_id"], {})[how] = row["messages"]
        return found

    def open_questions(self, run_ids: Collection[str]) -> dict[str, datetime]:
        """Return which of these runs wait for an approval, and since when."""
        newest = select(func.max(approvals.c.seq)).where(approvals.c.run_id.in_(run_ids))
        query = select(approvals.c.run_id, approvals.c.at).where(
            approvals.c.seq.in_(newest.group_by(approvals.c.run_id)),
            approvals.c.decision == "asked",
        )
        return {row["run_id"]: row["at"] for row in self._all(query)}

    def leased_until(self, run_ids: Collection[str], now: datetime) -> dict[str, datetime]:
        """Return which of these runs hold leases at a time, and until when."""
        later = leases.alias()
        is_last = ~(
            select(later.c.seq)
            .where(later.c.message_id == leases.c.message_id, later.c.seq > leases.c.seq)
            .exists()
        )
        query = (
            select(leases.c.run_id, func.max(leases.c.until).label("until"))
            .where(leases.c.run_id.in_(run_ids), leases.c.until > now, is_last)
            .group_by(leases.c.run_id)
        )
        return {row["run_id"]: row["until"] for row in self._all(query)}

    def passes(self, run_id: str) -> list[datetime]:
        """Return when the passes of a run began, in order."""
        query = select(passes.c.started_at).where(passes.c.run_id == run_id)
        return list(self._values(query.order_by(passes.c.seq)))

    def refusals(self, run_id: str) -> list[tuple[datetime, str]]:
        """Return when a run could not begin or act, and why, in order."""
        query = select(refusals.c.at, refusals.c.why).where(refusals.c.run_id == run_id)
        return [(row["at"], row["why"]) for row in self._all(query.order_by(refusals.c.seq))]

    def refused_handler(self, run_id: str) -> str:
        """Return the handler of a refused run, "" if no refusal is recorded."""
        query = select(refusals.c.handler).where(refusals.c.run_id == run_id)
        return next(iter(self._values(query.limit(1))), "")

    def pruned(self, run_id: str) -> ListedRun | None:
        """Return a pruned run, or None."""
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
        """Return a restoration, or None."""
        query = select(restorations).where(restorations.c.restoration_id == restoration_id)
        return self._one(Restoration, query)

    def _described(self, kind: EntryKind, ids: Sequence[str]) -> list[ListedRun]:
        rows = self._all(_DESCRIPTIONS[kind](ids))
        return [ListedRun(kind, **row) for row in rows]


def _last_verdicts() -> Subquery:
    """Return the last verdict of each run: its run_id and its seq."""
    return (
        select(verdicts.c.run_id, func.max(verdicts.c.seq).label("seq"))
        .group_by(verdicts.c.run_id)
        .subquery("last_verdicts")
    )


def _entries(handler: str, chosen: RunFilter) -> Subquery:
    """Return kind, id and time of the entries that a filter chooses."""
    parts = [
        query
        for query in (
            _runs(handler, chosen),
            _refused(handler, chosen),
            _pruned(handler, chosen),
            _restored(handler, chosen),
        )
        if query is not None
    ]
    return union_all(*parts).subquery("entries")


def _row(kind: EntryKind, name: ColumnElement[str], at: ColumnElement[datetime]) -> Select[Any]:
    columns: list[ColumnElement[Any]] = [
        literal(kind.value).label("kind"),
        name.label("id"),
        type_coerce(at, UtcDateTime).label("at"),
    ]
    return select(*columns)


def _within(chosen: RunFilter, at: ColumnElement[datetime]) -> Iterable[ColumnElement[bool]]:
    if chosen.since is not None:
        yield at >= chosen.since
    if chosen.until is not None:
        yield at < chosen.until


def _has(column: ColumnElement[str], part: str) -> ColumnElement[bool]:
    """Return the condition that a column contains a text, in any case."""
    return func.lower(column).contains(part.lower(), autoescape=True)


def _runs(handler: str, chosen: RunFilter) -> Select[Any]:
    query = _row(EntryKind.RUN, runs.c.run_id, runs.c.started_at).where(
        runs.c.handler == handler,
        runs.c.run_id.not_in(select(pruned_runs.c.run_id)),
        *_within(chosen, runs.c.started_at),
    )
    if chosen.run_type:
        query = query.where(runs.c.run_type == chosen.run_type)
    if chosen.started_by:
        query = query.where(_has(runs.c.started_by, chosen.started_by))
    if not chosen.state:
        return query
    last = _last_verdicts()
    query = query.outerjoin(last, last.c.run_id == runs.c.run_id).outerjoin(
        verdicts, verdicts.c.seq == last.c.seq
    )
    if chosen.state == NO_REPORT:
        return query.where(verdicts.c.seq.is_(None))
    return query.where(verdicts.c.verdict == chosen.state)


def _refused(handler: str, chosen: RunFilter) -> Select[Any] | None:
    if chosen.state not in {"", EntryKind.REFUSED} or chosen.started_by:
        return None
    at = func.max(refusals.c.at)
    query = _row(EntryKind.REFUSED, refusals.c.run_id, at).where(
        refusals.c.handler == handler,
        refusals.c.run_id.not_in(select(runs.c.run_id)),
        refusals.c.run_id.not_in(select(pruned_runs.c.run_id)),
    )
    if chosen.run_type:  # a refused run has no type; its id begins with it
        start = f"{handler}-{chosen.run_type}__"
        query = query.where(refusals.c.run_id.startswith(start, autoescape=True))
    return query.group_by(refusals.c.run_id).having(*_within(chosen, at))


def _pruned(handler: str, chosen: RunFilter) -> Select[Any] | None:
    if chosen.state not in {"", EntryKind.PRUNED}:
        return None
    query = _row(EntryKind.PRUNED, pruned_runs.c.run_id, pruned_runs.c.started_at).where(
        pruned_runs.c.handler == handler, *_within(chosen, pruned_runs.c.started_at)
    )
    if chosen.run_type:
        query = query.where(pruned_runs.c.run_type == chosen.run_type)
    if chosen.started_by:
        query = query.where(_has(pruned_runs.c.started_by, chosen.started_by))
    return query


def _restored(handler: str, chosen: RunFilter) -> Select[Any] | None:
    if chosen.state not in {"", EntryKind.RESTORATION} or chosen.run_type:
        return None
    table = restorations.c
    query = _row(EntryKind.RESTORATION, table.restoration_id, table.started_at).where(
        table.handler == handler, *_within(chosen, table.started_at)
    )
    return query.where(_has(table.who, chosen.started_by)) if chosen.started_by else query


def _describe_runs(ids: Sequence[str]) -> Select[Any]:
    last = _last_verdicts()
    last_look = (
        select(looks.c.run_id, func.max(looks.c.seq).label("seq"))
        .where(looks.c.run_id.in_(ids))
        .group_by(looks.c.run_id)
        .subquery("last_looks")
    )
    ended_at = type_coerce(func.coalesce(sightings.c.at, verdicts.c.at), UtcDateTime)
    return (
        select(
            runs.c.run_id,
            runs.c.started_at.label("at"),
            *_named(runs, "run_type", "started_by", "queue_manager", "queue", "dry_run"),
            *_named(runs, "rules_digest", "max_run_time_s"),
            runs.c.why.label("asked_why"),
            _words(runs.c.message_keys).label("named_messages"),
            snapshots.c.messages,
            func.coalesce(snapshots.c.snapshot_id, "").label("snapshot_id"),
            snapshots.c.taken_at,
            func.coalesce(~looks.c.is_work, False).label("saw_no_work"),
            *(func.coalesce(verdicts.c[n], "").label(n) for n in ("verdict", "headline", "why")),
            verdicts.c.adds_up,
            func.coalesce(verdicts.c.attention, 0).label("attention"),
            ended_at.label("ended_at"),
        )
        .outerjoin(snapshots, snapshots.c.run_id == runs.c.run_id)
        .outerjoin(sightings, sightings.c.run_id == runs.c.run_id)
        .outerjoin(last, last.c.run_id == runs.c.run_id)
        .outerjoin(verdicts, verdicts.c.seq == last.c.seq)
        .outerjoin(last_look, last_look.c.run_id == runs.c.run_id)
        .outerjoin(looks, looks.c.seq == last_look.c.seq)
        .where(runs.c.run_id.in_(ids))
    )


def _describe_refused(ids: Sequence[str]) -> Select[Any]:
    last = (
        select(
            func.max(refusals.c.seq).label("seq"),
            func.count().label("tries"),
        )
        .where(refusals.c.run_id.in_(ids))
        .group_by(refusals.c.run_id)
        .subquery("last_refusals")
    )
    return select(refusals.c.run_id, refusals.c.at, refusals.c.why, last.c.tries).join(
        last, last.c.seq == refusals.c.seq
    )


def _describe_pruned(ids: Sequence[str]) -> Select[Any]:
    table = pruned_runs
    return (
        select(
            table.c.run_id,
            table.c.started_at.label("at"),
            *_named(table, "run_type", "started_by", "queue_manager", "queue", "dry_run"),
            table.c.rules_digest,
            table.c.why.label("asked_why"),
            table.c.closed_at.label("ended_at"),
            prunes.c.policy.label("why"),
        )
        .join(prunes, prunes.c.prune_id == table.c.prune_id)
        .where(table.c.run_id.in_(ids))
    )


def _describe_restorations(ids: Sequence[str]) -> Select[Any]:
    table = restorations
    return select(
        table.c.restoration_id.label("run_id"),
        table.c.started_at.label("at"),
        table.c.who.label("started_by"),
        table.c.why.label("asked_why"),
        *_named(table, "queue_manager", "queue", "dry_run"),
        _words(table.c.message_keys).label("named_messages"),
    ).where(table.c.restoration_id.in_(ids))


def _named(table: Any, *names: str) -> list[ColumnElement[Any]]:
    return [table.c[name] for name in names]


def _words(column: ColumnElement[Any]) -> ColumnElement[int]:
    """Count the words in a column of words."""
    text = type_coerce(column, String)
    blanks = func.length(text) - func.length(func.replace(text, " ", ""))
    return case((text == "", 0), else_=blanks + 1)


_DESCRIPTIONS: Final[Mapping[EntryKind, Any]] = {
    EntryKind.RUN: _describe_runs,
    EntryKind.REFUSED: _describe_refused,
    EntryKind.PRUNED: _describe_pruned,
    EntryKind.RESTORATION: _describe_restorations,
}
