"""The audit trail: one stream of events over all tables that record what people did."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    LargeBinary,
    Select,
    Text,
    cast,
    func,
    literal,
    null,
    or_,
    select,
    union_all,
)
from sqlalchemy import case as sql_case

from mqdlq.ledger.audit import DECISIONS
from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.reading.message_facts import begins, is_on_queue
from mqdlq.ledger.tables import (
    IS_DISCARDED,
    AuditEvent,
    approvals,
    audit,
    holds,
    learned,
    messages,
    outcomes,
    pruned_outcomes,
    pruned_runs,
    prunes,
    released_holds,
    restoration_states,
    restorations,
    run_messages,
    runs,
)
from mqdlq.model import AuditKind, Outcome, RestorationState


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """The conditions that an event fulfils, all of them.

    `who` is a part of the person's name, in any case. `handlers` are the handlers that the reader
    may see, None for all; an event without a handler concerns all of them. `since` is included,
    `until` is not. `message_key` has the first hexadecimal digits of a key, or all of them.
    """

    who: str = ""
    what: AuditKind | None = None
    handler: str = ""
    handlers: Collection[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    message_key: str = ""
    run_id: str = ""


class AuditTrail(Repository):
    """Read who did what, when and why.

    The events are those of the table `audit`, and the facts of other tables: runs, approvals,
    discards, restorations, legal holds and prunes. Each is in one table only.
    """

    def page(self, wanted: AuditFilter, *, offset: int = 0, limit: int = 100) -> list[AuditEvent]:
        query = self._query(wanted).offset(offset).limit(limit)
        return [_event(row) for row in self._all(query)]

    def events(self, wanted: AuditFilter) -> Iterator[AuditEvent]:
        with self._stream(self._query(wanted)) as rows:
            yield from (_event(row) for row in rows.mappings())

    def _query(self, wanted: AuditFilter) -> Select[Any]:
        if not wanted.message_key:
            return _query(wanted)
        key = wanted.message_key
        return _query(wanted, key, self._ids_of(key, wanted))

    def _ids_of(self, key: str, wanted: AuditFilter) -> list[int]:
        """Return the messages with a key on the queues of the wanted handlers.

        The index of messages begins with the queue, so they are searched queue by queue.
        """
        queues = select(runs.c.queue_manager, runs.c.queue).distinct()
        if wanted.handler:
            queues = queues.where(runs.c.handler == wanted.handler)
        if wanted.handlers is not None:
            queues = queues.where(runs.c.handler.in_(wanted.handlers))
        places = [(row["queue_manager"], row["queue"]) for row in self._all(queues)]
        ids = select(messages.c.message_id).where(*begins(messages.c.message_key, key))
        return [
            message_id
            for some in in_parts(places)
            for message_id in self._values(ids.where(or_(*(is_on_queue(*one) for one in some))))
        ]


_FIELDS: Final = AuditEvent.__slots__


def _query(wanted: AuditFilter, key: str = "", ids: Sequence[int] = ()) -> Select[Any]:
    all_events = union_all(*_branches(key, ids)).subquery()
    column = all_events.c
    query = select(all_events)
    if wanted.who:
        query = query.where(column.who.icontains(wanted.who, autoescape=True))
    if wanted.what is not None:
        query = query.where(column.what == str(wanted.what))
    if wanted.handler:
        query = query.where(column.handler.in_([wanted.handler, ""]))
    if wanted.since is not None:
        query = query.where(column.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(column.at < wanted.until)
    if wanted.run_id:
        query = query.where(column.run_id == wanted.run_id)
    if wanted.handlers is not None:
        query = query.where(column.handler.in_([*wanted.handlers, ""]))
    return query.order_by(column.at.desc(), column.what, column.run_id, column.who, column.why)


def _event(row: Any) -> AuditEvent:
    values = {name: row[name] for name in _FIELDS}
    key = values["message_key"]
    values |= {"what": AuditKind(row["what"]), "message_key": key.hex() if key else ""}
    return AuditEvent(**{**values, "messages": int(row["messages"])})


def _branches(key: str, ids: Sequence[int]) -> Iterator[Select[Any]]:
    yield _recorded(key)
    yield _started(key)
    yield _answered(key)
    yield from _discarded(key, ids)
    yield _restored(key, ids)
    yield from _held(key)
    if not key:
        yield from _of_pruned_runs()
        yield _pruned()


def _as_event(what: AuditKind | ColumnElement[Any], **columns: Any) -> Select[Any]:
    """Return a query with every field of an event; a field that is not given is empty."""
    defaults: dict[str, Any] = {
        "handler": literal(""),
        "run_id": literal(""),
        "message_key": cast(null(), LargeBinary(32)),
        "messages": literal(0),
        "why": literal(""),
        "details": literal(""),
    }
    kind = literal(str(what)) if isinstance(what, AuditKind) else what
    given = {**defaults, **columns, "what": kind}
    return select(*(given[name].label(name) for name in _FIELDS))


def _is_kept() -> ColumnElement[bool]:
    """Return the condition that no prune is removing a run."""
    return ~select(pruned_runs.c.run_id).where(pruned_runs.c.run_id == runs.c.run_id).exists()


def _names(key: str) -> ColumnElement[bool]:
    """Return the condition that a run was started for a message by name, or is any run."""
    if not key:
        return literal(value=True)
    return cast(runs.c.message_keys, Text).contains(f'"{key}')


def _recorded(key: str) -> Select[Any]:
    query = _as_event(
        cast(audit.c.what, Text),
        **{name: audit.c[name] for name in _FIELDS if name != "what"},
    )
    return query.where(*begins(audit.c.message_key, key)) if key else query


def _started(key: str) -> Select[Any]:
    return _start(runs.c).where(_is_kept(), _names(key))


def _start(run: Any, remark: str = "") -> Select[Any]:
    """Return the query for the starts of runs; `run` has the columns of a table of runs."""
    return _as_event(
        AuditKind.RUN_STARTED,
        at=run.started_at,
        who=run.started_by,
        handler=run.handler,
        run_id=run.run_id,
        why=run.why,
        details=_type_of(run) + literal(remark),
    )


def _discards(run: Any, at: ColumnElement[Any], number: Any, details: str) -> Select[Any]:
    """Return the query for the discards of runs; `run` has the columns of a table of runs."""
    return _as_event(
        AuditKind.DISCARDED,
        at=at,
        who=run.started_by,
        handler=run.handler,
        run_id=run.run_id,
        messages=number,
        why=run.why,
        details=literal(details),
    )


def _type_of(column: Any) -> ColumnElement[str]:
    run_type: ColumnElement[str] = column.run_type
    return run_type + sql_case((column.dry_run, literal(", dry run")), else_=literal(""))


def _answered(key: str) -> Select[Any]:
    kinds = {decision: literal(str(kind)) for decision, kind in DECISIONS.items()}
    return (
        _as_event(
            sql_case(kinds, value=approvals.c.decision),
            at=approvals.c.at,
            who=approvals.c.who,
            handler=runs.c.handler,
            run_id=approvals.c.run_id,
            why=approvals.c.why,
            details=cast(approvals.c.guards, Text),
        )
        .join_from(approvals, runs, runs.c.run_id == approvals.c.run_id)
        .where(_is_kept(), _names(key))
    )


def _discarded(key: str, ids: Sequence[int]) -> Iterator[Select[Any]]:
    for table, run_id, condition, details in (
        (outcomes, outcomes.c.run_id, IS_DISCARDED, ""),
        (
            learned,
            learned.c.of_run,
            learned.c.outcome == Outcome.DISCARDED,
            "a later run found the proof",
        ),
    ):
        number = func.count().label("number")
        count = select(run_id.label("id"), number, func.max(table.c.at).label("last"))
        count = count.select_from(table).where(condition).group_by(run_id)
        if key:
            count = count.where(table.c.message_id.in_(ids))
        found = count.subquery()
        query = _discards(runs.c, found.c.last, found.c.number, details)
        yield query.join_from(found, runs, runs.c.run_id == found.c.id).where(_is_kept())


def _restored(key: str, ids: Sequence[int]) -> Select[Any]:
    states = restoration_states.c
    own = (states.restoration_id == restorations.c.restoration_id) & (
        states.state == RestorationState.SELECTED
    )
    if key:
        own &= states.message_id.in_(ids)
    number = select(func.count()).select_from(restoration_states).where(own).scalar_subquery()
    where = restorations.c.to_queue + sql_case(
        (restorations.c.dry_run, literal(", dry run")), else_=literal("")
    )
    query = _as_event(
        AuditKind.RESTORATION_STARTED,
        at=restorations.c.started_at,
        who=restorations.c.who,
        handler=restorations.c.handler,
        run_id=restorations.c.run_id,
        messages=number,
        why=restorations.c.why,
        details=restorations.c.restoration_id + literal(" to ") + where,
    )
    return query.where(number > 0) if key else query


def _held(key: str) -> Iterator[Select[Any]]:
    for what, table in (
        (AuditKind.HOLD_PLACED, holds),
        (AuditKind.HOLD_RELEASED, released_holds),
    ):
        query = _as_event(
            what,
            at=table.c.at,
            who=table.c.who,
            handler=_handler_of_hold(),
            run_id=holds.c.run_id,
            message_key=holds.c.message_key,
            why=table.c.reason,
            details=literal("hold ") + cast(holds.c.hold_id, Text),
        ).select_from(holds)
        if table is released_holds:
            query = query.join(released_holds, released_holds.c.hold_id == holds.c.hold_id)
        yield query.where(*begins(holds.c.message_key, key)) if key else query


def _handler_of_hold() -> ColumnElement[str]:
    """Return the handler of a hold, or the one that had the held run or message."""
    of_run = [
        select(func.min(table.c.handler)).where(table.c.run_id == holds.c.run_id).scalar_subquery()
        for table in (runs, pruned_runs)
    ]
    of_message = (
        select(func.min(runs.c.handler))
        .join(run_messages, run_messages.c.run_id == runs.c.run_id)
        .join(messages, messages.c.message_id == run_messages.c.message_id)
        .where(messages.c.message_key == holds.c.message_key)
        .scalar_subquery()
    )
    own = func.nullif(holds.c.handler, "")
    return func.coalesce(own, *of_run, of_message, "")


def _of_pruned_runs() -> Iterator[Select[Any]]:
    """Yield the queries for the starts and the discards of runs that a prune has removed."""
    yield _start(pruned_runs.c, ", pruned")
    found = (
        select(pruned_outcomes.c.run_id, func.sum(pruned_outcomes.c.messages).label("number"))
        .where(pruned_outcomes.c.outcome == Outcome.DISCARDED, ~pruned_outcomes.c.is_settled)
        .group_by(pruned_outcomes.c.run_id)
        .subquery()
    )
    at = func.coalesce(pruned_runs.c.closed_at, pruned_runs.c.started_at)
    query = _discards(pruned_runs.c, at, found.c.number, "pruned")
    yield query.join_from(found, pruned_runs, pruned_runs.c.run_id == found.c.run_id)


def _pruned() -> Select[Any]:
    return _as_event(
        AuditKind.PRUNED,
        at=prunes.c.at,
        who=prunes.c.who,
        handler=prunes.c.handler,
        details=prunes.c.policy,
    )
