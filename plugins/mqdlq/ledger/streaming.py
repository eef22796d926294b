"""A run's facts about its messages, one after another: a run id in, rows in browse order out.

For whoever reads all messages of a run: not more than a few thousand of them are held at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import and_, func, select

from mqdlq.ledger import schema
from mqdlq.ledger.facts import Attempt, OutcomeFact
from mqdlq.ledger.reading import LedgerReader
from mqdlq.model import Action, AttemptState, Outcome

_AT_ONCE = 5_000


class Listed(NamedTuple):
    """A message that a run lists, with its outcome if it has one."""

    browse_seq: int
    message_id: int
    outcome: OutcomeFact | None


def listed_messages(ledger: LedgerReader, run_id: str) -> Iterator[Listed]:
    """Yield the messages of a run's plan, and those it has listed since, in browse order."""
    listed, ended = schema.run_messages, schema.outcomes
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
    with ledger.engine.connect() as connection:
        for row in connection.execution_options(yield_per=_AT_ONCE).execute(query):
            browse_seq, message_id, outcome, *rest = row
            fact = OutcomeFact(message_id, Outcome(outcome), *rest) if outcome else None
            yield Listed(browse_seq, message_id, fact)


def attempts_in_browse_order(ledger: LedgerReader, run_id: str) -> Iterator[tuple[int, Attempt]]:
    """Yield a run's attempts with the browse_seq of their messages, each in its latest state.

    In the order of the messages, those on one message in the order made.
    """
    states, listed, messages = schema.attempt_states, schema.run_messages, schema.messages
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
    with ledger.engine.connect() as connection:
        rows = connection.execution_options(yield_per=_AT_ONCE).execute(query).mappings()
        for row in rows:
            values = dict(row)
            place = values.pop("browse_seq")
            kinds = {"action": Action(row["action"]), "state": AttemptState(row["state"])}
            yield place, Attempt(**values | kinds)


def outcome_counts(ledger: LedgerReader, run_id: str) -> Counter[Outcome]:
    """Count a run's outcomes, but for those of parked messages, which have no rows of their own."""
    table = schema.outcomes
    query = select(table.c.outcome, func.count()).where(table.c.run_id == run_id)
    with ledger.engine.connect() as connection:
        rows = connection.execute(query.group_by(table.c.outcome))
        return Counter({Outcome(outcome): number for outcome, number in rows})


def attempts_between(ledger: LedgerReader, run_id: str) -> tuple[datetime, datetime] | None:
    """Return when a run wrote down the first state of an attempt, and when the last one."""
    table = schema.attempts
    query = select(func.min(table.c.at), func.max(table.c.at)).where(table.c.run_id == run_id)
    with ledger.engine.connect() as connection:
        first, last = connection.execute(query).one()
    return None if first is None else (first, last)
