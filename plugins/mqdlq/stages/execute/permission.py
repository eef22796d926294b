"""Whether a run may act at all: the run and what a person decided in, the reason why not out."""

from __future__ import annotations

from mqdlq.errors import ExecutionError
from mqdlq.ledger import DRY_RUN, Ledger, Run


def why_not_to_act(run: Run, ledger: Ledger) -> str:
    """Say why nothing of the run's plan is to be done, or return "" where it may be.

    Where nobody was asked, a plan may be carried out. Where a person was asked, only an approval
    of exactly the accepted plan counts: raises ExecutionError where another one was approved.
    """
    if run.dry_run:
        return DRY_RUN
    approval = ledger.plans.last_approval(run.run_id)
    if approval is None:
        return ""
    if approval.decision != "approved":
        answer = "nobody has answered yet" if approval.decision == "asked" else "rejected"
        by = f" by {approval.who}" if approval.who else ""
        return f"not approved: {answer}{by}"
    plan = ledger.plans.of_run(run.run_id)
    if plan is not None and plan.plan_hash != approval.plan_hash:
        raise ExecutionError(
            f"plan {plan.plan_id} hashes to {plan.plan_hash}, and {approval.who} has approved"
            f" {approval.plan_hash}"
        )
    return ""
