"""Decide whether a person may approve a plan that needs a second person."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from mqdlq.handlers.operation import ApprovalGuards, GuardedAction
from mqdlq.lake import planned_messages
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables.retention import AuditEvent
from mqdlq.ledger.tables.runs import Run
from mqdlq.model import Action, AuditKind
from mqdlq.stages.run_options import WITHOUT_PERSON

GUARD: Final = "second_person"
"""The name of the guard in questions and in the ledger."""

IN_THE_FOREGROUND: Final = "mqdlq, because a run in the foreground has no second person"
"""The name in the ledger beside the rejection of a plan that nobody can approve."""

_WORDS: Final[Mapping[Action, str]] = {
    Action.DISCARD: "discarded",
    Action.FWD: "forwarded",
    Action.RETRY: "retried",
}


def guarded_actions(
    actions: Mapping[Action, int], guarded: Collection[GuardedAction]
) -> Counter[Action]:
    """Return the numbers of messages for each action of a plan that needs a second person."""
    wanted = {Action(one.upper()) for one in guarded}
    return Counter({action: number for action, number in actions.items() if action in wanted})


def describe_need(run: Run, found: Counter[Action]) -> str:
    """Return why the plan needs a second person, and who must not approve it."""
    numbers = " and ".join(f"{found[one]} messages may be {_WORDS[one]}" for one in sorted(found))
    if run.run_type in WITHOUT_PERSON:
        rest = f"a person must approve this, because {run.started_by} started the run"
    elif run.started_by_user:
        rest = f"{run.started_by_user} started the run, and must not approve it"
    else:
        rest = "nobody can approve this, because Airflow does not know who started the run"
    return f"{numbers}: {rest}"


def accept_answer(
    run: Run,
    answer: Mapping[str, Any] | None,
    guards: ApprovalGuards,
    *,
    plan: str,
    ledger: Ledger,
    log: logging.Logger,
) -> Mapping[str, Any] | None:
    """Return an answer, or None if that person must not give it; the audit records that once.

    `answer` is that of `approve.record_answer`, and `plan` the directory of the plan. Only the
    approval of a plan with a guarded action can be refused, and only while the question is open.
    """
    earlier = ledger.plans.last_approval(run.run_id)
    is_open = earlier is not None and earlier.decision == "asked"
    if not answer or answer["decision"] != "approved" or not is_open:
        return answer
    planned = (step.action for message in planned_messages(plan) for step in message.steps)
    if not guarded_actions(Counter(planned), guards.second_person):
        return answer
    fault = find_fault_of_approver(run, answer.get("names", ()))
    if fault:
        log.warning("the approval of %s is refused: %s [MQDLQ-978]", answer["who"], fault)
        ledger.audit.record_once(
            AuditEvent(
                at=datetime.fromisoformat(answer["at"]),
                what=AuditKind.SECOND_PERSON_REFUSED,
                who=answer["who"],
                handler=run.handler,
                run_id=run.run_id,
                why=answer.get("why", ""),
                details=fault,
            )
        )
        return None
    return answer


def find_fault_of_approver(run: Run, approver: Iterable[str]) -> str:
    """Return why a person with these names must not approve the guarded plan of a run, or "".

    The names of the starter and of the approver come from the same method of Airflow's auth
    manager. They are compared without regard to case, because some directories ignore it.
    """
    names = {str(name).casefold() for name in approver} - {""}
    if not names:
        return "Airflow does not know who approved the plan"
    if run.run_type in WITHOUT_PERSON:
        return ""
    if not run.started_by_user:
        return "Airflow does not know who started the run; start another run"
    if run.started_by_user.casefold() in names:
        return f"{run.started_by_user} started the run; another person must approve its plan"
    return ""
