"""The task approve: accept a plan, and ask a person if a guard triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Context
from airflow.sdk.exceptions import TaskAwaitingInput
from airflow.sdk.execution_time.hitl import HITLUser, upsert_hitl_detail

from mqdlq import directories
from mqdlq.airflow.assets import tell
from mqdlq.airflow.links import airflow_address
from mqdlq.airflow.metrics import emit_approvals
from mqdlq.airflow.operators.base import (
    Stage,
    in_the_foreground,
    progress,
    result_of,
    utc_now,
)
from mqdlq.reading.page_paths import Paths

if TYPE_CHECKING:
    from mqdlq.ledger import Ledger
    from mqdlq.ledger.tables.runs import Run
    from mqdlq.stages.approve import PlanReview

APPROVE: Final = "Approve"
REJECT: Final = "Reject"
COMMENT: Final = "comment"
"""The field of the answer that has the person's comment."""
COMMENT_FORM: Final = {
    COMMENT: {
        "value": None,
        "description": "The reason for the answer, or the number of a ticket. The audit has it.",
        "schema": {"type": ["null", "string"], "title": "Comment", "maxLength": 1000},
    }
}


class Approve(Stage):
    """Check the plan against its hash, record it, and have a person approve it if guards say so.

    A guard that is on and sees something puts the task into Airflow's state `awaiting_input`, where
    it takes neither a worker nor the triggerer: a person approves or rejects in Airflow, one of the
    handler's `approvers` if it names any, and silence for its `approval: timeout` rejects.
    Question, answer, who and when go to the ledger; the execution carries out exactly the plan
    whose hash was approved. After a rejection the run continues without acting, and reports that
    for every message. In ``airflow dags test`` nobody can answer, so nobody is asked; a plan that
    needs a second person is rejected there. An approval by a person who must not give it is
    recorded in the audit, and the question stays open. Touches the ledger and the lake, not MQ.

    In a backfill without `apply` it reports what today's rules would do otherwise, and the
    execution is skipped.

    Run twice, it finds the plan this run has accepted, and the answer if there is one; nobody is
    notified of the same question twice.
    """

    def execute(self, context: Context) -> str:
        """Accept the plan, or ask; returns the plan's id."""
        # imports Arrow, which DAG parsing must not.
        from mqdlq.stages import approve  # noqa: PLC0415
        from mqdlq.stages.backfill.backfill_differences import report_differences  # noqa: PLC0415

        window, handler = self.window(context), self.configuration()
        with self.work(context) as work:
            made = result_of(context["ti"], "snapshot")
            if window is not None and not context["params"]["apply"]:
                approve.require_plan(made["plan"])
                report_differences(
                    work.run,
                    window,
                    made["snapshot"],
                    made["plan"],
                    ledger=work.ledger,
                    clock=utc_now,
                    log=progress,
                )
                self.skip_what_follows()
            given: Any = context["task_state_store"].get(f"answer-{work.run.run_id}")
            accepted = approve.review_plan(
                work.run,
                made["plan_id"],
                handler.approval,
                ledger=work.ledger,
                lake_root=directories.lake(),
                clock=utc_now,
                log=progress,
                answer=given,
                is_watched=in_the_foreground(),
            )
            emit_approvals(
                work.run, handler.approval.timeout, work.ledger, utc_now(), accepted.questions
            )
            if accepted.questions:
                self._ask(context, work.run, accepted, work.ledger)
        plan = accepted.plan
        tell(context, self.handler, "plan", plan_id=plan.plan_id, plan_hash=plan.plan_hash)
        return plan.plan_id

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """Continue with a person's answer, or with the lack of one.

        Airflow hands the answer over once. It is kept first: where the ledger or the lake cannot
        be reached at this moment, the task's next attempt finds it and asks nobody again.
        """
        from mqdlq.stages.approve import record_answer  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

        person = event.get("responded_by_user") or {}
        answer = record_answer(
            is_approved=event["chosen_options"] == [APPROVE],
            names=[str(person.get(key) or "") for key in ("name", "id")],
            at=utc_now(),
            why=str((event.get("params_input") or {}).get(COMMENT) or "").strip(),
        )
        context["task_state_store"].set(f"answer-{self.run_id(context)}", answer)
        return self.execute(context)

    def _ask(self, context: Context, run: Run, accepted: PlanReview, ledger: Ledger) -> None:
        from mqdlq.airflow.notifications import notify  # noqa: PLC0415 (only if a person is asked)
        from mqdlq.reading.alerts import build_approval_alert  # noqa: PLC0415 (the same)
        from mqdlq.reading.report.review_page import ReviewSettings, write_review_page  # noqa: PLC0415 (the same)

        handler = self.configuration()
        asked = [question.text for question in accepted.questions]
        within, store = handler.approval.timeout, context["task_state_store"]
        upsert_hitl_detail(
            ti_id=context["ti"].id,
            options=[APPROVE, REJECT],
            subject=f"May {self.handler} act on {run.queue} of {run.queue_manager}?",
            body=write_review_page(
                run,
                accepted.plan,
                accepted.coverage,
                asked,
                ReviewSettings(
                    within, handler.keep_archive_for, Paths(airflow_address()), utc_now()
                ),
                ledger=ledger,
                lake_root=directories.lake(),
            ),
            defaults=[REJECT],
            params=COMMENT_FORM,
            assigned_users=[HITLUser(id=one, name=one) for one in handler.approvers],
        )
        if not store.get(f"notified-{run.run_id}"):
            notify(handler, [build_approval_alert(run, asked)], context, run.run_id)
            store.set(f"notified-{run.run_id}", value=True)
        who = " or ".join(handler.approvers) or "a person"
        progress.info("waiting for %s to approve or reject this in Airflow within %s", who, within)
        raise TaskAwaitingInput(method_name="resume", timeout=within)
