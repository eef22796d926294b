"""The audit trail: one stream of events over all tables that record what people did."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.ledger import tables as t
from mqdlq.ledger.audit import DECISIONS
from mqdlq.ledger.database import Condition, Repository, Row, in_parts, total
from mqdlq.ledger.messages import is_at
from mqdlq.ledger.reading.message_facts import begins
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

    def page(self, wanted: AuditFilter, *, offset: int = 0, limit: int = 100) -> list[t.AuditEvent]:
        query = self._query(wanted).offset(offset).limit(limit)
        return [_event(row) for row in self._rows(query)]

    def events(self, wanted: AuditFilter) -> Iterator[t.AuditEvent]:
        with self._stream(self._query(wanted)) as rows:
            yield from (_event(row) for row in rows)

    def _query(self, wanted: AuditFilter) -> sa.Select[Any]:
        ids = self._ids_of(wanted) if wanted.message_key else ()
        event = sa.union_all(*_branches(wanted.message_key, ids)).subquery()
        column = event.c
        query = sa.select(event)
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

    def _ids_of(self, wanted: AuditFilter) -> list[int]:
        """Return the messages with a key, searched queue by queue, as their index is."""
        queues = sa.select(*t.runs.c["queue_manager", "queue"]).distinct()
        if wanted.handler:
            queues = queues.where(t.runs.c.handler == wanted.handler)
        if wanted.handlers is not None:
            queues = queues.where(t.runs.c.handler.in_(wanted.handlers))
        message = t.messages.c
        ids = sa.select(message.message_id).where(*begins(message.message_key, wanted.message_key))
        return [
            message_id
            for some in in_parts(self._rows(queues))
            for message_id in self._values(ids.where(sa.or_(*(is_at(*place) for place in some))))
        ]


_FIELDS: Final = t.AuditEvent.__slots__


def _event(row: Row) -> t.AuditEvent:
    key = row.message_key.hex() if row.message_key else ""
    made = {"what": AuditKind(row.what), "message_key": key, "messages": int(row.messages)}
    return t.AuditEvent(**row._asdict() | made)


def _branches(key: str, ids: Sequence[int]) -> Iterator[sa.Select[Any]]:
    yield _recorded(key)
    yield _start(t.runs.c).where(_IS_KEPT, _names(key))
    yield _answered(key)
    yield from _discarded(key, ids)
    yield _restored(key, ids)
    yield from _held(key)
    if not key:
        yield from _of_pruned_runs()
        columns = {name: t.prunes.c[name] for name in ("at", "who", "handler")}
        yield _as_event(AuditKind.PRUNED, **columns, details=t.prunes.c.policy)


def _as_event(what: AuditKind | sa.ColumnElement[Any], **columns: Any) -> sa.Select[Any]:
    """Select every field of an event; a field that is not given is empty."""
    texts = ("handler", "run_id", "why", "details")
    defaults: dict[str, Any] = dict.fromkeys(texts, sa.literal("")) | {
        "message_key": sa.cast(sa.null(), sa.LargeBinary(32)),
        "messages": sa.literal(0),
        "what": sa.literal(str(what)) if isinstance(what, AuditKind) else what,
    }
    return sa.select(*((defaults | columns)[name].label(name) for name in _FIELDS))


_IS_KEPT: Final = ~sa.exists().where(t.pruned_runs.c.run_id == t.runs.c.run_id)
"""The condition that no prune is removing a run."""


def _names(key: str) -> Condition:
    """Return the condition that a run was started for a message by name, or is any run."""
    # The keys are words in one text; this one may be given by its beginning.
    words = sa.literal(" ") + sa.cast(t.runs.c.message_keys, sa.Text)
    return words.contains(f" {key}") if key else sa.true()


def _recorded(key: str) -> sa.Select[Any]:
    columns = {name: t.audit.c[name] for name in _FIELDS if name != "what"}
    query = _as_event(sa.cast(t.audit.c.what, sa.Text), **columns)
    return query.where(*begins(t.audit.c.message_key, key)) if key else query


def _of_run(what: AuditKind, run: Any, **columns: Any) -> sa.Select[Any]:
    """Select events of runs; `run` has the columns of a table of runs."""
    names = {"who": run.started_by, "handler": run.handler, "run_id": run.run_id, "why": run.why}
    return _as_event(what, **names, **columns)


def _start(run: Any, remark: str = "") -> sa.Select[Any]:
    kind = run.run_type + sa.case((run.dry_run, sa.literal(", dry run")), else_=sa.literal(""))
    if "condition" in run:
        meets = sa.literal(", for messages with ") + run.condition
        kind += sa.case((run.condition != "", meets), else_=sa.literal(""))
    details = kind + sa.literal(remark)
    return _of_run(AuditKind.RUN_STARTED, run, at=run.started_at, details=details)


def _answered(key: str) -> sa.Select[Any]:
    kinds = {decision: sa.literal(str(kind)) for decision, kind in DECISIONS.items()}
    asked = t.approvals.c
    return (
        _as_event(
            sa.case(kinds, value=asked.decision),
            **{name: asked[name] for name in ("at", "who", "run_id", "why")},
            handler=t.runs.c.handler,
            details=sa.cast(asked.guards, sa.Text),
        )
        .join_from(t.approvals, t.runs, t.runs.c.run_id == asked.run_id)
        .where(_IS_KEPT, _names(key))
    )


def _discarded(key: str, ids: Sequence[int]) -> Iterator[sa.Select[Any]]:
    is_learned, lots = t.learned.c.outcome == Outcome.DISCARDED, t.outcome_lots
    booked: Any = (t.outcomes, t.outcomes.c.run_id, t.IS_DISCARDED, sa.func.count(), "")
    if not key:  # the lots of a run have the number of its messages
        booked = (lots, t.runs.c.run_id, t.IS_DISCARDED, total(lots.c.messages), "")
    remark = "a later run found the proof"
    for table, run_id, condition, number, details in (
        booked,
        (t.learned, t.learned.c.of_run, is_learned, sa.func.count(), remark),
    ):
        last = sa.func.max(table.c.at).label("last")
        count = sa.select(run_id.label("id"), number.label("number"), last).select_from(table)
        count = count.where(condition).group_by(run_id)
        if table is lots:
            count = count.join(t.runs)
        if key:
            count = count.where(table.c.message_id.in_(ids))
        found = count.subquery()
        columns = {"at": found.c.last, "messages": found.c.number, "details": sa.literal(details)}
        query = _of_run(AuditKind.DISCARDED, t.runs.c, **columns)
        yield query.join_from(found, t.runs, t.runs.c.run_id == found.c.id).where(_IS_KEPT)


def _restored(key: str, ids: Sequence[int]) -> sa.Select[Any]:
    states, asked = t.restoration_states.c, t.restorations.c
    own = states.restoration_id == asked.restoration_id
    own &= states.state == RestorationState.SELECTED
    if key:
        own &= states.message_id.in_(ids)
    number = sa.select(sa.func.count()).select_from(t.restoration_states).where(own)
    remark = sa.case((asked.dry_run, sa.literal(", dry run")), else_=sa.literal(""))
    query = _as_event(
        AuditKind.RESTORATION_STARTED,
        **{name: asked[name] for name in ("who", "handler", "run_id", "why")},
        at=asked.started_at,
        messages=number.scalar_subquery(),
        details=asked.restoration_id + sa.literal(" to ") + asked.to_queue + remark,
    )
    return query.where(number.scalar_subquery() > 0) if key else query


def _held(key: str) -> Iterator[sa.Select[Any]]:
    for what, table in (
        (AuditKind.HOLD_PLACED, t.holds),
        (AuditKind.HOLD_RELEASED, t.released_holds),
    ):
        query = _as_event(
            what,
            at=table.c.at,
            who=table.c.who,
            handler=_handler_of_hold(),
            run_id=t.holds.c.run_id,
            message_key=t.holds.c.message_key,
            why=table.c.reason,
            details=sa.literal("hold ") + sa.cast(t.holds.c.hold_id, sa.Text),
        ).select_from(t.holds)
        if table is t.released_holds:
            query = query.join(t.released_holds, table.c.hold_id == t.holds.c.hold_id)
        yield query.where(*begins(t.holds.c.message_key, key)) if key else query


def _handler_of_hold() -> sa.ColumnElement[str]:
    """Return the handler of a hold, or the one that had the held run or message."""
    of_run = [
        sa.select(sa.func.min(table.c.handler)).where(table.c.run_id == t.holds.c.run_id)
        for table in (t.runs, t.pruned_runs)
    ]
    of_message = (
        sa.select(sa.func.min(t.runs.c.handler))
        .join(t.run_messages, t.run_messages.c.run_id == t.runs.c.run_id)
        .join(t.messages, t.messages.c.message_id == t.run_messages.c.message_id)
        .where(t.messages.c.message_key == t.holds.c.message_key)
    )
    found = [query.scalar_subquery() for query in (*of_run, of_message)]
    return sa.func.coalesce(sa.func.nullif(t.holds.c.handler, ""), *found, "")


def _of_pruned_runs() -> Iterator[sa.Select[Any]]:
    run, counted = t.pruned_runs.c, t.pruned_outcomes.c
    yield _start(run, ", pruned")
    found = (
        sa.select(counted.run_id, sa.func.sum(counted.messages).label("number"))
        .where(counted.outcome == Outcome.DISCARDED, ~counted.is_settled)
        .group_by(counted.run_id)
        .subquery()
    )
    at = sa.func.coalesce(run.closed_at, run.started_at)
    columns = {"at": at, "messages": found.c.number, "details": sa.literal("pruned")}
    query = _of_run(AuditKind.DISCARDED, run, **columns)
    yield query.join_from(found, t.pruned_runs, run.run_id == found.c.run_id)
