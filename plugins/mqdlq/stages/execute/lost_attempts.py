"""Build the attempts that an older ledger lost from the markers of their units of work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mqdlq.ledger import Attempt, Run
from mqdlq.model import AttemptState, Outcome
from mqdlq.mqi.state_queue import RESTORATION_MARKER, Marker
from mqdlq.rules import treatment_changes
from mqdlq.stages.execute.controls.loops import forward_to
from mqdlq.stages.execute.execution import Execution
from mqdlq.stages.execute.pending_steps import choose_step, load_work_list
from mqdlq.stages.older_ledger.recognising import is_known


def find_lost_attempts(execution: Execution, standing: Sequence[Marker]) -> Iterator[Attempt]:
    """Yield the attempts that markers prove and the ledger does not know.

    A marker names the latest moves of its pass by their browse_seq, which identifies messages in
    the snapshot of its plan. The ledger must have accepted that plan. If the rules that match a
    message change with its age, the number of an attempt does not say which rule made it: then
    nothing is proven.
    """
    ledger, log = execution.ledger, execution.log
    for marker in standing:
        if marker.plan_id == RESTORATION_MARKER or is_known(marker, ledger):
            continue
        run, plan = ledger.runs.get(marker.run_id), ledger.plans.of_run(marker.run_id)
        if run is None or plan is None or plan.plan_id != marker.plan_id:
            number = sum(int(last) - int(first) + 1 for _, first, last, *_ in marker.moved)
            log.warning(
                "%s moved at least %d messages before an older copy of the ledger was restored; the"
                " ledger has no account of them [MQDLQ-627]",
                marker.run_id,
                number,
            )
        elif not treatment_changes(run.rules_text):
            yield from _attempts_of(marker, run, execution)


def _attempts_of(marker: Marker, run: Run, execution: Execution) -> Iterator[Attempt]:
    work = load_work_list(run, execution.ledger, execution.lake_root)
    items = {
        item.message.browse_seq: item
        for item in work.items
        if item.outcome in {None, Outcome.UNKNOWN}
    }
    for number, first, last, *target in marker.moved:
        for item in filter(None, map(items.get, range(first, last + 1))):
            step = forward_to(target[0], 1) if target else choose_step(item.steps, number - 1)
            if step is not None:
                yield Attempt(
                    unit=marker.unit,
                    run_id=marker.run_id,
                    plan_id=marker.plan_id,
                    message_id=item.message.message_id,
                    message_key=item.message.message_key,
                    rule=step.rule,
                    attempt_no=number,
                    action=step.action,
                    target_q=step.target_q,
                    target_q_mgr=step.target_q_mgr,
                    state=AttemptState.CONFIRMED,
                    mqrc=0,
                    at=execution.clock(),
                    cause_id=item.cause_id,
                )
