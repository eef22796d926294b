"""What is left to do in a run: plan and ledger in, its messages with their next steps out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from mqdlq.errors import ExecutionError
from mqdlq.headers import message_key
from mqdlq.lake import plan_directory, planned_messages, snapshot_rows
from mqdlq.ledger import Ledger, Run, RunMessage
from mqdlq.model import DEPARTED, Action, AttemptState, Outcome, PlannedMessage, Step
from mqdlq.mqi.browse import BrowseCursor, Browsed
from mqdlq.plan import plan_hash


@dataclass(slots=True)
class WorkItem:
    """One message of a run: its planned steps, what was tried, and how it ended if it has.

    `in_doubt` says that its last attempt is unknown, `met` whether the last browse of the queue
    came upon it, `withheld` why its next step must not be carried out, if so. `moved_elsewhere`
    says that another run saw it depart: what is on the queue then is a twin of it, or new.
    """

    message: RunMessage
    steps: tuple[Step, ...]
    attempts_made: int
    outcome: Outcome | None
    last_attempt_at: datetime | None = None
    in_doubt: bool = False
    met: bool = False
    withheld: str = ""
    moved_elsewhere: bool = False

    @property
    def departed(self) -> bool:
        """Whether it is known to have left the queue, by this run's doing or not."""
        return self.moved_elsewhere or self.outcome in DEPARTED

    @property
    def step(self) -> Step | None:
        """The step to try next, or None when all rules are exhausted."""
        return step_to_try(self.steps, self.attempts_made)

    def was_tried_since(self, moment: datetime) -> bool:
        """Whether an attempt was made then or later."""
        return self.last_attempt_at is not None and self.last_attempt_at >= moment

    @property
    def due_step(self) -> Step | None:
        """The step to try next, or None where there is nothing left to try."""
        step = None if self.outcome is not None or self.withheld else self.step
        return None if step is None or step.action is Action.IGNORE else step

    @property
    def due(self) -> bool:
        """Whether there is something left to try."""
        return self.due_step is not None


@dataclass(frozen=True, slots=True)
class Met:
    """A message that a browse came upon; `item` is None where it is none of the run's."""

    key: bytes
    browsed: Browsed
    item: WorkItem | None


def step_to_try(steps: Sequence[Step], attempts_made: int) -> Step | None:
    """Choose among a message's matching rules as IBM's handler does.

    An IGNORE that is reached is taken. Otherwise each rule adds its RETRY to a running total, and
    the first whose total exceeds the attempts already made is tried; RETRY(3) is three attempts
    in all (IBM MQ docs, "How the rules table is processed").
    """
    budget = 0
    for step in steps:
        if step.action is Action.IGNORE:
            return step
        budget += step.tries
        if budget > attempts_made:
            return step
    return None


class WorkList:
    """All messages of a run, found again on the queue by their keys."""

    def __init__(self, items: Iterable[WorkItem]) -> None:
        """Hold the items in browse order of the snapshot."""
        self.items = list(items)

    def browse(self, cursor: BrowseCursor) -> Iterator[Met]:
        """Browse the queue from its head, recognising the run's messages.

        The k-th sighting of a key is the k-th of its occurrences that has not departed; those in
        doubt come last.
        """
        waiting: dict[bytes, list[WorkItem]] = defaultdict(list)
        for item in sorted(self.items, key=_last_first):
            item.met = False
            if not item.departed:
                waiting[item.message.message_key].append(item)
        for browsed in cursor.messages():
            key = message_key(browsed.descriptor, browsed.total_length, browsed.prefix)
            recognised = waiting[key].pop() if waiting.get(key) else None
            if recognised is not None:
                recognised.met = True
            yield Met(key, browsed, recognised)

    def depart(self, elsewhere: Collection[int]) -> None:
        """Note what another run has moved since; where a browse met a twin of it, it was the twin.

        Nothing tells twins apart but that one of them has left.
        """
        unmet: dict[bytes, list[WorkItem]] = defaultdict(list)
        for item in self.items:
            item.moved_elsewhere = item.moved_elsewhere or item.message.message_id in elsewhere
            if not item.met and not item.departed:
                unmet[item.message.message_key].append(item)
        for item in self.items:
            if item.met and item.moved_elsewhere and unmet.get(item.message.message_key):
                unmet[item.message.message_key].pop(0).met = True
                item.met = False

    def pending(self) -> list[WorkItem]:
        """Return what the last browse met that is still to be tried."""
        return [item for item in self.items if item.met and item.due]


def _last_first(item: WorkItem) -> tuple[bool, int]:
    return not item.in_doubt, -item.message.browse_seq


def load_work(run: Run, ledger: Ledger, lake_root: str) -> WorkList:
    """Bring together a run's plan, its messages, their attempts and their outcomes.

    Raises ExecutionError where the plan in the lake is not the one that was accepted.
    """
    plan = ledger.plans.of_run(run.run_id)
    if plan is None:
        return WorkList([])
    steps = _accepted_steps(plan.plan_id, plan.plan_hash, lake_root)
    attempts = ledger.attempts.made(run)
    outcomes = {
        one.message_id: one.outcome.outcome
        for one in ledger.messages.listed(run.run_id)
        if one.outcome
    }
    unknown = ledger.attempts.in_states(run.queue_manager, AttemptState.UNKNOWN)
    in_doubt = {attempt.message_id for attempt in unknown}
    elsewhere = ledger.messages.departed_elsewhere(run.run_id)
    truncated = _maybe_truncated(run, ledger)
    items = []
    for message in ledger.messages.of_run(run.run_id):
        made, last = attempts.get(message.message_id, (0, None))
        ended = outcomes.get(message.message_id)
        item = WorkItem(message, steps.get(message.browse_seq, ()), made, ended, last)
        item.in_doubt = message.message_id in in_doubt
        item.moved_elsewhere = message.message_id in elsewhere
        item.withheld = _why_withheld(item, run, message.browse_seq in truncated)
        items.append(item)
    return WorkList(items)


def _accepted_steps(plan_id: str, accepted: str, lake_root: str) -> dict[int, tuple[Step, ...]]:
    """Return the steps of a plan by browse_seq; raises ExecutionError if it is not as accepted.

    Messages that are treated alike share theirs: a queue has a million messages and few treatments.
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
            f"plan {plan_id} was altered after it was accepted: its rows hash to {found}, those"
            f" accepted to {accepted}"
        )
    return steps


def _maybe_truncated(run: Run, ledger: Ledger) -> set[int]:
    """Return the browse_seq of messages that may have been cut to fit the queue."""
    snapshot = ledger.snapshots.of_run(run.run_id)
    if snapshot is None or run.deliver_truncated:
        return set()
    rows = snapshot_rows(snapshot.location, ["browse_seq", "maybe_truncated"])
    return {row["browse_seq"] for row in rows if row["maybe_truncated"]}


def _why_withheld(item: WorkItem, run: Run, truncated: bool) -> str:
    """Say why the next step must not be carried out, or "" if it may."""
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
            " deliver it all the same"
        )
    return ""
