"""What became of units of work whose executor died: markers in, settled attempts out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from mqdlq.headers import message_key
from mqdlq.ledger import Attempt, Learned, OutcomeFact
from mqdlq.model import AttemptState, Outcome
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.state_queue import Markers
from mqdlq.stages.execute.execution import Execution
from mqdlq.stages.execute.outcomes import outcome_of_success

PATIENCE = timedelta(seconds=60)
"""How long a lost connection's unit of work may take until the queue manager has resolved it."""


def recover(execution: Execution, markers: Markers, cursor: BrowseCursor) -> list[str]:
    """Settle the attempts that earlier executions left open; return the units now to be cleared.

    A marker is on the state queue exactly if its unit committed, whichever queue the unit was on.
    Without the marker a unit was backed out once all its messages are visible again, or known to
    have been moved by another one; until then we wait, and after PATIENCE its attempts are
    `unknown`: we do not guess. A marker that shows up later still tells. Only markers of units
    that the ledger knows as committed are cleared.
    """
    deadline = execution.clock() + PATIENCE
    while True:
        units = {marker.unit for marker in markers.markers()}
        _confirm(execution, units)
        waiting = _still_open(execution, cursor)
        if not waiting:
            break
        if execution.clock() >= deadline:
            _give_up(execution, waiting)
            break
        execution.sleep(1.0)
    return sorted(execution.ledger.attempts.confirmed_units(units))


def _confirm(execution: Execution, units: set[str]) -> None:
    """Book what the markers prove; an outcome that a run has booked already stays.

    Where a run had booked another one, for want of the proof, the ledger learns of it.
    """
    ledger, log = execution.ledger, execution.log
    in_doubt = ledger.attempts.in_states(
        execution.run.queue_manager, AttemptState.INTENDED, AttemptState.UNKNOWN
    )
    proven = [attempt for attempt in in_doubt if attempt.unit in units]
    booked = ledger.outcomes.of_messages([attempt.message_id for attempt in proven])
    for attempt in proven:
        log.info(
            "unit %s committed: its marker is on the state queue (%s by rule %d)",
            attempt.unit,
            attempt.action.value,
            attempt.rule,
        )
        confirmed = replace(attempt, state=AttemptState.CONFIRMED, at=execution.clock())
        fact = outcome_of_success(confirmed, "known from the unit's marker after an interruption")
        before = booked.get(attempt.message_id, {})
        news = [
            _learned(fact, run_id, outcome, execution)
            for run_id, outcome in before.items()
            if outcome is Outcome.UNKNOWN or (run_id == attempt.run_id and outcome != fact.outcome)
        ]
        facts = [] if attempt.run_id in before else [(attempt.run_id, fact)]
        ledger.attempts.add([confirmed], facts, news)


def _learned(fact: OutcomeFact, of_run: str, booked: Outcome, execution: Execution) -> Learned:
    execution.log.info("what run %s booked as %s is now known: %s", of_run, booked, fact.outcome)
    return Learned(
        of_run=of_run,
        message_id=fact.message_id,
        run_id=execution.run.run_id,
        outcome=fact.outcome,
        target_q=fact.target_q,
        target_q_mgr=fact.target_q_mgr,
        at=fact.at,
    )


def _still_open(execution: Execution, cursor: BrowseCursor) -> list[Attempt]:
    """Book the units whose messages did not leave by them; return the other attempts.

    Those of a run that had another state queue are left as they are: their markers are there.
    """
    ledger, here = execution.ledger, execution.run
    open_attempts = []
    for attempt in ledger.attempts.intended(here.queue_manager, here.queue):
        run = ledger.runs.get(attempt.run_id)
        if run is not None and run.state_queue != here.state_queue:
            execution.log.warning(
                "unit %s can only be settled by its marker on %s: set state_queue to that again",
                attempt.unit,
                run.state_queue,
            )
        else:
            open_attempts.append(attempt)
    if not open_attempts:
        return []
    visible = _visible(execution, cursor, {attempt.message_key for attempt in open_attempts})
    # An executor that was frozen may have written down what it could not do any more.
    moved = ledger.attempts.moved({attempt.message_id for attempt in open_attempts})
    waiting = []
    for unit, attempts in _by_unit(open_attempts):
        if all(a.message_key in visible or a.message_id in moved for a in attempts):
            execution.log.info(
                "unit %s was backed out: its messages are on the queue, or another unit moved them",
                unit,
            )
            _book(execution, attempts, AttemptState.BACKED_OUT_WITH_BATCH)
        else:
            waiting += attempts
    return waiting


def _give_up(execution: Execution, waiting: Sequence[Attempt]) -> None:
    _book(execution, waiting, AttemptState.UNKNOWN)
    execution.log.warning(
        "%d messages of interrupted units of work are neither on the queue nor proven to have left"
        " it: they are booked as unknown; look for units of work in doubt",
        len(waiting),
    )


def _visible(execution: Execution, cursor: BrowseCursor, wanted: set[bytes]) -> set[bytes]:
    """Return the keys of which as many messages are on the queue as have not departed from it.

    Of twins one that is seen does not prove that the other is there, too.
    """
    run = execution.run
    seen: Counter[bytes] = Counter()
    for browsed in cursor.messages():
        key = message_key(browsed.descriptor, browsed.total_length, browsed.prefix)
        if key in wanted:
            seen[key] += 1
    expected = execution.ledger.messages.residents(run.queue_manager, run.queue, wanted)
    return {key for key in wanted if seen[key] >= expected.get(key, 1)}


def _book(execution: Execution, attempts: Sequence[Attempt], state: AttemptState) -> None:
    now = execution.clock()
    execution.ledger.attempts.add([replace(attempt, state=state, at=now) for attempt in attempts])


def _by_unit(attempts: Iterable[Attempt]) -> Iterable[tuple[str, list[Attempt]]]:
    units: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        units[attempt.unit].append(attempt)
    return units.items()
