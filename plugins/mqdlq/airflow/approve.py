"""The task approve: a plan in, the same plan accepted for execution out."""

from __future__ import annotations

from airflow.sdk import Context

from mqdlq import home
from mqdlq.airflow.assets import tell
from mqdlq.airflow.stage import Stage, progress, utc_now


class Approve(Stage):
    """Check the plan against its hash, record it, and say what it would do.

    No handler asks for a person's approval yet; a plan that is whole is accepted. Touches the
    ledger and the lake, not MQ. Run twice, it finds the plan this run has accepted.
    """

    def execute(self, context: Context) -> str:
        """Accept the plan; returns its id."""
        from mqdlq import execute  # noqa: PLC0415 (Arrow: not at parse time)

        plan_id: str = context["ti"].xcom_pull(task_ids="snapshot")["plan_id"]
        with self.work(context) as work:
            plan = execute.accept_plan(
                work.run, plan_id, ledger=work.ledger, lake_root=home.lake(), clock=utc_now
            )
        shares = ", ".join(f"{number} {name}" for name, number in sorted(plan.dispositions.items()))
        progress.info("plan %s: %s; no approval asked for", plan_id, shares)
        for step in plan.counts:
            target = f" to {step.target_q}" if step.target_q else ""
            progress.info(
                "line %d %s%s: %d messages", step.rule_line, step.action, target, step.messages
            )
        tell(context, self.handler, "plan", plan_id=plan_id, plan_hash=plan.plan_hash)
        return plan_id
