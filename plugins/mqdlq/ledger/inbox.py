"""The inbox: what is on all queues now, by cause, when it arrived, and what people say of it."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from mqdlq.ledger import tables as t
from mqdlq.ledger.audit import audit_row
from mqdlq.ledger.database import (
    Repository,
    Row,
    add,
    columns_of,
    in_turn,
    is_on,
    select_records,
    total,
)
from mqdlq.ledger.messages import is_of_run, run_number
from mqdlq.model import ChangeKind

ARRIVALS_KEPT: Final = timedelta(days=8)
GONE_KEPT: Final = timedelta(days=30)
"""How long a cause without messages keeps its row."""
DIAGNOSES_KEPT: Final = 50
"""How many diagnoses of a cause on a queue are kept."""

Arrivals = Mapping[tuple[str, datetime], int]
"""Messages by cause_id and the hour of dead-lettering."""


class BookedNumbers(NamedTuple):
    """The numbers of a cause, with the run that booked them, and when it looked.

    `place` is the queue manager and the queue.
    """

    run_id: str
    is_whole: bool
    looked_at: datetime
    handler: str
    place: tuple[str, str]
    numbers: t.CauseNumbers

    @property
    def key(self) -> tuple[int, str]:
        return self.numbers.reason, self.numbers.cause_id


def is_of_whole_queue(run: t.Run) -> bool:
    """Whether a run looks at all messages of its queue."""
    return not run.is_for_some and run.run_type != "backfill"


class Inbox(Repository):
    """The messages of each cause on each queue, as runs last counted them, and arrivals by hour."""

    def book(
        self,
        run: t.Run,
        found: Iterable[t.CauseNumbers],
        looked_at: datetime,
        arrivals: Arrivals = MappingProxyType({}),
        *,
        is_judged: bool,
    ) -> None:
        """Book what a run knows of the causes on its queue after its look at a time.

        What a run has booked before is replaced; a run that saw the whole queue also replaces the
        numbers of all runs that looked before it did. Nothing is replaced by an earlier look. So
        what a run for some messages moved while another run browsed the whole queue may count until
        the next run. Messages that are not judged yet need attention if they came since the last
        look. Arrivals are booked once.
        """
        is_whole = is_of_whole_queue(run)
        with in_turn(self._engine) as connection:
            rows = _booked(connection.execute(_of_queue(run)))
            others = [row.looked_at for row in rows if row.is_whole and row.run_id != run.run_id]
            if max(others, default=looked_at) <= looked_at:
                old = [
                    row
                    for row in rows
                    if row.run_id == run.run_id or (is_whole and row.looked_at <= looked_at)
                ]
                made = {(one.reason, one.cause_id): one for one in found}
                if is_whole:
                    made = _carried(made, old, looked_at, is_judged=is_judged)
                gone = t.cause_numbers.c.run_id.in_({row.run_id for row in old})
                connection.execute(sa.delete(t.cause_numbers).where(gone))
                about = {"run_id": run.run_id, "is_whole": is_whole, "looked_at": looked_at}
                add(connection, t.cause_numbers, [about | asdict(one) for one in made.values()])
            _book_arrivals(connection, run, arrivals, looked_at)

    def of_queue(self, run: t.Run) -> list[BookedNumbers]:
        """Return the numbers on the queue of a run, as runs of its handler counted them."""
        return _booked(self._rows(_of_queue(run)))

    def all(self) -> list[BookedNumbers]:
        return _booked(self._rows(_select()))

    def messages(self, cause_ids: Collection[str]) -> Counter[str]:
        """Count the messages of causes on all queues."""
        one = t.cause_numbers.c
        query = sa.select(one.cause_id, total(one.messages)).group_by(one.cause_id)
        return Counter(dict(tuple(row) for row in self._among(query, one.cause_id, cause_ids)))

    def attention(self) -> dict[tuple[str, str, str], int]:
        """Count the messages that need attention by handler, queue manager and queue."""
        place, number = t.runs.c["handler", "queue_manager", "queue"], t.cause_numbers.c.attention
        query = sa.select(*place, total(number)).join_from(t.cause_numbers, t.runs)
        rows = self._rows(query.group_by(*place))
        return {(row[0], row[1], row[2]): max(row[3], 0) for row in rows}

    def new_messages(self, run_id: str) -> array[int]:
        """Return the browse_seqs of the messages that a run met before all other runs."""
        own, other = t.listed_messages, t.listed_messages.alias("other")
        is_known = sa.exists().where(
            other.c.message_id == own.c.message_id, other.c.run_no < own.c.run_no
        )
        query = (
            sa.select(own.c.browse_seq)
            .join(t.messages, t.messages.c.message_id == own.c.message_id)
            .where(is_of_run(own, run_id), t.messages.c.residence == 0, ~is_known)
        )
        found: array[int] = array("q")
        with self._stream(query) as rows:
            for part in rows.scalars().partitions():
                found.extend(part)
        return found

    def arrivals(
        self, cause_ids: Collection[str], handlers: Collection[str], since: datetime
    ) -> dict[str, Counter[datetime]]:
        """Count arrivals since a time by cause and hour, on the queues of these handlers."""
        one = t.arrivals.c
        query = (
            sa.select(one.cause_id, one.hour, t.runs.c.handler, total(one.messages))
            .join(t.runs, t.runs.c.run_no == one.run_no)
            .where(one.hour >= since)
            .group_by(one.cause_id, one.hour, t.runs.c.handler)
        )
        found: dict[str, Counter[datetime]] = {}
        for cause_id, hour, handler, messages in self._among(query, one.cause_id, cause_ids):
            if handler in handlers:
                found.setdefault(cause_id, Counter())[hour] += messages
        return found


def _select() -> sa.Select[Any]:
    about = t.cause_numbers.c["run_id", "is_whole", "looked_at"]
    place = t.runs.c["handler", "queue_manager", "queue"]
    numbers = columns_of(t.cause_numbers, t.CauseNumbers)
    return sa.select(*about, *place, *numbers).join(t.runs)


def _of_queue(run: t.Run) -> sa.Select[Any]:
    own = (t.runs.c.handler == run.handler) & is_on(t.runs, run.queue_manager, run.queue)
    return _select().where(own)


def _booked(rows: Iterable[Row]) -> list[BookedNumbers]:
    return [
        BookedNumbers(
            *(row.run_id, row.is_whole, row.looked_at, row.handler),
            *((row.queue_manager, row.queue), t.CauseNumbers(*row[6:])),
        )
        for row in rows
    ]


def _carried(
    found: Mapping[tuple[int, str], t.CauseNumbers],
    old: Sequence[BookedNumbers],
    looked_at: datetime,
    *,
    is_judged: bool,
) -> dict[tuple[int, str], t.CauseNumbers]:
    """Add what earlier looks knew of causes: when each began, and those that are gone."""
    made, known, open_ones = dict(found), Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for row in old:
        key, before = row.key, row.numbers
        known[key] += before.messages
        open_ones[key] += before.attention
        if (one := made.get(key)) is not None:
            made[key] = replace(
                one,
                first_at=min(filter(None, (one.first_at, before.first_at)), default=None),
                last_at=max(filter(None, (one.last_at, before.last_at)), default=None),
            )
        elif before.last_at is not None and before.last_at >= looked_at - GONE_KEPT:
            made[key] = t.CauseNumbers(
                *(before.message_class, before.reason, before.cause_id),
                *(before.dest_q_name, before.dest_q_mgr_name),
                first_at=before.first_at,
                last_at=before.last_at,
            )
    for key, one in () if is_judged else tuple(made.items()):
        came = max(one.messages - known[key], 0)
        made[key] = replace(one, attention=min(came + max(open_ones[key], 0), one.messages))
    return made


def _book_arrivals(
    connection: sa.Connection, run: t.Run, arrivals: Arrivals, now: datetime
) -> None:
    connection.execute(sa.delete(t.arrivals).where(t.arrivals.c.hour < now - ARRIVALS_KEPT))
    run_no = run_number(connection, run.run_id)
    booked = sa.select(t.arrivals.c.run_no).where(t.arrivals.c.run_no == run_no)
    if connection.execute(booked.limit(1)).first() is None:
        rows = [
            {"run_no": run_no, "cause_id": cause_id, "hour": hour, "messages": messages}
            for (cause_id, hour), messages in arrivals.items()
            if hour >= now - ARRIVALS_KEPT
        ]
        add(connection, t.arrivals, rows)


class CauseChanges(Repository):
    """What people say of causes: states, notes and tickets, shared by all who see a cause."""

    def add(self, changes: Sequence[t.CauseChange], events: Sequence[t.AuditEvent] = ()) -> None:
        """Add changes with their events in the audit; two people may change a cause at once."""
        with self._engine.begin() as connection:
            add(connection, t.cause_changes, [asdict(one) for one in changes])
            add(connection, t.audit, [audit_row(event) for event in events])

    def end_mute(self, change: t.CauseChange) -> bool:
        """Add the end of a mute; return False if another change of the state came first."""
        with in_turn(self._engine) as connection:
            state = t.cause_changes.c
            query = sa.select(state.kind).where(
                state.cause_id == change.cause_id, state.kind.in_(sorted(STATES))
            )
            last = connection.scalars(query.order_by(state.seq.desc()).limit(1)).first()
            if last is not ChangeKind.MUTED:
                return False
            add(connection, t.cause_changes, [asdict(change)])
            return True

    def last(self) -> dict[str, list[t.CauseChange]]:
        """Return the last state, note and ticket of each cause that has one."""
        one = t.cause_changes.c
        about = sa.case((one.kind.in_(sorted(STATES)), ""), else_=one.kind)
        newest = sa.select(sa.func.max(one.seq)).group_by(one.cause_id, about)
        found: dict[str, list[t.CauseChange]] = {}
        for change in self._list(t.CauseChange, _CHANGES.where(one.seq.in_(newest))):
            found.setdefault(change.cause_id, []).append(change)
        return found

    def of_cause(self, cause_id: str) -> list[t.CauseChange]:
        """Return all changes of a cause, the last one first."""
        query = _CHANGES.where(t.cause_changes.c.cause_id == cause_id)
        return self._list(t.CauseChange, query.order_by(t.cause_changes.c.seq.desc()))


class Diagnoses(Repository):
    """What diagnoses found of causes, as long as it is among the last ones of its cause."""

    def keep(self, new: t.KnownDiagnosis, *, extends_last: bool) -> None:
        """Keep a diagnosis; one that extends the last of its cause only takes its place in time."""
        one = t.diagnoses.c
        with in_turn(self._engine) as connection:
            of = _of_cause(new.handler, new.queue_manager, new.queue, new.cause_id)
            query = sa.select(one.seq, one.first_at).where(of).order_by(one.seq.desc())
            known = connection.execute(query).all()
            forgotten = [row.seq for row in known[DIAGNOSES_KEPT - 1 :]]
            if extends_last and known:
                forgotten.append(known[0].seq)
                new = replace(new, first_at=known[0].first_at)
            connection.execute(sa.delete(t.diagnoses).where(one.seq.in_(forgotten)))
            add(connection, t.diagnoses, [asdict(new)])

    def of_cause(
        self, handler: str, queue_manager: str, queue: str, cause_id: str
    ) -> list[t.KnownDiagnosis]:
        """Return the diagnoses of a cause on a queue, the last one first."""
        is_meant = _of_cause(handler, queue_manager, queue, cause_id)
        query = _DIAGNOSES.where(is_meant).order_by(t.diagnoses.c.seq.desc())
        return self._list(t.KnownDiagnosis, query)

    def since_start(self, run: t.Run) -> list[t.KnownDiagnosis]:
        """Return what was diagnosed of the causes on a run's queue since the run started."""
        one, place = t.diagnoses.c, (run.handler, run.queue_manager, run.queue)
        of = sa.tuple_(one.handler, one.queue_manager, one.queue) == place
        return self._list(
            t.KnownDiagnosis,
            _DIAGNOSES.where(of, one.last_at >= run.started_at).order_by(one.seq),
        )


def _of_cause(
    handler: str, queue_manager: str, queue: str, cause_id: str
) -> sa.ColumnElement[bool]:
    one, given = t.diagnoses.c, (handler, queue_manager, queue, cause_id)
    return sa.tuple_(one.handler, one.queue_manager, one.queue, one.cause_id) == given


STATES: Final = frozenset(ChangeKind) - {ChangeKind.NOTE, ChangeKind.TICKET}
"""The kinds of changes that are states, of which the last one counts."""
_CHANGES: Final = select_records(t.cause_changes, t.CauseChange)
_DIAGNOSES: Final = select_records(t.diagnoses, t.KnownDiagnosis)
