"""Lease messages to a run between its passes, and skip messages that another run leases.

During a pass no other run can act, since the state queue is held. Between passes a waiting run
leases the messages that it will try again, so that another run skips them. A run that dies in a
pass holds no lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mqdlq.controls.work import WorkItem, WorkList
from mqdlq.ledger.tables.messages import OutcomeFact
from mqdlq.model import Outcome
from mqdlq.reasons import Why
from mqdlq.resources import Execution

LEASE_GRACE = timedelta(minutes=5)
"""How late the next pass may begin before other runs may take the messages."""


def skip_leased_messages(work: WorkList, execution: Execution) -> None:
    """Record the outcome `leased_by_run` for messages that another run leases."""
    run, ledger, now = execution.run, execution.ledger, execution.clock()
    owners = ledger.messages.lease_holders(run.run_id, now)
    facts = []
    for item in work.items:
        owner = owners.get(item.message.message_id, run.run_id)
        if owner != run.run_id and item.outcome is None:
            item.outcome = Outcome.LEASED_BY_RUN
            facts.append(_build_leased_outcome(item, owner, now))
    ledger.outcomes.add(run.run_id, facts)
    if facts:
        execution.log.info("%d messages are skipped: another run leases them", len(facts))


def lease_until(moment: datetime | None, items: Sequence[WorkItem], execution: Execution) -> None:
    """Lease these messages until the next pass and LEASE_GRACE; release the run's other leases.

    `moment` is None if there is no next pass.
    """
    run_id, ledger, now = execution.run.run_id, execution.ledger, execution.clock()
    ids = {item.message.message_id for item in items} if moment is not None else set()
    held = {
        key for key, owner in ledger.messages.lease_holders(run_id, now).items() if owner == run_id
    }
    ledger.messages.lease(run_id, sorted(held - ids), now)
    if moment is not None:
        ledger.messages.lease(run_id, sorted(ids), moment + LEASE_GRACE)


def release_all_leases(execution: Execution) -> None:
    """Release every lease of a run that has settled its account."""
    lease_until(None, (), execution)


def _build_leased_outcome(item: WorkItem, owner: str, now: datetime) -> OutcomeFact:
    why = Why.LEASED(run_id=owner)
    return OutcomeFact(item.message.message_id, Outcome.LEASED_BY_RUN, why, 0, "", "", "", now)
