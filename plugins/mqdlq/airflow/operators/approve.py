"""The task approve: a plan in, the same plan accepted, by a person if guards say so, out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Context
from airflow.sdk.exceptions import DownstreamTasksSkipped, TaskAwaitingInput
from airflow.sdk.execution_time.hitl import upsert_hitl_detail

from mqdlq import home
from mqdlq.airflow.assets import tell
from mqdlq.airflow.operators.base import (
    REPORT,
    Stage,
    Work,
    in_the_foreground,
    progress,
    result_of,
    utc_now,
)
from mqdlq.errors import ExecutionError
from mqdlq.handlers import load_handler
from mqdlq.handlers.operation import Event
from mqdlq.ledger import Approval, Run, last_approval, record_approval
from mqdlq.model import Outcome

if TYPE_CHECKING:
    from mqdlq.lake import PlanDescription
    from mqdlq.stages.approve import Question

APPROVE: Final = "Approve"
REJECT: Final = "Reject"


class Approve(Stage):
    """Check the plan against its hash, record it, and have a person approve it if guards say so.

    A guard that is on and sees something parks the task in Airflow's state `awaiting_input`,
    where it takes neither a worker nor the triggerer: a person approves or rejects in Airflow, and
    silence for the handler's `approval: within` rejects. Question, answer, who and when go to the
    ledger; the execution carries out exactly the plan whose hash was approved. Rejected, the run
    goes on without acting, and says so of every message. In ``airflow dags test`` nobody could
    answer, so nobody is asked. Touches the ledger and the lake, not MQ.

    In a backfill that is not told to apply it says what today's rules would do otherwise instead,
    and the execution is skipped.

    Run twice, it finds the plan this run has accepted, and the answer if there is one; nobody is
    notified of the same question twice.
    """

    def execute(self, context: Context) -> str:
        """Accept the plan, or ask; returns the plan's id."""
        from mqdlq.stages.approve import questions  # noqa: PLC0415 (Arrow: not at parse time)

        guards, window = load_handler(self.handler).approval, self.window(context)
        with self.work(context) as work:
            if window is not None and not context["params"]["apply"]:
                from mqdlq.airflow.differences import (  # noqa: PLC0415 (Arrow: not at parse time)
                    tell_differences,
                )

                made = result_of(context["ti"], "snapshot")
                _check_that_it_stands(made["plan"])
                tell_differences(work, window, made["snapshot"], made["plan"])
                after = self.get_flat_relative_ids(upstream=False)
                raise DownstreamTasksSkipped(tasks=sorted(after - {REPORT}))
            plan, directory = self._accept(context, work)
            earlier = self._answer(context, work)
            if earlier is not None and earlier.decision != "asked":
                progress.info("%s by %s", earlier.decision, earlier.who)
            elif not work.run.dry_run:
                asked = questions(work.run, guards, ledger=work.ledger, plan=directory)
                for question in asked:
                    progress.info("to be approved: %s", question.says)
                if asked and in_the_foreground():
                    progress.info("a run in the foreground asks nobody")
                elif asked:
                    if earlier is None:
                        names = tuple(dict.fromkeys(question.guard for question in asked))
                        first = Approval(plan.plan_hash, names, "asked", "", utc_now())
                        record_approval(work.ledger, work.run.run_id, first)
                    self._ask(context, work, plan, asked, guards.within)
            covered = _covered(work, plan)
        self._tell(context, work.run, plan, covered)
        return plan.plan_id

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """Continue with a person's answer, or with the lack of one.

        Airflow hands the answer over once. It is kept first: where the ledger or the lake cannot
        be reached at this moment, the task's next attempt finds it and asks nobody again.
        """
        person = event.get("responded_by_user") or {}
        context["task_state_store"].set(
            f"answer-{self.run_id(context)}",
            {
                "decision": "approved" if event["chosen_options"] == [APPROVE] else "rejected",
                "who": person.get("name") or person.get("id") or "nobody, in time",
                "at": utc_now().isoformat(),
            },
        )
        return self.execute(context)

    def _answer(self, context: Context, work: Work) -> Approval | None:
        """Return the run's question or answer; an answer that is not recorded yet is recorded."""
        earlier = last_approval(work.ledger, work.run.run_id)
        given: Any = context["task_state_store"].get(f"answer-{work.run.run_id}")
        if earlier is None or earlier.decision != "asked" or not given:
            return earlier
        answer = replace(
            earlier,
            decision=given["decision"],
            who=given["who"],
            at=datetime.fromisoformat(given["at"]),
        )
        record_approval(work.ledger, work.run.run_id, answer)
        return answer

    def _accept(self, context: Context, work: Work) -> tuple[PlanDescription, str]:
        from mqdlq import lake  # noqa: PLC0415 (Arrow: not at parse time)
        from mqdlq.stages import execute  # noqa: PLC0415 (Arrow: not at parse time)

        plan_id: str = result_of(context["ti"], "snapshot")["plan_id"]
        _check_that_it_stands(lake.plan_directory(home.lake(), plan_id))
        plan = execute.accept_plan(
            work.run, plan_id, ledger=work.ledger, lake_root=home.lake(), clock=utc_now
        )
        return plan, lake.plan_directory(home.lake(), plan_id)

    def _ask(
        self,
        context: Context,
        work: Work,
        plan: PlanDescription,
        asked: list[Question],
        within: timedelta,
    ) -> None:
        upsert_hitl_detail(
            ti_id=context["ti"].id,
            options=[APPROVE, REJECT],
            subject=f"May {self.handler} act on {work.run.queue} of {work.run.queue_manager}?",
            body=_body(plan, _covered(work, plan), asked, within),
            defaults=[REJECT],
            params={},
        )
        notified = f"notified-{work.run.run_id}"
        if not context["task_state_store"].get(notified):
            self._tell_people(context, work, asked)
            context["task_state_store"].set(notified, value=True)
        progress.info("a person is to approve or reject this in Airflow within %s", within)
        raise TaskAwaitingInput(method_name="resume", timeout=within)

    def _tell_people(self, context: Context, work: Work, asked: list[Question]) -> None:
        from mqdlq.airflow.notifying import notify  # noqa: PLC0415 (only where one is asked)
        from mqdlq.stages.alerts import Alert  # noqa: PLC0415 (the same)

        run = work.run
        title = f"{run.handler}: a plan waits for approval ({run.queue} @ {run.queue_manager})"
        alert = Alert(Event.APPROVAL, title, "\n".join(question.says for question in asked))
        notify(load_handler(self.handler), [alert], context, run.run_id)

    def _tell(self, context: Context, run: Run, plan: PlanDescription, covered: str) -> None:
        from mqdlq.stages.report.words import count  # noqa: PLC0415 (Arrow: not at parse time)

        progress.info("plan %s: %s", plan.plan_id, covered)
        for step in plan.counts:
            rule = "action" if run.has_given_action else f"line {step.rule_line}"
            target = f" to {step.target_q}" if step.target_q else ""
            number = count(step.messages, "message")
            progress.info("%s %s%s: %s", rule, step.action, target, number)
        tell(context, self.handler, "plan", plan_id=plan.plan_id, plan_hash=plan.plan_hash)


def _check_that_it_stands(directory: str) -> None:
    """Raise ExecutionError where no plan was written, since the evaluation has not run."""
    from mqdlq import lake  # noqa: PLC0415 (Arrow: not at parse time)

    if lake.find_plan(directory) is None:
        raise ExecutionError(
            f"the task evaluate has left no plan in {directory}: it was marked as done by hand, or"
            " the plan was removed; clear evaluate and what follows"
        )


def _covered(work: Work, plan: PlanDescription) -> str:
    """Say what the plan covers, and why it does not cover the other messages of the snapshot."""
    from mqdlq.stages.execute.parked import ParkedList  # noqa: PLC0415 (Arrow: not at parse time)
    from mqdlq.stages.report.words import plan_in_words  # noqa: PLC0415 (the same)

    snapshot = work.ledger.snapshot(work.run.run_id)
    settled: Counter[Outcome] = Counter()
    others = 0
    if work.run.named and snapshot is not None:
        others = snapshot.messages - plan.messages
    elif snapshot is not None:
        for how, number in ParkedList(snapshot.location).settled().items():
            settled[how.outcome] += number
    return plan_in_words(plan.dispositions, settled, others)


def _body(plan: PlanDescription, covered: str, asked: list[Question], within: timedelta) -> str:
    """Return the plan's summary in Markdown: why it is asked, and what would be done first."""
    why = "\n".join(f"- {question.says}" for question in asked)
    rows = "\n".join(
        f"| {step.rule_line} | {step.action} | {step.target_q or '-'} | {step.messages} |"
        for step in plan.counts
    )
    return (
        f"{why}\n\n| line | first action | target | messages |\n|---|---|---|---|\n{rows}\n\n"
        f"All messages: {covered}. Plan `{plan.plan_id}`, hash `{plan.plan_hash}`: exactly this"
        " plan is carried out if you approve.\n\n"
        f"No answer within {within} means reject.\n"
    )
