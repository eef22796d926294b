"""Find the messages of a run that still have a step to try, and recognise them on the queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mqdlq.causes import CAUSE_COLUMNS, cause_of_row
from mqdlq.controls.repair.changes import find_all_changes
from mqdlq.errors import ExecutionError
from mqdlq.handlers.controls import read_controls
from mqdlq.headers import message_key
from mqdlq.lake import plan_directory, planned_messages, snapshot_rows
from mqdlq.ledger import Ledger, MessageRepair, Run, RunMessage
from mqdlq.model import DEPARTED, Action, AttemptState, Outcome, PlannedMessage, Step
from mqdlq.mqi.browse import BrowseCursor, BrowsedMessage
from mqdlq.plan import plan_hash
from mqdlq.rules import treatment_changes
from mqdlq.stages.execute.controls.holds import Hold


@dataclass(slots=True)
class WorkItem:
    """One message of a run: its planned steps, its attempts, and its outcome if it has one.

    `planned` are the steps as the plan has them, `steps` those steps with the tries that are left.
    `is_in_doubt` says that its last attempt is unknown, `was_seen` that the last browse of the
    queue met it. `withheld_reason` says why its next step must not be carried out, "" if it may.
    `hold` says why a control does not let the pass try it now, None if none holds it.
    `moved_because` is what its outcome says if a step succeeds, "" for the usual words.
    `was_moved_elsewhere` says that another run moved it: a message with its key on the queue is
    then an equal or a new one. `cause_id` is its cause, "" if no control of the run acts by cause.
    `changes` are those of a run with a repair.
    """

    message: RunMessage
    steps: tuple[Step, ...]
    attempts_made: int
    outcome: Outcome | None
    last_attempt_at: datetime | None = None
    is_in_doubt: bool = False
    was_seen: bool = False
    withheld_reason: str = ""
    hold: Hold | None = None
    moved_because: str = ""
    was_moved_elsewhere: bool = False
    cause_id: str = ""
    changes: MessageRepair | None = None
    planned: tuple[Step, ...] = ()

    @property
    def has_departed(self) -> bool:
        """Whether it is known to have left the queue, moved by this run or otherwise."""
        return self.was_moved_elsewhere or self.outcome in DEPARTED

    @property
    def step(self) -> Step | None:
        """The step to try next, or None if all rules are exhausted."""
        return choose_step(self.steps, self.attempts_made)

    def was_tried_since(self, moment: datetime) -> bool:
        """Return whether an attempt was made at this moment or later."""
        return self.last_attempt_at is not None and self.last_attempt_at >= moment

    @property
    def due_step(self) -> Step | None:
        """The step to try next, or None if there is nothing to try."""
        step = None if self.outcome is not None or self.withheld_reason else self.step
        return None if step is None or step.action is Action.IGNORE else step

    @property
    def exhausted_step(self) -> Step | None:
        """The last step of a message whose rules are exhausted, else None."""
        is_open = self.outcome is None and not self.withheld_reason
        return self.steps[-1] if is_open and self.steps and self.step is None else None

    @property
    def is_due(self) -> bool:
        """Whether there is a step to try."""
        return self.due_step is not None


@dataclass(frozen=True, slots=True)
class BrowsedItem:
    """A browsed message; `item` is None if it is not one of the run's messages."""

    key: bytes
    browsed: BrowsedMessage
    item: WorkItem | None


def choose_step(steps: Sequence[Step], attempts_made: int) -> Step | None:
    """Choose among a message's matching rules as IBM's handler does.

    An IGNORE that is reached is taken. Otherwise each rule adds its RETRY to a running total, and
    the first rule whose total exceeds the attempts already made is tried; RETRY(3) means three
    attempts in all (IBM MQ docs, "How the rules table is processed").
    """
    budget = 0
    for step in steps:
        if step.action is Action.IGNORE:
            return step
        budget += step.tries
        if budget > attempts_made:
            return step
    return None


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


class WorkList:
    """All messages of a run, which a browse recognises by their keys."""

    def __init__(self, items: Iterable[WorkItem]) -> None:
        """Hold the items in browse order of the snapshot."""
        self.items = list(items)

    def browse(self, cursor: BrowseCursor) -> Iterator[BrowsedItem]:
        """Browse the queue from its head and recognise the run's messages.

        The k-th message with a key on the queue is the k-th of the run's messages with that key
        that have not departed. Messages in doubt are assigned last.
        """
        waiting: dict[bytes, list[WorkItem]] = defaultdict(list)
        for item in sorted(self.items, key=_assignment_order):
            item.was_seen = False
            if not item.has_departed:
                waiting[item.message.message_key].append(item)
        for browsed in cursor.messages():
            key = message_key(browsed.descriptor, browsed.total_length, browsed.prefix)
            recognised = waiting[key].pop() if waiting.get(key) else None
            if recognised is not None:
                recognised.was_seen = True
            yield BrowsedItem(key, browsed, recognised)

    def mark_moved_elsewhere(self, elsewhere: Collection[int]) -> None:
        """Mark the messages that another run has moved since the browse.

        Messages with equal keys are indistinguishable. If the browse met one of them, the met
        message is an equal that is still on the queue.
        """
        unmet: dict[bytes, list[WorkItem]] = defaultdict(list)
        for item in self.items:
            item.was_moved_elsewhere = (
                item.was_moved_elsewhere or item.message.message_id in elsewhere
            )
            if not item.was_seen and not item.has_departed:
                unmet[item.message.message_key].append(item)
        for item in self.items:
            if item.was_seen and item.was_moved_elsewhere and unmet.get(item.message.message_key):
                unmet[item.message.message_key].pop(0).was_seen = True
                item.was_seen = False

    def find_pending_items(self) -> list[WorkItem]:
        """Return the items that the last browse met and that a later pass of this run tries."""
        return [
            item
            for item in self.items
            if item.was_seen and item.is_due and (item.hold is None or item.hold.until is not None)
        ]


def _assignment_order(item: WorkItem) -> tuple[bool, int]:
    return not item.is_in_doubt, -item.message.browse_seq


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


def _find_reason_to_withhold(item: WorkItem, run: Run, truncated: bool) -> str:
    """Return the reason why the next step must not be carried out, or ""."""
    step = item.step
    if step is None or step.action is Action.IGNORE:
        return ""
    is_local = step.target_q_mgr in {"", run.queue_manager}
    if is_local and step.target_q in {run.queue, run.state_queue}:
        return f"its target, {step.target_q}, is a queue of this very handler"
    loses_its_header = step.action is Action.RETRY or not step.header
    if truncated and loses_its_header and step.action is not Action.DISCARD:
        return (
            "it is as long as the queue allows and may have been cut; deliver_truncated would"
            " deliver it anyway"
        )
    return item.changes.refusal if item.changes else ""
