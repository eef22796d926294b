"""The end of a run: one more browse of the queue in, exactly one outcome for every message out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from mqdlq.constants import reason_text
from mqdlq.errors import ConservationError, ExecutionError
from mqdlq.lake import read_manifest, snapshot_rows
from mqdlq.ledger import Attempt, InStep, OutcomeFact, Settled, Sighting, TakenSnapshot
from mqdlq.model import DEPARTED, Action, Disposition, Outcome
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import connect
from mqdlq.mqi.hints import BLANK_NAME
from mqdlq.stages.execute.execution import Execution
from mqdlq.stages.execute.ownership import give_up_all
from mqdlq.stages.execute.parked import Bystanders, NotSelected, ParkedList, Vanished, to_be_parked
from mqdlq.stages.execute.permission import why_not_to_act
from mqdlq.stages.execute.work import WorkItem, WorkList, load_work
from mqdlq.stages.units.destinations import Destination, Destinations

Advice = Callable[[Attempt], str]
"""Returns what the reason of a failed attempt means, and where to look."""

SECOND_LOOK_S = 5.0
"""How long to wait before what has vanished is looked for once more."""


@dataclass(frozen=True, slots=True)
class _Findings:
    """What is known of a run's messages beside the work list, by message id.

    `departed_elsewhere` and `being_moved` name the other run. `readers` counts the handles that
    had the queue open for input around the last browse.
    """

    departed_elsewhere: Mapping[int, str]
    being_moved: Mapping[int, str]
    readers: int
    blocked: Mapping[Destination | None, int]
    why_not_to_act: str
    at: datetime


def settle(execution: Execution) -> Counter[Outcome]:
    """Browse the queue once more and book the outcome of every message that has none yet.

    What is booked as left must be seen, what is booked as departed must be absent; what vanished
    without us is `expired` or `taken`. Called again it adds nothing. Returns the run's outcomes,
    counted. Raises ConservationError where the account does not add up; the ledger then holds
    what was found.
    """
    run, ledger = execution.run, execution.ledger
    snapshot = ledger.snapshots.of_run(run.run_id)
    if snapshot is None:
        raise ConservationError(f"run {run.run_id} has no snapshot to account for")
    if ledger.attempts.has_open_units(run.run_id):
        raise ExecutionError(
            f"run {run.run_id} has units of work that are not settled: make a pass first"
        )
    work = load_work(run, ledger, execution.lake_root)
    others = (
        NotSelected(snapshot.location, run.named) if run.named else ParkedList(snapshot.location)
    )
    sighting, readers = _last_look(execution, work, others, snapshot)
    missing = _missing(execution, others)
    # What is about to be moved is read first: what is confirmed in between has departed then.
    being_moved = {
        a.message_id: a.run_id for a in ledger.attempts.intended(run.queue_manager, run.queue)
    }
    elsewhere = ledger.messages.departed_elsewhere(
        run.run_id, [one.message_id for one, _ in missing]
    )
    work.depart(elsewhere)
    findings = _Findings(
        elsewhere,
        being_moved,
        readers,
        _blocked(execution, work) if run.hold_while_blocked else {},
        why_not_to_act(run, ledger),
        execution.clock(),
    )
    ledger.outcomes.add(run.run_id, _outcomes(execution, work, snapshot.location, findings))
    _book_others(execution, others, missing, findings)
    if not run.has_given_action:
        listed = ledger.messages.listed(run.run_id)
        booked = InStep((one.browse_seq, one.outcome) for one in listed)
        left = to_be_parked(work.items, booked, run)
        ledger.parked.park(run.run_id, snapshot.snapshot_id, left)
    if ledger.accounts.of_run(run.run_id) is None:
        ledger.accounts.record(run.run_id, sighting)
    give_up_all(execution)
    counted = ledger.outcomes.counts(run.run_id)
    if counted.total() != snapshot.messages:
        raise ConservationError(
            f"the snapshot holds {snapshot.messages} messages, {counted.total()} have an outcome:"
            " the account does not add up"
        )
    if sighting.returned:
        raise ConservationError(
            f"{sighting.returned} messages booked as departed are on {run.queue} again: somebody"
            " put them back, or a rule forwards to the queue it reads"
        )
    return counted


def _last_look(
    execution: Execution, work: WorkList, others: Bystanders, snapshot: TakenSnapshot
) -> tuple[Sighting, int]:
    """Find out which of the run's messages are on the queue now, and how many read from it.

    Where there was nothing to be done, the snapshot itself was the last browse.
    """
    run, ledger = execution.run, execution.ledger
    earlier = ledger.accounts.of_run(run.run_id)
    no_full_rows = read_manifest(snapshot.location).counts.full == 0
    if no_full_rows and ledger.plans.of_run(run.run_id) is None and earlier is None:
        others.meet_all()
        return Sighting(snapshot.messages, snapshot.messages, 0, 0, snapshot.taken_at), 0
    sighting, readers = _last_browse(execution, work, others)
    is_complete = others.is_complete or earlier is not None
    if any(item.outcome is None and not item.met for item in work.items) or not is_complete:
        # Somebody may have had it in a unit of work that is backed out by now.
        execution.sleep(SECOND_LOOK_S)
        sighting, readers = _last_browse(execution, work, others)
    return sighting, readers


def _missing(execution: Execution, others: Bystanders) -> list[tuple[Vanished, Settled]]:
    """Return the parked messages that the last browse did not meet, where they are not booked."""
    run, ledger = execution.run, execution.ledger
    is_booked = ledger.parked.outcomes(run.run_id)
    return [] if is_booked else others.missing(run, ledger)


def _book_others(
    execution: Execution,
    others: Bystanders,
    missing: Sequence[tuple[Vanished, Settled]],
    findings: _Findings,
) -> None:
    """Book the messages with which the run did nothing, once and by number.

    A parked message that was not met is booked by itself, and is among the run's own from then on.
    """
    run, ledger = execution.run, execution.ledger
    if ledger.parked.outcomes(run.run_id):
        return
    booked = ledger.outcomes.of_run(run.run_id) if missing else {}
    vanished = []
    for one, settled in missing:
        if one.message_id not in booked:
            explained = _vanished(one.message_id, one.expires_at, findings)
            fact = OutcomeFact(one.message_id, *explained, 0, "", "", "", findings.at)
            vanished.append((one.browse_seq, settled.outcome.disposition, fact))
    counts = others.settled() - Counter(settled for _, settled in missing)
    ledger.parked.book(run.run_id, counts, vanished, findings.at)


def _last_browse(execution: Execution, work: WorkList, others: Bystanders) -> tuple[Sighting, int]:
    """Browse the queue, marking the run's messages that are met; count who reads from it."""
    run = execution.run
    others.begin()
    # What a person has restored in the meantime is a new arrival, and for the next run.
    restored = execution.ledger.restorations.put_back(run.run_id)
    departed = {
        item.message.message_key
        for item in work.items
        if item.outcome in DEPARTED and item.message.message_id not in restored
    }
    met: Counter[str] = Counter()
    with connect(execution.settings) as queue_manager:
        constants = queue_manager.client.CMQC
        readers = queue_manager.inquire_queue(run.queue, constants.MQIA_OPEN_INPUT_COUNT)
        queue = queue_manager.open(run.queue, constants.MQOO_BROWSE)
        try:
            for sighted in work.browse(BrowseCursor(queue_manager, queue, run.queue)):
                if sighted.item is not None or others.meet(sighted.key):
                    met["seen"] += 1
                elif sighted.key in departed:
                    met["returned"] += 1
                else:
                    met["arrived"] += 1
        finally:
            queue_manager.close(queue)
        then = queue_manager.inquire_queue(run.queue, constants.MQIA_OPEN_INPUT_COUNT)
    sighting = Sighting(
        met.total(), met["seen"], met["returned"], met["arrived"], execution.clock()
    )
    return sighting, max(readers, then)


def _blocked(execution: Execution, work: WorkList) -> dict[Destination | None, int]:
    """Return the destinations of what is still due that take nothing now, with their reasons."""
    wanted = {_destination(item) for item in work.items if item.due}
    with connect(execution.settings) as queue_manager:
        known = Destinations(queue_manager, 1)
        return {destination: known.reason_blocked(destination) for destination in wanted}


def _destination(item: WorkItem) -> Destination | None:
    step = item.step
    return (step.target_q, step.target_q_mgr) if step and step.target_q else None


def _outcomes(
    execution: Execution, work: WorkList, location: str, findings: _Findings
) -> Iterator[OutcomeFact]:
    """Yield the outcomes of the messages that have none yet.

    The work list is in browse order, as are the attempts and the rows that are read beside it.
    """
    columns = ["browse_seq", "expires_at", "problem"]
    rows = InStep((row["browse_seq"], row) for row in snapshot_rows(location, columns))
    attempts = InStep(execution.ledger.attempts.in_browse_order(execution.run.run_id))
    with _explanations(execution) as advice:
        for item in work.items:
            if item.outcome is None:
                tried = attempts.on(item.message.browse_seq)
                row = next(iter(rows.on(item.message.browse_seq)), {})
                yield _outcome(item, tried[-1] if tried else None, row, findings, advice)


@contextmanager
def _explanations(execution: Execution) -> Iterator[Advice]:
    """Yield what explains a failed attempt; it connects when it is first asked."""
    with ExitStack() as stack:

        @cache
        def destinations() -> Destinations:
            return Destinations(stack.enter_context(connect(execution.settings)), 1)

        yield lambda attempt: destinations().advice(
            (attempt.target_q, attempt.target_q_mgr), attempt.mqrc
        )


def _outcome(
    item: WorkItem,
    last: Attempt | None,
    row: Mapping[str, Any],
    findings: _Findings,
    advice: Advice,
) -> OutcomeFact:
    if item.in_doubt and not item.met:
        outcome, why = Outcome.UNKNOWN, "its unit of work was interrupted and is not resolved"
    elif not item.met:
        outcome, why = _vanished(item.message.message_id, row["expires_at"], findings)
    elif item.message.disposition is Disposition.UNPROCESSABLE:
        outcome, why = Outcome.UNPROCESSABLE, row["problem"]
    elif item.message.disposition is Disposition.NO_RULE:
        outcome, why = Outcome.LEFT_NO_RULE, "no rule matches"
    elif findings.why_not_to_act:
        outcome, why = Outcome.NOT_ATTEMPTED, _not_acted_on(item, findings.why_not_to_act)
    else:
        blocked = findings.blocked.get(_destination(item), 0)
        outcome, why = _still_planned(item, last, blocked, advice)
    step = item.step
    return OutcomeFact(
        message_id=item.message.message_id,
        outcome=outcome,
        why=why,
        rule=step.rule if step else last.rule if last else 0,
        action=step.action.value if step else last.action.value if last else "",
        target_q=step.target_q if step else last.target_q if last else "",
        target_q_mgr=step.target_q_mgr if step else last.target_q_mgr if last else "",
        at=findings.at,
    )


def _not_acted_on(item: WorkItem, why: str) -> str:
    """Say why a run does nothing, and what would have kept it from this message anyway."""
    return f"{why}; else it would stay all the same: {item.withheld}" if item.withheld else why


def _vanished(
    message_id: int, expires_at: datetime | None, findings: _Findings
) -> tuple[Outcome, str]:
    """Explain a message that is not visible on the queue, and not by this run's doing.

    A message got within a unit of work is invisible until that ends, and the MQI does not tell it
    from one that is gone. While nobody has the queue open for input, there is hardly such a unit.
    """
    if message_id in findings.departed_elsewhere:
        other = findings.departed_elsewhere[message_id]
        return Outcome.OWNED_BY_RUN, f"run {other} dealt with it in the meantime"
    if message_id in findings.being_moved:
        return Outcome.OWNED_BY_RUN, f"run {findings.being_moved[message_id]} is about to move it"
    if expires_at is not None and expires_at <= findings.at:
        return Outcome.EXPIRED, f"its Expiry ended at {expires_at:%Y-%m-%d %H:%M:%S} UTC"
    if findings.readers:
        handles = "one handle has" if findings.readers == 1 else f"{findings.readers} handles have"
        return Outcome.UNKNOWN, (
            f"it is not to be seen on the queue, and {handles} that open for input: whoever that is"
            " may hold it in a unit of work, which DISPLAY QSTATUS TYPE(HANDLE) shows; if it comes"
            " back, the next run takes it up"
        )
    return Outcome.TAKEN, "it is not on the queue any more, and not by this handler's doing"


def _still_planned(
    item: WorkItem, last: Attempt | None, blocked: int, advice: Advice
) -> tuple[Outcome, str]:
    """Explain a planned message that is still on the queue at the end of the run.

    `blocked` is the reason why no put to its destination succeeds, where attempts are held then.
    """
    step = item.step
    if step is None:
        return Outcome.EXHAUSTED, f"{item.attempts_made} attempts, the last {_told(last, advice)}"
    if step.action is Action.IGNORE:
        return Outcome.LEFT_BY_RULE, f"rule {step.rule} (line {step.rule_line}) says IGNORE"
    if item.withheld or step.action is Action.DISCARD:
        return Outcome.NOT_ATTEMPTED, item.withheld or "it was not archived, so it stays"
    if blocked:
        return Outcome.NOT_ATTEMPTED, f"held: {step.target_q} has {reason_text(blocked)}"
    if last is None:
        return Outcome.RETRY_PENDING, "not tried before the run ended"
    return (
        Outcome.RETRY_PENDING,
        f"{item.attempts_made} attempts so far, the last {_told(last, advice)}",
    )


def _told(attempt: Attempt | None, advice: Advice) -> str:
    if attempt is None:
        return "made by an earlier run"
    why = [reason_text(attempt.mqrc), advice(attempt)]
    return ": ".join([f"to {attempt.target_q or BLANK_NAME}", *filter(None, why)])
