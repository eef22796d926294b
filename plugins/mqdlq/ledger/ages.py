"""How old what stays on a queue is: a run and what its report found in, a moment out."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import insert, select

from mqdlq.ledger.database import in_turn
from mqdlq.ledger.facts import Run
from mqdlq.ledger.store import Ledger
from mqdlq.ledger.tables import ages
from mqdlq.ledger.workflow import last_account, last_look


def oldest_that_stays(run: Run, found: datetime | None, ledger: Ledger) -> datetime | None:
    """Return since when the oldest message on a run's queue is there, None where none stays.

    That is what the run's report `found` where the run has closed its account; it is recorded then,
    once. A run that looked and saw that there is nothing new has read no message: what the last
    account left is still there, parked or not, and no younger.
    """
    if ledger.sighting(run.run_id) is not None:
        with in_turn(ledger.engine) as connection:
            known = select(ages.c.run_id).where(ages.c.run_id == run.run_id)
            if connection.execute(known).first() is None:
                connection.execute(insert(ages), {"run_id": run.run_id, "oldest_left": found})
        return found
    look = last_look(ledger, run.run_id)
    if look is None or look.is_work or not look.depth or run.run_type == "backfill":
        return found
    account = last_account(ledger, run.queue_manager, run.queue)
    if account is None:
        return found
    query = select(ages.c.oldest_left).where(ages.c.run_id == account.run_id)
    with ledger.engine.connect() as connection:
        oldest: datetime | None = connection.scalar(query)
    return oldest
