"""Review a plan: decide by guards whether it needs an approval before it is executed.

Guards compare the plan with earlier runs that were allowed to act. A plan without an approval does
not count: a finding that was rejected, or that awaits its answer, needs an approval again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from mqdlq.controls.repair import GUARD, read_repair
from mqdlq.errors import ExecutionError
from mqdlq.handlers.operation import ApprovalGuards, GuardedAction
from mqdlq.lake import PlanDescription, count_settled, find_plan, plan_directory, read_columns
from mqdlq.lake.cause_numbers import book_causes
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Approval, AuditEvent, Run
from mqdlq.model import Action, AuditKind, Outcome
from mqdlq.resources import Execution
from mqdlq.stages.execute import accept_plan
from mqdlq.stages.proposals import find_proposer
from mqdlq.stages.run_options import WITHOUT_PERSON
from mqdlq.words import count, name_causes, plan_in_words

SECOND_PERSON: Final = "second_person"
"""The name of the guard in questions and in the ledger."""

_WORDS: Final[Mapping[Action, str]] = {
    Action.DISCARD: "discarded",
    Action.FWD: "forwarded",
    Action.RETRY: "retried",
}

_NEVER_IN_THE_FOREGROUND: Final = {
    SECOND_PERSON: (
        "mqdlq, because a run in the foreground has no second person",
        (
            "rejected: a run in the foreground has no second person, so this run moves nothing;"
            " start it in Airflow, where another person can approve its plan [MQDLQ-977]"
        ),
    ),
    GUARD: (
        "mqdlq, because nobody can approve a repair in the foreground",
        (
            "rejected: a repair needs an approval, which nobody can give to a run in the"
            " foreground, so this run moves nothing; start it in Airflow, where a person can"
            " approve its plan [MQDLQ-523]"
        ),
    ),
}
"""Who rejects, and why, where nobody can approve a plan that a person must approve in any case."""

Question = tuple[str, str]
"""Why an approval is needed: the guard's name, and what it found."""


@dataclass(frozen=True, slots=True)
class PlanReview:
    """An accepted plan, which snapshot messages it covers, and the questions to answer first."""

    plan: PlanDescription
    coverage: str
    questions: tuple[Question, ...] = ()


def review_plan(
    execution: Execution,
    plan_id: str,
    guards: ApprovalGuards,
    *,
    answer: Mapping[str, Any] | None = None,
    is_watched: bool = False,
) -> PlanReview:
    """Check a plan against its hash, record it, and return it with the questions to be answered.

    `answer` comes from `record_answer`. A question and its answer are each recorded once. With
    `is_watched` the run is in the foreground, where nobody can answer, so no question is asked; a
    plan that needs a second person, or has a repair, is rejected there. If a person who must not
    approve the plan has approved it, the audit records that, and the questions stay open. A second
    call changes nothing. Raises ExecutionError for a missing plan or another run's plan.
    """
    run, ledger, log = execution.run, execution.ledger, execution.log
    directory = plan_directory(execution.lake_root, plan_id)
    require_plan(directory)
    plan = accept_plan(execution, plan_id)
    accepted = PlanReview(plan, _describe_coverage(run, plan, ledger))
    approval = ledger.plans.last_approval(run.run_id)
    if approval is not None and approval.decision == "asked" and answer:
        approval = _record_answer(execution, approval, answer, guards, directory)
    if approval is not None and approval.decision != "asked":
        log.info("%s by %s", approval.decision, approval.who)
    else:
        moves = PlannedMoves.of_plan(directory)
        asked = tuple(ask_about(run, guards, moves, ledger, snapshot_of=run.run_id))
        need = "a run that acts would need" if run.dry_run else "needs"
        for _, text in asked:
            log.info("%s an approval: %s", need, text)
        if asked and not run.dry_run:
            names = tuple(dict.fromkeys(guard for guard, _ in asked))
            question = Approval(plan.plan_hash, names, "asked", "", execution.clock())
            if not is_watched:
                if approval is None:
                    ledger.plans.record_approval(run.run_id, question)
                    book_causes(run, ledger)  # the answer may take hours
                return replace(accepted, questions=asked)
            _continue_in_the_foreground(execution, question)
    log.info("plan %s: %s", plan.plan_id, accepted.coverage)
    for step in plan.counts:
        rule = "action" if run.has_given_action else f"line {step.rule_line}"
        target = f" to {step.target_q}" if step.target_q else ""
        log.info("%s %s%s: %s", rule, step.action, target, count(step.messages, "message"))
    return accepted


def _continue_in_the_foreground(execution: Execution, question: Approval) -> None:
    """Reject a plan that a person must approve in any case; any other is as good as approved."""
    for guard, (who, why) in _NEVER_IN_THE_FOREGROUND.items():
        if guard in question.guards:
            rejection = replace(question, decision="rejected", who=who)
            execution.ledger.plans.record_approval(execution.run.run_id, rejection)
            execution.log.warning("%s", why)
            return
    execution.log.info("a run in the foreground continues without an approval")


def require_plan(directory: str) -> None:
    """Raise ExecutionError if no plan was written because the evaluation has not run."""
    if find_plan(directory) is None:
        raise ExecutionError(
            "MQDLQ-508",
            f"the task evaluate has left no plan in {directory}: it was marked as done by hand, or"
            " the plan was removed; clear evaluate and the tasks after it",
        )


def record_answer(
    *, is_approved: bool, names: Sequence[str], at: datetime, why: str = ""
) -> dict[str, Any]:
    """Return an answer as plain JSON values.

    `names` are the name and the id of the person in Airflow; the first one that is not empty goes
    to the ledger. Without one, nobody answered in time. `why` is the person's comment.
    """
    known = [name for name in names if name]
    return {
        "decision": "approved" if is_approved else "rejected",
        "who": known[0] if known else "nobody, in time",
        "names": known,
        "at": at.isoformat(),
        "why": why,
    }


def _record_answer(
    execution: Execution,
    question: Approval,
    answer: Mapping[str, Any],
    guards: ApprovalGuards,
    plan: str,
) -> Approval:
    """Record the answer to an open question, unless that person must not give it.

    `plan` is the directory of the plan. Only the approval of a plan with a guarded action can be
    refused. The audit records that once, and the question stays open.
    """
    run, ledger = execution.run, execution.ledger
    at, why, fault = datetime.fromisoformat(answer["at"]), answer.get("why", ""), ""
    if answer["decision"] == "approved":
        actions = PlannedMoves.of_plan(plan).actions
        if _guarded_moves(run, actions, guards.second_person):
            fault = find_fault_of_approver(run, answer.get("names", ()), ledger)
    if not fault:
        given = replace(question, decision=answer["decision"], who=answer["who"], at=at, why=why)
        ledger.plans.record_approval(run.run_id, given)
        return given
    execution.log.warning("the approval of %s is refused: %s [MQDLQ-978]", answer["who"], fault)
    ledger.audit.record_once(
        AuditEvent(
            at=at,
            what=AuditKind.SECOND_PERSON_REFUSED,
            who=answer["who"],
            handler=run.handler,
            run_id=run.run_id,
            why=why,
            details=fault,
        )
    )
    return question


def _describe_coverage(run: Run, plan: PlanDescription, ledger: Ledger) -> str:
    """Return which messages the plan covers, and why it omits the others of the snapshot."""
    snapshot = ledger.snapshots.of_run(run.run_id)
    settled: Counter[Outcome] = Counter()
    others = snapshot.messages - plan.messages if run.is_for_some and snapshot else 0
    if snapshot is not None and not run.is_for_some:
        for row in count_settled(snapshot.location):
            settled[Outcome(row["outcome"])] += row["count_all"]
    covered = plan_in_words(plan.dispositions, settled, others)
    if not run.condition:
        return covered
    absent = snapshot.absent if snapshot else 0
    left = f", {absent} of which have left the queue" if absent else ""
    return f"{covered}; the plan is for {run.meant}{left}"


@dataclass(slots=True)
class PlannedMoves:
    """Moves of a plan, as guards see them: messages acted on, actions, and targets."""

    messages: int = 0
    actions: Counter[Action] = field(default_factory=Counter)
    targets: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def of_plan(cls, directory: str) -> PlannedMoves:
        moves = cls()
        for (_, steps), messages in read_columns(directory).counted:
            actions = {step.action for step in steps}
            moves.messages += messages if actions - {Action.IGNORE} else 0
            moves.actions.update(dict.fromkeys(actions, messages))
            moves.targets |= {(s.target_q, s.target_q_mgr) for s in steps if s.target_q}
        return moves


def ask_about(
    run: Run, guards: ApprovalGuards, moves: PlannedMoves, ledger: Ledger, *, snapshot_of: str
) -> Iterator[Question]:
    """Yield the questions that guards ask about moves of a run, which need not have begun.

    The causes are those in the snapshot of the run `snapshot_of`.
    """
    discards = moves.actions[Action.DISCARD]
    if run.repair:
        yield GUARD, f"{count(moves.messages, 'message')} may be delivered repaired"
    if guards.discard and discards:
        yield "discard", f"{discards} messages may be discarded"
    if guards.messages is not None and moves.messages > guards.messages:
        text = f"{moves.messages} messages are acted on, more than {guards.messages}"
        yield "messages", text
    if found := _guarded_moves(run, moves.actions, guards.second_person):
        yield SECOND_PERSON, _describe_need(run, found)
    if guards.new_target:
        for queue, queue_manager in sorted(moves.targets - ledger.attempts.earlier_targets(run)):
            at = f" @ {queue_manager}" if queue_manager else ""
            yield "new_target", f"nothing was ever moved from here to {queue}{at}"
    yield from _ask_about_history(run, guards, ledger, snapshot_of)


def _ask_about_history(
    run: Run, guards: ApprovalGuards, ledger: Ledger, snapshot_of: str
) -> Iterator[Question]:
    if guards.new_cause and (new := ledger.snapshots.causes_never_acted_on(run, snapshot_of)):
        are, them = ("is", "it") if len(new) == 1 else ("are", "them")
        says = f"{name_causes(new)} {are} new: no run that acted on this queue has met {them}"
        yield "new_cause", says
    if guards.changed_rules and (before := ledger.runs.other_rules_before(run)):
        yield "changed_rules", f"the rules are not those of the last run, {before}"


# A plan that needs a second person: whether a person may approve it.


def _guarded_moves(
    run: Run, actions: Counter[Action], guarded: Collection[GuardedAction]
) -> list[str]:
    """Return in words what of a plan needs a second person; a replaced body always does."""
    wanted = sorted(Action(one.upper()) for one in guarded)
    found = [f"{actions[one]} messages may be {_WORDS[one]}" for one in wanted if actions[one]]
    repair = read_repair(run.repair)
    return [
        *found,
        *["the body of a message may be replaced"] * bool(repair and repair.body_sha256),
    ]


def _describe_need(run: Run, found: Sequence[str]) -> str:
    """Return why the plan needs a second person, and who must not approve it."""
    numbers = " and ".join(found)
    if run.run_type in WITHOUT_PERSON:
        rest = f"a person must approve this, because {run.started_by} started the run"
    elif run.started_by_user:
        rest = f"{run.started_by_user} started the run, and must not approve it"
    else:
        rest = "nobody can approve this, because Airflow does not know who started the run"
    return f"{numbers}: {rest}"


def find_fault_of_approver(run: Run, approver: Iterable[str], ledger: Ledger) -> str:
    """Return why a person with these names must not approve the guarded plan of a run, or "".

    Neither the starter may, nor a person whose agent has proposed the run.
    The names of the starter and of the approver come from the same method of Airflow's auth
    manager. They are compared without regard to case, because some directories ignore it.
    """
    names = {str(name).casefold() for name in approver} - {""}
    if not names:
        return "Airflow does not know who approved the plan"
    if proposer := find_proposer(run, names, ledger):
        return f"{proposer} proposed the plan; another person must approve it"
    if run.run_type in WITHOUT_PERSON:
        return ""
    if not run.started_by_user:
        return "Airflow does not know who started the run; start another run"
    if run.started_by_user.casefold() in names:
        return f"{run.started_by_user} started the run; another person must approve its plan"
    return ""
