"""A run's facts about its messages, one after another: a run id in, rows in browse order out.

For whoever reads all messages of a run: not more than a few thousand of them are held at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import CursorResult, Select, and_, func, select

from mqdlq.ledger import tables
from mqdlq.ledger.facts import Attempt, OutcomeFact
from mqdlq.ledger.reading import LedgerReader
from mqdlq.model import Action, AttemptState, Outcome

_AT_ONCE = 5_000

T = TypeVar("T")


class InStep(Generic[T]):
    """What comes with the browse_seqs of messages, in browse order, handed out message by message.

    So that several sources are read side by side, and none is held.
    """

    def __init__(self, pairs: Iterable[tuple[int, T]]) -> None:
        """Hand out the second of each pair; the first is its browse_seq."""
        self._pairs = iter(pairs)
        self._next = next(self._pairs, None)

    def on(self, browse_seq: int) -> list[T]:
        """Return what there is of one message; what is of messages before it is passed by."""
        found = []
        while self._next is not None and self._next[0] <= browse_seq:
            if self._next[0] == browse_seq:
                found.append(self._next[1])
            self._next = next(self._pairs, None)
        return found


@contextmanager
def _streaming(ledger: LedgerReader, query: Select[Any]) -> Iterator[CursorResult[Any]]:
    """Open a cursor that reads some rows at a time; close it, also before its end was reached."""
    with (
        ledger.engine.connect() as connection,
        connection.execution_options(yield_per=_AT_ONCE).execute(query) as rows,
    ):
        yield rows


class Listed(NamedTuple):
    """A message that a run lists, with its outcome if it has one."""

    browse_seq: int
    message_id: int
    outcome: OutcomeFact | None


def listed_messages(ledger: LedgerReader, run_id: str) -> Iterator[Listed]:
    """Yield the messages of a run's plan, and those it has listed since, in browse order."""
    listed, ended = tables.run_messages, tables.outcomes
    columns = [column for column in ended.c if column.name not in {"run_id", "message_id"}]
    query = (
        select(listed.c.browse_seq, listed.c.message_id, *columns)
        .outerjoin(
            ended,
            and_(ended.c.run_id == listed.c.run_id, ended.c.message_id == listed.c.message_id),
        )
        .where(listed.c.run_id == run_id)
        .order_by(listed.c.browse_seq)
    )
    with _streaming(ledger, query) as rows:
        for row in rows:
            browse_seq, message_id, outcome, *rest = list(row)
            fact = OutcomeFact(message_id, Outcome(outcome), *rest) if outcome else None
            yield Listed(browse_seq, message_id, fact)


def attempts_in_browse_order(ledger: LedgerReader, run_id: str) -> Iterator[tuple[int, Attempt]]:
    """Yield a run's attempts with the browse_seq of their messages, each in its latest state.

    In the order of the messages, those on one message in the order made.
    """
    states, listed, messages = tables.attempt_states, tables.run_messages, tables.messages
    columns = [column for column in states.c if column.name != "seq"]
    query = (
        select(listed.c.browse_seq, *columns, messages.c.message_key)
        .join(
            listed,
            and_(listed.c.run_id == states.c.run_id, listed.c.message_id == states.c.message_id),
        )
        .join(messages, messages.c.message_id == states.c.message_id)
        .where(states.c.run_id == run_id)
        .order_by(listed.c.browse_seq, states.c.seq)
    )
    with _streaming(ledger, query) as rows:
        for row in rows.mappings():
            values = dict(row)
            place = values.pop("browse_seq")
            kinds = {"action": Action(row["action"]), "state": AttemptState(row["state"])}
            yield place, Attempt(**values | kinds)


def has_open_units(ledger: LedgerReader, run_id: str) -> bool:
    """Whether a unit of work of a run is intended, and nobody has settled it."""
    latest = tables.attempt_states
    query = select(latest.c.unit).where(
        latest.c.run_id == run_id, latest.c.state == AttemptState.INTENDED.value
    )
    with ledger.engine.connect() as connection:
        return connection.execute(query.limit(1)).first() is not None


def outcome_counts(ledger: LedgerReader, run_id: str) -> Counter[Outcome]:
    """Count a run's outcomes, but for those of parked messages, which have no rows of their own."""
    table = tables.outcomes
    query = select(table.c.outcome, func.count()).where(table.c.run_id == run_id)
    with ledger.engine.connect() as connection:
        rows = connection.execute(query.group_by(table.c.outcome))
        return Counter({Outcome(outcome): number for outcome, number in rows})


def attempts_between(ledger: LedgerReader, run_id: str) -> tuple[datetime, datetime] | None:
    """Return when a run wrote down the first state of an attempt, and when the last one."""
    table = tables.attempts
    query = select(func.min(table.c.at), func.max(table.c.at)).where(table.c.run_id == run_id)
    with ledger.engine.connect() as connection:
        first, last = connection.execute(query).one()
    return None if first is None else (first, last)
