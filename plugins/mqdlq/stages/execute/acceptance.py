"""Check a plan, bind it to its run, and decide whether the run may execute it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from mqdlq.errors import ExecutionError
from mqdlq.lake import PlanDescription, plan_directory, planned_messages, read_plan, settled_places
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables.runs import AcceptedPlan, Run
from mqdlq.plan import plan_hash
from mqdlq.reasons import Reason, Why


def accept_plan(
    run: Run,
    plan_id: str,
    *,
    ledger: Ledger,
    lake_root: str,
    clock: Callable[[], datetime],
) -> PlanDescription:
    """Check that a plan belongs to this run and is unaltered, and record it.

    The plan must have the run's rules digest and snapshot, its hash must match its rows, and no
    other run may have begun to execute it. Accepting the same plan again changes nothing. Raises
    ExecutionError otherwise.
    """
    directory = plan_directory(lake_root, plan_id)
    description = read_plan(directory)
    snapshot = ledger.snapshots.of_run(run.run_id)
    if snapshot is None or description.snapshot_ids != (snapshot.snapshot_id,):
        raise ExecutionError(
            "MQDLQ-501", f"plan {plan_id} was not made from this run's snapshot; start a new run"
        )
    if description.rules_digest != run.rules_digest:
        raise ExecutionError(
            "MQDLQ-502",
            f"plan {plan_id} was made by other rules than those this run read at its start; start"
            " a new run",
        )
    age_s = (clock() - snapshot.taken_at).total_seconds()
    if age_s > run.max_plan_age_s:
        raise ExecutionError(
            "MQDLQ-503",
            f"plan {plan_id} is too old: its snapshot was taken {age_s:.0f} s ago, the handler"
            f" allows {run.max_plan_age_s} s (max_plan_age); start a new run",
        )
    found = plan_hash(planned_messages(directory))
    if found != description.plan_hash:
        raise ExecutionError(
            "MQDLQ-504",
            f"plan {plan_id} was altered: its rows hash to {found}, its description says"
            f" {description.plan_hash}; start a new run",
        )
    if others := ledger.plans.other_runs_with(plan_id, run.run_id):
        raise ExecutionError(
            "MQDLQ-505",
            f"plan {plan_id} has been started by run {others[0]}; start a new run for the"
            " remaining messages",
        )
    recorded = ledger.plans.of_run(run.run_id)
    if recorded is None:
        rows = (
            (row.browse_seq, row.message_key, row.disposition)
            for row in planned_messages(directory)
        )
        keys = {row.message_key for row in planned_messages(directory)}
        settled = settled_places(snapshot.location, keys)
        accepted = AcceptedPlan(run.run_id, plan_id, found, directory, clock())
        ledger.plans.record(run, accepted, rows, settled)
    elif recorded.plan_hash != found:
        raise ExecutionError(
            "MQDLQ-507",
            f"run {run.run_id} has already accepted another plan, {recorded.plan_id}; start a new"
            " run",
        )
    return description


def find_reason_not_to_act(run: Run, ledger: Ledger) -> Reason | None:
    """Return the reason why the run must not execute its plan, or None.

    A plan that needed no approval may be executed. A plan that needed one, as each plan of a run
    with a repair does, is executed only if exactly this plan was approved: raises ExecutionError if
    another plan was approved.
    """
    if run.dry_run:
        return Why.DRY_RUN()
    approval = ledger.plans.last_approval(run.run_id)
    if approval is None:
        return Why.REPAIR_NOT_ASKED() if run.repair else None
    if approval.decision != "approved":
        code = Why.NOT_ANSWERED if approval.decision == "asked" else Why.REJECTED
        return code(who=approval.who)
    plan = ledger.plans.of_run(run.run_id)
    if plan is not None and plan.plan_hash != approval.plan_hash:
        raise ExecutionError(
            "MQDLQ-506",
            f"plan {plan.plan_id} hashes to {plan.plan_hash}, and {approval.who} has approved"
            f" {approval.plan_hash}; start a new run, and approve its plan",
        )
    return None
