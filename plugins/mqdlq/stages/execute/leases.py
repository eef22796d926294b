"""Whose a message is while its run waits for the next pass: leases in, messages passed by out.

During a pass nobody else can act, since the state queue is held. Between passes a run that waits
owns what it is going to try again, so that another run, which may well come in the meantime,
passes those messages by. A run that dies in a pass owns nothing any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mqdlq.ledger import OutcomeFact
from mqdlq.model import Outcome
from mqdlq.stages.execute.execution import Execution
from mqdlq.stages.execute.pending_steps import WorkItem, WorkList

GRACE = timedelta(minutes=5)
"""How late the next pass may begin before the messages are anybody's again."""


def pass_by_what_others_own(work: WorkList, execution: Execution) -> None:
    """Book `owned_by_run` for the messages that another run waits to try again."""
    run, ledger, now = execution.run, execution.ledger, execution.clock()
    owners = ledger.messages.owners(run.run_id, now)
    facts = []
    for item in work.items:
        owner = owners.get(item.message.message_id, run.run_id)
        if owner != run.run_id and item.outcome is None:
            item.outcome = Outcome.OWNED_BY_RUN
            facts.append(_owned(item, owner, now))
    ledger.outcomes.add(run.run_id, facts)
    if facts:
        execution.log.info("%d messages are passed by: another run has them", len(facts))


def own_until(moment: datetime | None, items: Sequence[WorkItem], execution: Execution) -> None:
    """Own these messages until the next pass, and a while longer; give all others up.

    `moment` is None where there is no next pass.
    """
    run_id, ledger, now = execution.run.run_id, execution.ledger, execution.clock()
    ids = {item.message.message_id for item in items} if moment is not None else set()
    held = {key for key, owner in ledger.messages.owners(run_id, now).items() if owner == run_id}
    ledger.messages.lease(run_id, sorted(held - ids), now)
    if moment is not None:
        ledger.messages.lease(run_id, sorted(ids), moment + GRACE)


def give_up_all(execution: Execution) -> None:
    """End every lease of a run that has settled its account."""
    own_until(None, (), execution)


def _owned(item: WorkItem, owner: str, now: datetime) -> OutcomeFact:
    why = f"run {owner} has it and waits to try it again"
    return OutcomeFact(item.message.message_id, Outcome.OWNED_BY_RUN, why, 0, "", "", "", now)
