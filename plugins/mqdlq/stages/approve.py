"""An accepted plan and its queue's past in, what a person has to approve before it runs out.

The past is what runs did that had leave to: a plan nobody has approved is no precedent, so what
was rejected, or is not answered yet, is asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from mqdlq.constants import reason_text
from mqdlq.handlers.operation import ApprovalGuards
from mqdlq.lake import planned_messages, snapshot_rows
from mqdlq.ledger import (
    Cause,
    Ledger,
    Run,
    causes_of,
    earlier_targets,
    other_rules_before,
    reasons_acted_on,
    record_causes,
)
from mqdlq.model import Action


@dataclass(frozen=True, slots=True)
class Question:
    """Why a person is asked: the guard's name, and in words what it saw."""

    guard: str
    says: str


def note_causes(run: Run, *, ledger: Ledger) -> list[Cause]:
    """Record why the messages of the run are dead letters, once; return it."""
    snapshot = ledger.snapshot(run.run_id)
    if snapshot is not None:
        record_causes(ledger, run.run_id, _causes(snapshot.location, run.named))
    return causes_of(ledger, run.run_id)


def questions(run: Run, guards: ApprovalGuards, *, ledger: Ledger, plan: str) -> list[Question]:
    """Return what the guards have to ask about the plan in a directory, nothing if they are off."""
    return [*_about_the_plan(run, guards, ledger, plan), *_about_the_past(run, guards, ledger)]


def _about_the_plan(
    run: Run, guards: ApprovalGuards, ledger: Ledger, plan: str
) -> Iterator[Question]:
    acted_on, discards, targets = 0, 0, set()
    for message in planned_messages(plan):
        actions = {step.action for step in message.steps}
        acted_on += bool(actions - {Action.IGNORE})
        discards += Action.DISCARD in actions
        targets |= {(step.target_q, step.target_q_mgr) for step in message.steps if step.target_q}
    if guards.discard and discards:
        yield Question("discard", f"{discards} messages may be discarded")
    if guards.messages is not None and acted_on > guards.messages:
        yield Question("messages", f"{acted_on} messages are acted on, more than {guards.messages}")
    if guards.new_target:
        for queue, queue_manager in sorted(targets - earlier_targets(ledger, run)):
            at = f" @ {queue_manager}" if queue_manager else ""
            yield Question("new_target", f"nothing was ever moved from here to {queue}{at}")


def _about_the_past(run: Run, guards: ApprovalGuards, ledger: Ledger) -> Iterator[Question]:
    if guards.new_cause:
        met = {cause.reason for cause in causes_of(ledger, run.run_id)} - {0}
        for reason in sorted(met - reasons_acted_on(ledger, run)):
            says = f"{reason_text(reason)} is new: no run that acted on this queue has met it"
            yield Question("new_cause", says)
    if guards.changed_rules and (before := other_rules_before(ledger, run)):
        yield Question("changed_rules", f"the rules are not those of the last run, {before}")


def _causes(location: str, named: frozenset[bytes]) -> list[Cause]:
    counts: Counter[int] = Counter()
    oldest: dict[int, datetime] = {}
    columns = ["message_key", "dlh_reason", "dead_lettered_at", "put_at"]
    for row in snapshot_rows(location, columns):
        if named and row["message_key"] not in named:
            continue
        reason = row["dlh_reason"] or 0
        counts[reason] += 1
        at = row["dead_lettered_at"] or row["put_at"]
        if at is not None:
            oldest[reason] = min(at, oldest.get(reason, at))
    return [Cause(reason, counts[reason], oldest.get(reason)) for reason in sorted(counts)]
