"""Accept a run's plan, find the messages with a step to try, and lease them between passes."""

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import numpy as np

from mqdlq import lake
from mqdlq.causes import CAUSE_COLUMNS, cause_of_row
from mqdlq.controls.key_index import KEY_LENGTH, KeyIndex
from mqdlq.controls.repair.changes import find_all_changes
from mqdlq.controls.settings import read_controls
from mqdlq.controls.work import WorkItem, WorkList
from mqdlq.errors import ExecutionError
from mqdlq.ledger import Ledger
from mqdlq.ledger.messages import LEASE_GRACE, RunMessage
from mqdlq.ledger.tables import AcceptedPlan, Attempt, OutcomeFact, Run
from mqdlq.model import Action, AttemptState, Disposition, Outcome, Step
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution
from mqdlq.rules import treatment_changes


def build_outcome(
    message_id: int, outcome: Outcome, why: Reason, decided: Step | Attempt | None, at: datetime
) -> OutcomeFact:
    """Return the outcome of a message; `decided` is the step or the attempt that led to it."""
    if decided is None:
        return OutcomeFact(0, "", "", "", outcome, message_id, why, at)
    target = decided.target_q, decided.target_q_mgr
    return OutcomeFact(decided.rule, decided.action.value, *target, outcome, message_id, why, at)


def accept_plan(execution: Execution, plan_id: str) -> lake.PlanDescription:
    """Check that a plan belongs to this run and is unaltered, and record it.

    The plan must have the run's rules digest and snapshot, its hash must match its rows, and no
    other run may have begun to execute it. Accepting the same plan again changes nothing. Raises
    ExecutionError otherwise.
    """
    run, ledger, clock = execution.run, execution.ledger, execution.clock
    directory = lake.plan_directory(execution.lake_root, plan_id)
    description = lake.read_plan(directory)
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
    rows = lake.read_columns(directory, with_keys=True)
    found = rows.plan_hash
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
    # Read last, so that two attempts of the task hardly ever find both that none is recorded.
    recorded = ledger.plans.of_run(run.run_id)
    if recorded is not None and recorded.plan_hash != found:
        raise ExecutionError(
            "MQDLQ-507",
            f"run {run.run_id} has already accepted another plan, {recorded.plan_id}; start a new"
            " run",
        )
    if recorded is None:
        settled = lake.settled_places(snapshot.location, rows.message_key)
        accepted = AcceptedPlan(run.run_id, plan_id, found, directory, clock())
        ledger.plans.record(run, accepted, rows.listed(), settled)
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


# Find the messages of a run that still have a step to try.


def _count_by_rule(
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


class _Messages:
    """The messages of a run that are not booked as departed, in columns, in browse order."""

    def __init__(self, run_id: str, ledger: Ledger) -> None:
        self.keys, self.ids, self.browse_seqs = bytearray(), array("q"), array("q")
        self._twins: dict[int, tuple[int, int]] = {}
        self._codes = bytearray(), bytearray()
        for rows in ledger.messages.not_departed(run_id):
            ids, seqs, keys, occurrences, residences, dispositions, outcomes = zip(
                *rows, strict=True
            )
            twins = zip(occurrences, residences, strict=True)
            self._twins |= {at: two for at, two in enumerate(twins, len(self.ids)) if any(two)}
            self.keys += b"".join(keys)
            self.ids.extend(ids)
            self.browse_seqs.extend(seqs)
            self._codes[0].extend(map(_DISPOSITIONS.index, dispositions))
            self._codes[1].extend(map(_OUTCOMES.index, outcomes))

    def at(self, place: int) -> tuple[RunMessage, Outcome | None]:
        key = bytes(self.keys[place * KEY_LENGTH : (place + 1) * KEY_LENGTH])
        twin = self._twins.get(place, (0, 0))
        disposition = _DISPOSITIONS[self._codes[0][place]]
        message = RunMessage(self.ids[place], self.browse_seqs[place], key, *twin, disposition)
        return message, _OUTCOMES[self._codes[1][place]]

    def places(self, ids: Collection[int]) -> list[int]:
        return [place for place, one in enumerate(self.ids) if one in ids] if ids else []


_DISPOSITIONS: Final = [*Disposition]
_OUTCOMES: Final = [*Outcome, None]


def load_work_list(run: Run, ledger: Ledger, lake_root: str) -> WorkList:
    """Build the work list of a run from its plan, messages, attempts and outcomes.

    Raises ExecutionError if the plan in the lake is not the accepted one.
    """
    plan, messages = ledger.plans.of_run(run.run_id), _Messages(run.run_id, ledger)
    if plan is None or not messages.ids:
        return WorkList(KeyIndex(b""), _no_item)
    treatments, numbers = _load_accepted_steps(plan, messages.browse_seqs, lake_root)
    attempts = ledger.attempts.made(run)
    by_rule = ledger.attempts.made_by_rule(run) if treatment_changes(run.rules_text) else {}
    unknown = ledger.attempts.in_states(run.queue_manager, AttemptState.UNKNOWN)
    in_doubt = {attempt.message_id for attempt in unknown}
    elsewhere = ledger.messages.departed_elsewhere(run.run_id)
    truncated, causes = _read_snapshot(run, ledger)
    of_message = (treatments[number] for number in numbers) if run.repair else ()
    planned_steps = dict(zip(messages.browse_seqs, of_message, strict=False))
    changes = find_all_changes(run, planned_steps, ledger)

    def make_item(place: int) -> WorkItem:
        message, outcome = messages.at(place)
        made, last = attempts.get(message.message_id, (0, None))
        planned = treatments[numbers[place]]
        item = WorkItem(
            message,
            _count_by_rule(planned, made, by_rule.get(message.message_id, {})),
            made,
            outcome,
            last,
            is_in_doubt=message.message_id in in_doubt,
            cause_id=causes.get(message.browse_seq, ""),
            changes=changes.get(message.message_id),
            planned=planned,
        )
        is_truncated = message.browse_seq in truncated
        item.withheld_reason = _find_reason_to_withhold(item, run, truncated=is_truncated)
        return item

    return WorkList(
        KeyIndex(messages.keys, last=messages.places(in_doubt)),
        make_item,
        {step for steps in treatments for step in steps},
        messages.places(elsewhere),
    )


def _no_item(place: int) -> WorkItem:
    raise LookupError(place)


def _load_accepted_steps(
    plan: AcceptedPlan, browse_seqs: Sequence[int], lake_root: str
) -> tuple[list[tuple[Step, ...]], Sequence[int]]:
    """Return the different steps of a plan, and which of them each of these messages has.

    Raises ExecutionError if the plan was altered. A message that is not in the plan has no steps.
    """
    rows = lake.read_columns(lake.plan_directory(lake_root, plan.plan_id))
    if rows.plan_hash != plan.plan_hash:
        raise ExecutionError(
            "MQDLQ-509",
            f"plan {plan.plan_id} was altered after it was accepted: its rows hash to"
            f" {rows.plan_hash}, the accepted rows to {plan.plan_hash}; start a new run",
        )
    steps = [steps for _, steps in rows.treatments]
    places = np.searchsorted(rows.browse_seq, browse_seqs)
    is_planned = np.append(rows.browse_seq, -1)[places] == browse_seqs
    numbers = np.where(is_planned, np.append(rows.numbers, 0)[places], len(steps))
    return [*steps, ()], array("i", numbers.astype(np.int32).tobytes())


def _read_snapshot(run: Run, ledger: Ledger) -> tuple[set[int], dict[int, str]]:
    """Return by browse_seq what must not lose its MQDLH, as it may be truncated, and the causes.

    Causes are read only if a control of the run acts by cause.
    """
    snapshot = ledger.snapshots.of_run(run.run_id)
    truncated, causes = set[int](), dict[int, str]()
    columns = CAUSE_COLUMNS if read_controls(run.controls).act_by_cause else ()
    if snapshot is None or (run.deliver_truncated and not columns):
        return truncated, causes
    read = ["browse_seq", "maybe_truncated", *columns]
    for batch in lake.snapshot_batches(snapshot.location, read):
        if not run.deliver_truncated:
            may_be = batch.filter(batch.column("maybe_truncated")).column("browse_seq")
            truncated.update(may_be.to_pylist())
        if columns:
            rows = batch.to_pylist()
            causes |= {row["browse_seq"]: cause_of_row(row).cause_id for row in rows}
    return truncated, causes


def _find_reason_to_withhold(item: WorkItem, run: Run, *, truncated: bool) -> Reason | None:
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


# Lease messages to a run between its passes, and skip messages that another run leases.
#
# During a pass no other run can act, since the state queue is held. Between passes a waiting run
# leases the messages that it will try again, so that another run skips them. A run that dies in a
# pass holds no lease.


def skip_leased_messages(work: WorkList, execution: Execution) -> None:
    """Record the outcome `leased_by_run` for messages that another run leases."""
    run, ledger, now = execution.run, execution.ledger, execution.clock()
    owners = ledger.messages.lease_holders(run.run_id, now)
    facts = []
    for item in work.items if set(owners.values()) - {run.run_id} else ():
        owner = owners.get(item.message.message_id, run.run_id)
        if owner != run.run_id and item.outcome is None:
            item.outcome = Outcome.LEASED_BY_RUN
            why, message_id = Why.LEASED(run_id=owner), item.message.message_id
            facts.append(build_outcome(message_id, item.outcome, why, None, now))
    ledger.outcomes.add(run.run_id, facts)
    if facts:
        execution.log.info("%d messages are skipped: another run leases them", len(facts))


def lease_until(moment: datetime | None, items: Sequence[WorkItem], execution: Execution) -> None:
    """Lease these messages until the next pass and LEASE_GRACE; release the run's other leases.

    `moment` is None if there is no next pass.
    """
    run_id, ledger, now = execution.run.run_id, execution.ledger, execution.clock()
    ids = {item.message.message_id for item in items} if moment is not None else set()
    holders = ledger.messages.lease_holders(run_id, now)
    held = {key for key, owner in holders.items() if owner == run_id}
    ledger.messages.lease(run_id, sorted(held - ids), now)
    if moment is not None:
        ledger.messages.lease(run_id, sorted(ids), moment + LEASE_GRACE)
