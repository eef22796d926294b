"""The open question of a run, as the person who asks may answer it."""

from __future__ import annotations

from dataclasses import dataclass

from mqdlq.ledger import Approval, AuditEvent, Ledger, Run
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind
from mqdlq.stages.second_person import GUARD, find_fault_of_approver
from mqdlq.web.access import AskedHandler, Person
from mqdlq.web.acting.airflow_api import AskedInAirflow, GivenAnswer


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """The question whether a run may carry out its plan.

    `closed` is why Airflow does not let the person answer, "" if it does. `fault` is why the person
    must not approve, "" if nothing speaks against it; rejecting is open to everyone who may answer.
    `refusals` are the approvals that were refused, oldest first. `answer` is the answer that
    Airflow has and the run's task has not read yet.
    """

    run: Run
    approval: Approval
    closed: str
    fault: str
    refusals: tuple[AuditEvent, ...]
    answer: GivenAnswer | None


def open_question(
    run: Run,
    approval: Approval,
    handler: AskedHandler,
    person: Person,
    ledger: Ledger,
    *,
    asked: AskedInAirflow,
) -> OpenQuestion:
    """Return the open question of a run for a person; `asked` is the question in Airflow."""
    is_guarded = GUARD in approval.guards
    refused = AuditFilter(run_id=run.run_id, what=AuditKind.SECOND_PERSON_REFUSED)
    return OpenQuestion(
        run=run,
        approval=approval,
        closed=_why_closed(handler, person, asked.approvers),
        fault=find_fault_of_approver(run, person.names) if is_guarded else "",
        refusals=tuple(reversed(ledger.audit_trail.page(refused))) if is_guarded else (),
        answer=asked.answer,
    )


def _why_closed(handler: AskedHandler, person: Person, approvers: tuple[str, ...]) -> str:
    if not person.may_answer(handler.dag_id):
        return "ask for permission to answer required actions of this DAG in Airflow"
    if approvers and not person.is_among(approvers):
        return f"the handler's approvers may: {', '.join(approvers)}"
    return ""
