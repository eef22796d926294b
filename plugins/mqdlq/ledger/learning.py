"""What runs learned of earlier ones: a run's id in, how messages had ended, counted, out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, or_, select

from mqdlq.ledger import tables
from mqdlq.ledger.reading import LedgerReader
from mqdlq.ledger.tables import learned
from mqdlq.model import Outcome

_AT_ONCE = 500  # below every database's limit of bound parameters


@dataclass(frozen=True, slots=True)
class LearnedCount:
    """How many messages of the run `of_run` had ended so, as the run `run_id` found out."""

    of_run: str
    run_id: str
    outcome: Outcome
    target_q: str
    target_q_mgr: str
    messages: int


def outcomes_by_run(
    ledger: LedgerReader, message_ids: Sequence[int]
) -> dict[int, dict[str, Outcome]]:
    """Return what any runs have booked of these messages: outcomes by message and run id."""
    table, found = tables.outcomes, defaultdict[int, dict[str, Outcome]](dict)
    with ledger.engine.connect() as connection:
        for start in range(0, len(message_ids), _AT_ONCE):
            some = message_ids[start : start + _AT_ONCE]
            query = select(table.c.message_id, table.c.run_id, table.c.outcome)
            for row in connection.execute(query.where(table.c.message_id.in_(some))):
                found[row.message_id][row.run_id] = Outcome(row.outcome)
    return found


def learned_counts(ledger: LedgerReader, run_id: str) -> list[LearnedCount]:
    """Count what a run learned of others and what was learned of it, in that order."""
    names = ("of_run", "run_id", "outcome", "target_q", "target_q_mgr")
    kinds = [learned.c[name] for name in names]
    query = (
        select(*kinds, func.count().label("messages"))
        .where(or_(learned.c.run_id == run_id, learned.c.of_run == run_id))
        .group_by(*kinds)
        .order_by(learned.c.of_run == run_id, *kinds)
    )
    with ledger.engine.connect() as connection:
        rows = connection.execute(query).mappings()
        return [LearnedCount(**{**row, "outcome": Outcome(row["outcome"])}) for row in rows]


def known_since(ledger: LedgerReader, run_id: str) -> set[int]:
    """Return the messages of a run of which a later one, or a later pass, learned how they ended.

    There are as many as units of work were interrupted and could not be settled: few.
    """
    query = select(learned.c.message_id).where(learned.c.of_run == run_id)
    with ledger.engine.connect() as connection:
        return set(connection.scalars(query))
