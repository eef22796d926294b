"""Accept a plan, and decide by guards what a person must approve before it is executed.

Guards compare the plan with what earlier runs did that had leave to: a plan nobody has approved is
no precedent, so what was rejected, or is not answered yet, is asked again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from mqdlq.constants import reason_text
from mqdlq.errors import ExecutionError
from mqdlq.handlers.operation import ApprovalGuards, Event
from mqdlq.lake import PlanDescription, find_plan, plan_directory, planned_messages, snapshot_rows
from mqdlq.ledger import Approval, Cause, Ledger, Run
from mqdlq.model import Action, Outcome
from mqdlq.stages.alerts import Alert
from mqdlq.stages.execute import accept_plan
from mqdlq.stages.execute.settled_messages import SettledList
from mqdlq.stages.report.wording import count, plan_in_words


@dataclass(frozen=True, slots=True)
class Question:
    """Why a person is asked: the guard's name, and in words what it saw."""

    guard: str
    says: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """A plan that a run has accepted, and `covered`: its messages, and others', in words.

    A person has to answer the questions before the plan is executed; without any it may be.
    """

    plan: PlanDescription
    covered: str
    questions: tuple[Question, ...] = ()


def accept(
    run: Run,
    plan_id: str,
    guards: ApprovalGuards,
    *,
    ledger: Ledger,
    lake_root: str,
    clock: Callable[[], datetime],
    log: logging.Logger,
    answer: Mapping[str, str] | None = None,
    is_watched: bool = False,
) -> Accepted:
    """Check a plan against its hash, record it, and return what a person has to answer.

    `answer` is what `answer_of` has made of a person's answer. A question is recorded once, and so
    is the answer. A run `is_watched` where nobody could answer; then it asks nobody. Called again
    it changes nothing. Raises ExecutionError for a plan that is not there or not this run's.
    """
    directory = plan_directory(lake_root, plan_id)
    check_plan(directory)
    plan = accept_plan(run, plan_id, ledger=ledger, lake_root=lake_root, clock=clock)
    accepted = Accepted(plan, _covered(run, plan, ledger))
    approval = _approval(run, answer, ledger)
    if approval is not None and approval.decision != "asked":
        log.info("%s by %s", approval.decision, approval.who)
    elif not run.dry_run:
        asked = questions(run, guards, ledger=ledger, plan=directory)
        for question in asked:
            log.info("to be approved: %s", question.says)
        if asked and is_watched:
            log.info("a run in the foreground asks nobody")
        elif asked:
            if approval is None:
                names = tuple(dict.fromkeys(question.guard for question in asked))
                first = Approval(plan.plan_hash, names, "asked", "", clock())
                ledger.plans.record_approval(run.run_id, first)
            return replace(accepted, questions=tuple(asked))
    for line in _in_words(run, accepted):
        log.info("%s", line)
    return accepted


def check_plan(directory: str) -> None:
    """Raise ExecutionError where no plan was written, since the evaluation has not run."""
    if find_plan(directory) is None:
        raise ExecutionError(
            "MQDLQ-508",
            f"the task evaluate has left no plan in {directory}: it was marked as done by hand, or"
            " the plan was removed; clear evaluate and the tasks after it",
        )


def answer_of(*, is_approved: bool, who: str, at: datetime) -> dict[str, Any]:
    """Return a person's answer as plain JSON values; nobody's name means silence."""
    decision = "approved" if is_approved else "rejected"
    return {"decision": decision, "who": who or "nobody, in time", "at": at.isoformat()}


def alert_of(run: Run, asked: Sequence[Question]) -> Alert:
    """Return what people are notified of while a plan waits for an answer."""
    title = f"{run.handler}: a plan waits for approval ({run.queue} @ {run.queue_manager})"
    return Alert(Event.APPROVAL, title, "\n".join(question.says for question in asked))


def page_of(accepted: Accepted, within: timedelta) -> str:
    """Return the plan's summary in Markdown: why it is asked, and what would be done first.

    `within` is how long an answer is waited for.
    """
    plan = accepted.plan
    why = "\n".join(f"- {question.says}" for question in accepted.questions)
    rows = "\n".join(
        f"| {step.rule_line} | {step.action} | {step.target_q or '-'} | {step.messages} |"
        for step in plan.counts
    )
    return (
        f"{why}\n\n| line | first action | target | messages |\n|---|---|---|---|\n{rows}\n\n"
        f"All messages: {accepted.covered}. Plan `{plan.plan_id}`, hash `{plan.plan_hash}`: exactly"
        " this plan is carried out if you approve.\n\n"
        f"No answer within {within} means reject.\n"
    )


def _approval(run: Run, answer: Mapping[str, str] | None, ledger: Ledger) -> Approval | None:
    """Return the run's question or answer; an answer that is not recorded yet is recorded."""
    earlier = ledger.plans.last_approval(run.run_id)
    if earlier is None or earlier.decision != "asked" or not answer:
        return earlier
    at = datetime.fromisoformat(answer["at"])
    given = replace(earlier, decision=answer["decision"], who=answer["who"], at=at)
    ledger.plans.record_approval(run.run_id, given)
    return given


def _covered(run: Run, plan: PlanDescription, ledger: Ledger) -> str:
    """Say what the plan covers, and why it does not cover the other messages of the snapshot."""
    snapshot = ledger.snapshots.of_run(run.run_id)
    settled: Counter[Outcome] = Counter()
    others = 0
    if run.named and snapshot is not None:
        others = snapshot.messages - plan.messages
    elif snapshot is not None:
        for how, number in SettledList(snapshot.location).count_settled().items():
            settled[how.outcome] += number
    return plan_in_words(plan.dispositions, settled, others)


def _in_words(run: Run, accepted: Accepted) -> Iterator[str]:
    yield f"plan {accepted.plan.plan_id}: {accepted.covered}"
    for step in accepted.plan.counts:
        rule = "action" if run.has_given_action else f"line {step.rule_line}"
        target = f" to {step.target_q}" if step.target_q else ""
        yield f"{rule} {step.action}{target}: {count(step.messages, 'message')}"


def note_causes(run: Run, *, ledger: Ledger) -> list[Cause]:
    """Record why the messages of the run are dead letters, once; return it."""
    snapshot = ledger.snapshots.of_run(run.run_id)
    if snapshot is not None:
        ledger.snapshots.record_causes(run.run_id, _causes(snapshot.location, run.named))
    return ledger.snapshots.causes(run.run_id)


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
        for queue, queue_manager in sorted(targets - ledger.attempts.earlier_targets(run)):
            at = f" @ {queue_manager}" if queue_manager else ""
            yield Question("new_target", f"nothing was ever moved from here to {queue}{at}")


def _about_the_past(run: Run, guards: ApprovalGuards, ledger: Ledger) -> Iterator[Question]:
    if guards.new_cause:
        met = {cause.reason for cause in ledger.snapshots.causes(run.run_id)} - {0}
        for reason in sorted(met - ledger.snapshots.reasons_acted_on(run)):
            says = f"{reason_text(reason)} is new: no run that acted on this queue has met it"
            yield Question("new_cause", says)
    if guards.changed_rules and (before := ledger.runs.other_rules_before(run)):
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
