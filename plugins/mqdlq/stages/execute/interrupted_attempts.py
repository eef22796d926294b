"""Settle the attempts of executions that were interrupted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from mqdlq.headers import message_key
from mqdlq.ledger import Attempt, Learned, OutcomeFact
from mqdlq.model import AttemptState, Outcome
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.state_queue import Marker, Markers
from mqdlq.stages.execute.booking import outcome_of_success
from mqdlq.stages.execute.execution import Execution
from mqdlq.stages.units.interrupted_units import settle_open_moves

PATIENCE = timedelta(seconds=60)
"""How long a lost connection's unit of work may take until the queue manager has resolved it."""


def recover(execution: Execution, markers: Markers, cursor: BrowseCursor) -> list[str]:
    """Settle the attempts that earlier executions left open; return the units now to be cleared.

    A marker is on the state queue exactly if its unit committed, whichever queue the unit was on.
    Without the marker a unit was backed out once all its messages are visible again, or known to
    have been moved by another one; until then we wait, and after PATIENCE its attempts are
    `unknown`. A marker that appears later is still used. Only markers of units that the ledger
    knows as committed are cleared.
    """
    standing = settle_open_moves(_OpenAttempts(execution, cursor), markers, execution, PATIENCE)
    return sorted(execution.ledger.attempts.confirmed_units({marker.unit for marker in standing}))


@dataclass(frozen=True, slots=True)
class _OpenAttempts:
    """The attempts whose units of work are not settled."""

    execution: Execution
    cursor: BrowseCursor

    def confirm(self, standing: Sequence[Marker]) -> None:
        """Book what the markers prove; an outcome that a run has booked already stays.

        Where a run had booked another one, for want of the proof, the ledger learns of it.
        """
        ledger, run = self.execution.ledger, self.execution.run
        units = {marker.unit for marker in standing}
        in_doubt = ledger.attempts.in_states(
            run.queue_manager, AttemptState.INTENDED, AttemptState.UNKNOWN
        )
        proven = [attempt for attempt in in_doubt if attempt.unit in units]
        booked = ledger.outcomes.of_messages([attempt.message_id for attempt in proven])
        for attempt in proven:
            self._confirm(attempt, booked.get(attempt.message_id, {}))

    def _confirm(self, attempt: Attempt, before: Mapping[str, Outcome]) -> None:
        execution = self.execution
        execution.log.info(
            "unit %s committed: its marker is on the state queue (%s by rule %d)",
            attempt.unit,
            attempt.action.value,
            attempt.rule,
        )
        confirmed = replace(attempt, state=AttemptState.CONFIRMED, at=execution.clock())
        fact = outcome_of_success(confirmed, "known from the unit's marker after an interruption")
        news = [
            _learned(fact, run_id, outcome, execution)
            for run_id, outcome in before.items()
            if outcome is Outcome.UNKNOWN or (run_id == attempt.run_id and outcome != fact.outcome)
        ]
        facts = [] if attempt.run_id in before else [(attempt.run_id, fact)]
        execution.ledger.attempts.add([confirmed], facts, news)

    def back_out(self, _: Sequence[Marker]) -> list[Attempt]:
        """Book the units whose messages did not leave by them; return the other attempts."""
        open_attempts = self._open_here()
        if not open_attempts:
            return []
        visible = self._visible({attempt.message_key for attempt in open_attempts})
        # An executor that was frozen may have written down what it could not do any more.
        moved = self.execution.ledger.attempts.moved({a.message_id for a in open_attempts})
        waiting = []
        for unit, attempts in _by_unit(open_attempts):
            if all(a.message_key in visible or a.message_id in moved for a in attempts):
                self.execution.log.info(
                    "unit %s was backed out: its messages are on the queue, or another unit moved"
                    " them",
                    unit,
                )
                self._book(attempts, AttemptState.BACKED_OUT_WITH_BATCH)
            else:
                waiting += attempts
        return waiting

    def give_up(self, waiting: Sequence[Attempt]) -> None:
        """Book attempts as unknown."""
        self._book(waiting, AttemptState.UNKNOWN)
        self.execution.log.warning(
            "%d messages of interrupted units of work are neither on the queue nor proven to have"
            " left it: they are booked as unknown; look for units of work in doubt",
            len(waiting),
        )

    def _open_here(self) -> list[Attempt]:
        """Return the intended attempts that this state queue can settle.

        Those of a run that had another state queue are left as they are: their markers are there.
        """
        ledger, here = self.execution.ledger, self.execution.run
        found = []
        for attempt in ledger.attempts.intended(here.queue_manager, here.queue):
            run = ledger.runs.get(attempt.run_id)
            if run is not None and run.state_queue != here.state_queue:
                self.execution.log.warning(
                    "unit %s can only be settled by its marker on %s: set state_queue to that"
                    " again",
                    attempt.unit,
                    run.state_queue,
                )
            else:
                found.append(attempt)
        return found

    def _visible(self, wanted: set[bytes]) -> set[bytes]:
        """Return the keys of which as many messages are on the queue as have not departed from it.

        Of twins one that is seen does not prove that the other is there, too.
        """
        run = self.execution.run
        seen: Counter[bytes] = Counter()
        for browsed in self.cursor.messages():
            key = message_key(browsed.descriptor, browsed.total_length, browsed.prefix)
            if key in wanted:
                seen[key] += 1
        expected = self.execution.ledger.messages.residents(run.queue_manager, run.queue, wanted)
        return {key for key in wanted if seen[key] >= expected.get(key, 1)}

    def _book(self, attempts: Sequence[Attempt], state: AttemptState) -> None:
        now = self.execution.clock()
        settled = [replace(attempt, state=state, at=now) for attempt in attempts]
        self.execution.ledger.attempts.add(settled)


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


def _by_unit(attempts: Iterable[Attempt]) -> Iterable[tuple[str, list[Attempt]]]:
    units: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        units[attempt.unit].append(attempt)
    return units.items()
