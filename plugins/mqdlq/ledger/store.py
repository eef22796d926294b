"""The ledger's write side: facts in, each in a transaction of its own, over any SQL database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import count, islice
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, Table, insert, select
from sqlalchemy.exc import IntegrityError

from mqdlq import home
from mqdlq.errors import LedgerError
from mqdlq.ledger import tables
from mqdlq.ledger.database import connect_to, in_turn
from mqdlq.ledger.departures import has_departed
from mqdlq.ledger.facts import Attempt, Learned, OutcomeFact, Run, Sighting
from mqdlq.ledger.migrations import migrate
from mqdlq.ledger.reading import LedgerReader
from mqdlq.model import AttemptState, Disposition

KEYS_AT_ONCE = 500  # below every database's limit of bound parameters
OUTCOMES_AT_ONCE = 5_000

ATTEMPT = [column.name for column in tables.attempts.columns if column.name != "seq"]
OUTCOME = [column.name for column in tables.outcomes.columns if column.name != "run_id"]

Place = tuple[bytes, int]  # a message key and its occurrence
Known = Mapping[Place, tuple[int | None, int]]


class Ledger(LedgerReader):
    """Append-only facts about runs, their messages, attempts and outcomes.

    Nothing is updated or deleted; a fact that is already there is refused.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.engine.dispose()

    def record_run(self, run: Run) -> None:
        """Record a run at its start."""
        self._add(tables.runs, asdict(run))

    def record_refusal(self, run_id: str, handler: str, why: str, at: datetime) -> None:
        """Record that a run could not begin, and why; it may be tried again."""
        self._add(tables.refusals, {"run_id": run_id, "handler": handler, "why": why, "at": at})

    def record_snapshot(
        self,
        run_id: str,
        snapshot_id: str,
        location: str,
        messages: int,
        taken_at: datetime,
        *,
        parked: int = 0,
    ) -> None:
        """Record the snapshot a run works on; `parked` of its messages have compact rows."""
        values = {"snapshot_id": snapshot_id, "location": location, "messages": messages}
        with self.engine.begin() as connection:
            snapshot = {"run_id": run_id, **values, "taken_at": taken_at}
            connection.execute(insert(tables.snapshots), snapshot)
            if parked:
                compact = {"run_id": run_id, "parked": parked}
                connection.execute(insert(tables.compact_snapshots), compact)

    def record_plan(
        self,
        run: Run,
        plan: dict[str, Any],
        rows: Iterable[tuple[int, bytes, Disposition]],
        parked: Mapping[bytes, Collection[int]] | None = None,
    ) -> None:
        """Record an accepted plan and its messages, (browse_seq, message_key, disposition) each.

        The k-th of equal keys is the k-th that has not departed and is none of the `parked`
        occurrences; only beyond those it is a new one. A message whose last residence on the queue
        ended (it was delivered, forwarded, discarded, taken, or expired) is back in a new one.
        """
        given = _Occurrences(parked or {})
        with in_turn(self.engine) as connection:
            connection.execute(insert(tables.plans), {"run_id": run.run_id, **plan})
            rest = iter(rows)
            while batch := list(islice(rest, KEYS_AT_ONCE)):
                known = _known(connection, run, {key for _, key, _ in batch})
                here = _still_here(connection, known)
                places = [(key, given.next_of(key, here.get(key, ()))) for _, key, _ in batch]
                ids = _message_ids(connection, run, places, known)
                listed = [
                    {
                        "run_id": run.run_id,
                        "message_id": ids[place],
                        "browse_seq": browse_seq,
                        "disposition": disposition.value,
                    }
                    for place, (browse_seq, _, disposition) in zip(places, batch, strict=True)
                ]
                connection.execute(insert(tables.run_messages), listed)

    def add_attempts(
        self,
        attempts: Sequence[Attempt],
        outcomes: Sequence[tuple[str, OutcomeFact]] = (),
        learned: Sequence[Learned] = (),
    ) -> None:
        """Add the states that attempts have come to and, with them, (run_id, outcome) pairs.

        `learned` is of messages whose outcome was booked before its proof came. All of it in one
        transaction, durable when this returns. Raises LedgerError, and writes nothing, where one of
        the messages has an outcome in its run already, or was learned of.
        """
        # Not by asdict, which copies deeply: this is written for every message that moves.
        rows = [{name: getattr(attempt, name) for name in ATTEMPT} for attempt in attempts]
        ends = [_end(run_id, fact) for run_id, fact in outcomes]
        try:
            with self.engine.begin() as connection:
                _insert(connection, tables.attempts, rows)
                _insert(connection, tables.outcomes, ends)
                _insert(connection, tables.learned, [asdict(fact) for fact in learned])
        except IntegrityError as error:
            if not learned and not any(_is_booked(self.engine, end) for end in ends):
                raise
            run_id = learned[0].of_run if learned else ends[0]["run_id"]
            raise _settled_by_another(run_id) from error

    def add_outcomes(self, run_id: str, outcomes: Iterable[OutcomeFact]) -> None:
        """Add outcomes of a run, in one transaction, however many; a message has one in a run.

        Raises LedgerError, and writes nothing, as `add_attempts` does.
        """
        facts = iter(outcomes)
        ends: list[dict[str, Any]] = []
        try:
            with self.engine.begin() as connection:
                while some := list(islice(facts, OUTCOMES_AT_ONCE)):
                    ends = [_end(run_id, fact) for fact in some]
                    connection.execute(insert(tables.outcomes), ends)
        except IntegrityError as error:
            if not any(_is_booked(self.engine, end) for end in ends):
                raise
            raise _settled_by_another(run_id) from error

    def record_pass(self, run_id: str, started_at: datetime) -> None:
        """Record that a pass of a run begins."""
        self._add(tables.passes, {"run_id": run_id, "started_at": started_at})

    def add_leases(self, run_id: str, message_ids: Iterable[int], until: datetime) -> None:
        """Let a run own messages until then; a lease that ends now gives them up."""
        rows = [{"message_id": key, "run_id": run_id, "until": until} for key in message_ids]
        with self.engine.begin() as connection:
            _insert(connection, tables.leases, rows)

    def record_copies(
        self, run_id: str, location: str, digests: dict[int, str], at: datetime
    ) -> None:
        """Record archive copies that were read back: message id to SHA-256 of key and body."""
        rows = [
            {"run_id": run_id, "message_id": key, "location": location, "digest": digest, "at": at}
            for key, digest in digests.items()
        ]
        with self.engine.begin() as connection:
            _insert(connection, tables.archive, rows)

    def record_sighting(self, run_id: str, sighting: Sighting) -> None:
        """Record what the last browse of a run found."""
        self._add(tables.sightings, {"run_id": run_id, **asdict(sighting)})

    def _add(self, table: Table, values: dict[str, Any]) -> None:
        with self.engine.begin() as connection:
            connection.execute(insert(table), values)


def _end(run_id: str, fact: OutcomeFact) -> dict[str, Any]:
    return {"run_id": run_id, **{name: getattr(fact, name) for name in OUTCOME}}


def _settled_by_another(run_id: str) -> LedgerError:
    return LedgerError(
        f"another executor has settled this unit of work of run {run_id} in the meantime,"
        " and booked how its messages ended; nothing was done twice, and this one ends here"
    )


def _is_booked(engine: Engine, end: dict[str, Any]) -> bool:
    table = tables.outcomes
    query = select(table.c.outcome).where(
        table.c.run_id == end["run_id"], table.c.message_id == end["message_id"]
    )
    with engine.connect() as connection:
        return connection.execute(query).first() is not None


class _Occurrences:
    """Which occurrence each sighting of a key is: those still here first, then new ones.

    Nearly all keys are met once: an iterator is made for the others only.
    """

    def __init__(self, parked: Mapping[bytes, Collection[int]]) -> None:
        self._parked = parked
        self._given: dict[bytes, int | Iterator[int]] = {}

    def next_of(self, key: bytes, here: Sequence[int]) -> int:
        """Return that of the next sighting; `here` are those that have not departed."""
        given = self._given.get(key)
        if not isinstance(given, Iterator):
            taken = {given, *self._parked.get(key, ())}
            rest = _untaken(here, taken)
            occurrence = next(rest)
            self._given[key] = occurrence if given is None else rest
            return occurrence
        return next(given)


def _untaken(here: Sequence[int], taken: Collection[int | None]) -> Iterator[int]:
    first = [occurrence for occurrence in here if occurrence not in taken]
    yield from first
    yield from (other for other in count() if other not in taken and other not in first)


def _insert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _still_here(connection: Connection, known: Known) -> dict[bytes, list[int]]:
    """Return by key which occurrences have not departed, those in doubt last, as a browse does."""
    here: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for (key, occurrence), (message_id, _) in known.items():
        if message_id is not None:
            here[key].append((occurrence, message_id))
    of_twins = [message_id for twins in here.values() if len(twins) > 1 for _, message_id in twins]
    doubt = _in_doubt(connection, of_twins) if of_twins else frozenset[int]()
    return {
        key: [occurrence for occurrence, _ in sorted(twins, key=lambda t: (t[1] in doubt, t[0]))]
        for key, twins in here.items()
    }


def _in_doubt(connection: Connection, message_ids: Sequence[int]) -> Collection[int]:
    """Return which of these messages are in a unit of work that nobody could settle."""
    states = tables.attempt_states
    found: set[int] = set()
    for start in range(0, len(message_ids), KEYS_AT_ONCE):
        query = select(states.c.message_id).where(
            states.c.message_id.in_(message_ids[start : start + KEYS_AT_ONCE]),
            states.c.state == AttemptState.UNKNOWN.value,
        )
        found.update(connection.scalars(query))
    return found


def _message_ids(
    connection: Connection, run: Run, places: Sequence[Place], known: Known
) -> dict[Place, int]:
    """Return the ids of messages by place, adding those that are new or in a new residence."""
    added = []
    for place in places:
        message_id, residence = known.get(place, (None, 0))
        if message_id is None:
            added.append(
                {
                    "queue_manager": run.queue_manager,
                    "queue": run.queue,
                    "message_key": place[0],
                    "occurrence": place[1],
                    "residence": residence,
                }
            )
    if added:
        _insert(connection, tables.messages, added)
        known = _known(connection, run, {key for key, _ in places})
    ids = {place: found for place, (found, _) in known.items() if found}
    return {place: ids[place] for place in places}


def _known(connection: Connection, run: Run, keys: set[bytes]) -> Known:
    """Map known places to (message id, residence), or to (None, next residence) if it ended."""
    table = tables.messages
    query = (
        select(table, has_departed(table.c.message_id).label("departed"))
        .where(
            table.c.queue_manager == run.queue_manager,
            table.c.queue == run.queue,
            table.c.message_key.in_(keys),
        )
        .order_by(table.c.residence)
    )
    return {
        (row.message_key, row.occurrence): (
            (None, row.residence + 1) if row.departed else (row.message_id, row.residence)
        )
        for row in connection.execute(query)
    }


def open_ledger(url: str | None = None) -> Ledger:
    """Open the ledger at a database URL, bringing its schema up to date.

    The default is the URL of `home.ledger_url`. Raises LedgerUnavailableError if the database
    cannot be reached, opened or used.
    """
    engine = connect_to(url or home.ledger_url())
    try:
        migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return Ledger(engine)
