"""Queries of the entries of a list of runs: which ones a filter chooses, and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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

from mqdlq.ledger.tables.columns import UtcDateTime
from mqdlq.ledger.tables.messages import restorations
from mqdlq.ledger.tables.retention import pruned_runs, prunes
from mqdlq.ledger.tables.runs import failures, looks, runs, sightings, snapshots, verdicts


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


def last_verdicts() -> Subquery:
    """Return the last verdict of each run: its run_id and its seq."""
    return (
        select(verdicts.c.run_id, func.max(verdicts.c.seq).label("seq"))
        .group_by(verdicts.c.run_id)
        .subquery("last_verdicts")
    )


def entries(handler: str, chosen: RunFilter) -> Subquery:
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
    last = last_verdicts()
    query = query.outerjoin(last, last.c.run_id == runs.c.run_id).outerjoin(
        verdicts, verdicts.c.seq == last.c.seq
    )
    if chosen.state == NO_REPORT:
        return query.where(verdicts.c.seq.is_(None))
    return query.where(verdicts.c.verdict == chosen.state)


def _refused(handler: str, chosen: RunFilter) -> Select[Any] | None:
    if chosen.state not in {"", EntryKind.REFUSED} or chosen.started_by:
        return None
    at = func.max(failures.c.at)
    query = _row(EntryKind.REFUSED, failures.c.run_id, at).where(
        failures.c.handler == handler,
        failures.c.run_id.not_in(select(runs.c.run_id)),
        failures.c.run_id.not_in(select(pruned_runs.c.run_id)),
        failures.c.run_id.not_in(select(restorations.c.restoration_id)),
    )
    if chosen.run_type:  # a refused run has no type; its id begins with it
        start = f"{handler}-{chosen.run_type}__"
        query = query.where(failures.c.run_id.startswith(start, autoescape=True))
    return query.group_by(failures.c.run_id).having(*_within(chosen, at))


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
    last = last_verdicts()
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
            func.max(failures.c.seq).label("seq"),
            func.count().label("tries"),
        )
        .where(failures.c.run_id.in_(ids))
        .group_by(failures.c.run_id)
        .subquery("last_failures")
    )
    return select(failures.c.run_id, failures.c.at, failures.c.why, last.c.tries).join(
        last, last.c.seq == failures.c.seq
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


DESCRIPTIONS: Final[Mapping[EntryKind, Any]] = {
    EntryKind.RUN: _describe_runs,
    EntryKind.REFUSED: _describe_refused,
    EntryKind.PRUNED: _describe_pruned,
    EntryKind.RESTORATION: _describe_restorations,
}
