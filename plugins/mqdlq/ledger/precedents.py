"""What earlier runs have done on a queue with leave to do it: a run in, precedents for it out.

A run that was not approved, or that nobody has answered yet, is no precedent, nor is a dry run,
nor one that was for named messages only: what a person has not agreed to is asked again.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, select

from mqdlq.ledger import tables
from mqdlq.ledger.facts import Run
from mqdlq.ledger.reading import LedgerReader
from mqdlq.ledger.tables import approvals, causes
from mqdlq.model import AttemptState


def earlier_targets(ledger: LedgerReader, run: Run) -> set[tuple[str, str]]:
    """Return the (queue, queue manager) to which earlier runs moved messages from a run's queue."""
    runs, states = tables.runs, tables.attempt_states
    query = (
        select(states.c.target_q, states.c.target_q_mgr)
        .join(runs, runs.c.run_id == states.c.run_id)
        .where(
            runs.c.queue_manager == run.queue_manager,
            runs.c.queue == run.queue,
            runs.c.run_id != run.run_id,
            states.c.state == AttemptState.CONFIRMED.value,
        )
        .distinct()
    )
    with ledger.engine.connect() as connection:
        return {(row.target_q, row.target_q_mgr) for row in connection.execute(query)}


def reasons_acted_on(ledger: LedgerReader, run: Run) -> set[int]:
    """Return the reasons met on a run's queue by other runs that had leave to act, and did."""
    runs = tables.runs
    query = select(causes.c.reason).join(runs, runs.c.run_id == causes.c.run_id).distinct()
    with ledger.engine.connect() as connection:
        return set(connection.scalars(_whole_runs_of_the_queue(query, run).where(_has_acted())))


def other_rules_before(ledger: LedgerReader, run: Run) -> str:
    """Return the last run that acted on a run's queue if it had other rules, else "".

    Where none has ever acted, it is the last one with other rules that was to.
    """
    runs = tables.runs
    query = _whole_runs_of_the_queue(select(runs.c.run_id, runs.c.rules_digest), run)
    newest = query.order_by(runs.c.started_at.desc()).limit(1)
    with ledger.engine.connect() as connection:
        found = connection.execute(newest.where(_has_acted())).first()
        if found is None:
            is_over = runs.c.run_id.in_(select(tables.sightings.c.run_id))
            other = runs.c.rules_digest != run.rules_digest
            found = connection.execute(newest.where(is_over, other)).first()
    return str(found.run_id) if found and found.rules_digest != run.rules_digest else ""


def _whole_runs_of_the_queue(query: Select[Any], run: Run) -> Select[Any]:
    runs = tables.runs
    return query.where(
        runs.c.queue_manager == run.queue_manager,
        runs.c.queue == run.queue,
        runs.c.run_id != run.run_id,
        ~runs.c.dry_run,
        runs.c.message_keys == (),
    )


def _has_acted() -> Any:
    """Whether a run has begun a pass, or closed its account, and nobody's answer forbade it.

    A run that goes on with another's pass has none of its own. An approval is the last word.
    """
    run_id = tables.runs.c.run_id
    asked = select(approvals.c.run_id)
    began = run_id.in_(select(tables.passes.c.run_id))
    closed = run_id.in_(select(tables.sightings.c.run_id))
    approved = run_id.in_(asked.where(approvals.c.decision == "approved"))
    return (began | closed) & (run_id.not_in(asked) | approved)
