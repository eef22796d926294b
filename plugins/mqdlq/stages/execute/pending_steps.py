"""Find the messages of a run that still have a step to try, and recognise them on the queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from mqdlq.causes import CAUSE_COLUMNS, cause_of_row
from mqdlq.controls.repair.changes import find_all_changes
from mqdlq.controls.settings import read_controls
from mqdlq.controls.work import WorkItem, WorkList
from mqdlq.errors import ExecutionError
from mqdlq.lake import plan_directory, planned_messages, snapshot_rows
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables.runs import Run
from mqdlq.model import Action, AttemptState, PlannedMessage, Step
from mqdlq.plan import plan_hash
from mqdlq.reasons import Reason, Why
from mqdlq.rules import treatment_changes


def count_by_rule(
    steps: tuple[Step, ...], attempts_made: int, made: Mapping[int, int]
) -> tuple[Step, ...]:
    """Return the steps with which `choose_step` counts the attempts of each rule by itself.

    `made` has the attempts by rule. If the matching rules of a message change with its age, an
    attempt by a rule that no longer matches must not use up the attempts of the other rules.
    """
    if not steps or not made:
        return steps
    left = [replace(step, tries=max(0, step.tries - made.get(step.rule, 0))) for step in steps]
    # choose_step compares a running total with all attempts made, so that the total begins there.
    return (replace(left[0], tries=left[0].tries + attempts_made), *left[1:])


def load_work_list(run: Run, ledger: Ledger, lake_root: str) -> WorkList:
    """Build the work list of a run from its plan, messages, attempts and outcomes.

    Raises ExecutionError if the plan in the lake is not the accepted one.
    """
    plan = ledger.plans.of_run(run.run_id)
    if plan is None:
        return WorkList([])
    steps = _load_accepted_steps(plan.plan_id, plan.plan_hash, lake_root)
    attempts = ledger.attempts.made(run)
    by_rule = ledger.attempts.made_by_rule(run) if treatment_changes(run.rules_text) else {}
    outcomes = {
        one.message_id: one.outcome.outcome
        for one in ledger.messages.listed(run.run_id)
        if one.outcome
    }
    unknown = ledger.attempts.in_states(run.queue_manager, AttemptState.UNKNOWN)
    in_doubt = {attempt.message_id for attempt in unknown}
    elsewhere = ledger.messages.departed_elsewhere(run.run_id)
    truncated = _find_maybe_truncated(run, ledger)
    causes = _find_causes(run, ledger)
    changes = find_all_changes(run, steps, ledger)
    items = []
    for message in ledger.messages.of_run(run.run_id):
        made, last = attempts.get(message.message_id, (0, None))
        ended = outcomes.get(message.message_id)
        planned = steps.get(message.browse_seq, ())
        remaining = count_by_rule(planned, made, by_rule.get(message.message_id, {}))
        item = WorkItem(message, remaining, made, ended, last)
        item.is_in_doubt = message.message_id in in_doubt
        item.was_moved_elsewhere = message.message_id in elsewhere
        item.cause_id = causes.get(message.browse_seq, "")
        item.changes = changes.get(message.message_id)
        item.planned = planned
        item.withheld_reason = _find_reason_to_withhold(item, run, message.browse_seq in truncated)
        items.append(item)
    return WorkList(items)


def _load_accepted_steps(
    plan_id: str, accepted: str, lake_root: str
) -> dict[int, tuple[Step, ...]]:
    """Return the steps of a plan by browse_seq; raises ExecutionError if the plan was altered.

    Messages with equal steps share one tuple: a queue has a million messages but few treatments.
    """
    steps: dict[int, tuple[Step, ...]] = {}
    same: dict[tuple[Step, ...], tuple[Step, ...]] = {}

    def rows() -> Iterator[PlannedMessage]:
        for row in planned_messages(plan_directory(lake_root, plan_id)):
            steps[row.browse_seq] = same.setdefault(row.steps, row.steps)
            yield row

    found = plan_hash(rows())
    if found != accepted:
        raise ExecutionError(
            "MQDLQ-509",
            f"plan {plan_id} was altered after it was accepted: its rows hash to {found}, the"
            f" accepted rows to {accepted}; start a new run",
        )
    return steps


def _find_maybe_truncated(run: Run, ledger: Ledger) -> set[int]:
    """Return the browse_seq of messages that may have been truncated to fit the queue."""
    snapshot = ledger.snapshots.of_run(run.run_id)
    if snapshot is None or run.deliver_truncated:
        return set()
    rows = snapshot_rows(snapshot.location, ["browse_seq", "maybe_truncated"])
    return {row["browse_seq"] for row in rows if row["maybe_truncated"]}


def _find_causes(run: Run, ledger: Ledger) -> dict[int, str]:
    """Return the causes of messages by browse_seq if a control of the run acts by cause."""
    snapshot = ledger.snapshots.of_run(run.run_id)
    if snapshot is None or not read_controls(run.controls).act_by_cause:
        return {}
    rows = snapshot_rows(snapshot.location, ["browse_seq", *CAUSE_COLUMNS])
    return {row["browse_seq"]: cause_of_row(row).cause_id for row in rows}


def _find_reason_to_withhold(item: WorkItem, run: Run, truncated: bool) -> Reason | None:
    """Return the reason why the next step must not be carried out, or None."""
    step = item.step
    if step is None or step.action is Action.IGNORE:
        return None
    is_local = step.target_q_mgr in {"", run.queue_manager}
    if is_local and step.target_q in {run.queue, run.state_queue}:
        return Why.OWN_TARGET(target=step.target_q)
    loses_its_header = step.action is Action.RETRY or not step.header
    if truncated and loses_its_header and step.action is not Action.DISCARD:
        return Why.MAYBE_TRUNCATED()
    return item.changes.refusal if item.changes else None
