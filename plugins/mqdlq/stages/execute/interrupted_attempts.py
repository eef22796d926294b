"""Build the attempts that an older ledger lost from the markers of their units of work."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from mqdlq.controls.loops.control import forward_to
from mqdlq.controls.repair.changes import explain_delivery
from mqdlq.controls.work import choose_step
from mqdlq.headers import message_key
from mqdlq.ledger.tables import Attempt, Learned, OutcomeFact, Run
from mqdlq.model import AttemptState, Outcome
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.state_queue import RESTORATION_MARKER, Marker, Markers
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution
from mqdlq.rules import treatment_changes
from mqdlq.stages.execute.attempt_recorder import build_attempt, build_success_outcome
from mqdlq.stages.execute.pending_steps import load_work_list
from mqdlq.stages.older_ledger import is_known
from mqdlq.stages.units.interruptions import settle_open_moves


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
                yield build_attempt(
                    item,
                    step,
                    number,
                    AttemptState.CONFIRMED,
                    unit=marker.unit,
                    run_id=marker.run_id,
                    plan_id=marker.plan_id,
                    at=execution.clock(),
                )


# Settle the attempts of interrupted executions.

RESOLUTION_TIMEOUT = timedelta(seconds=60)
"""How long the queue manager may take to resolve the unit of work of a lost connection."""


def settle_interrupted_attempts(
    execution: Execution, markers: Markers, cursor: BrowseCursor
) -> list[str]:
    """Settle the attempts that earlier executions left open; return units whose markers to clear.

    A marker is on the state queue if and only if its unit committed, on any queue. A unit without
    a marker was backed out if all its messages are visible again, or if another unit is known to
    have moved them. Until one of these is true the handler waits; after RESOLUTION_TIMEOUT it
    records the attempts as `unknown`. A marker that appears later is still used. Only markers of
    units that the ledger knows as committed are cleared.
    """
    standing = settle_open_moves(
        _OpenAttempts(execution, cursor), markers, execution, RESOLUTION_TIMEOUT
    )
    return sorted(execution.ledger.attempts.confirmed_units({marker.unit for marker in standing}))


class _OpenAttempts:
    """The attempts whose units of work are not settled."""

    def __init__(self, execution: Execution, cursor: BrowseCursor) -> None:
        self._execution, self._cursor = execution, cursor
        self._run, self._ledger, self._log = execution.run, execution.ledger, execution.log

    def confirm(self, standing: Sequence[Marker]) -> None:
        """Record the attempts that markers prove; an outcome that a run has recorded stays.

        If a run has recorded another outcome because the marker was missing, the ledger records the
        correction. An older copy of the ledger may have lost the attempts.
        """
        units = {marker.unit for marker in standing}
        in_doubt = self._ledger.attempts.in_states(
            self._run.queue_manager, AttemptState.INTENDED, AttemptState.UNKNOWN
        )
        proven = [attempt for attempt in in_doubt if attempt.unit in units]
        self._confirm_attempts(proven, Why.KNOWN_FROM_MARKER())
        lost = list(find_lost_attempts(self._execution, standing))
        self._confirm_attempts(lost, Why.MOVED_IN_LOST_TIME())

    def _confirm_attempts(self, proven: Sequence[Attempt], how: Reason) -> None:
        """Record attempts as confirmed in one transaction; `how` explains their outcomes."""
        if not proven:
            return
        booked = self._ledger.outcomes.of_messages([attempt.message_id for attempt in proven])
        runs = {attempt.run_id for attempt in proven}
        repairs = {run_id: self._ledger.archive.repairs(run_id) for run_id in runs}
        now = self._execution.clock()
        confirmed = [replace(one, state=AttemptState.CONFIRMED, at=now) for one in proven]
        facts, news = list[tuple[str, OutcomeFact]](), list[Learned]()
        for attempt in confirmed:
            changes = repairs[attempt.run_id].get(attempt.message_id) if attempt.rule else None
            why = how
            if changes is not None:
                why = Why.REPAIRED_BECAUSE(repaired=explain_delivery(changes), because=how)
            fact = build_success_outcome(attempt, why)
            before = booked.get(attempt.message_id, {})
            news += [
                _build_learned_outcome(fact, run_id, outcome, self._execution)
                for run_id, outcome in before.items()
                if outcome is Outcome.UNKNOWN
                or (run_id == attempt.run_id and outcome != fact.outcome)
            ]
            facts += [] if attempt.run_id in before else [(attempt.run_id, fact)]
        self._ledger.attempts.add(confirmed, facts, news)
        for unit, attempts in _group_by_unit(confirmed):
            self._log.info(
                "unit %s committed: its marker is on the state queue (%s by rule %d); %s",
                unit,
                attempts[0].action.value,
                attempts[0].rule,
                how,
            )

    def back_out(self, _: Sequence[Marker]) -> list[Attempt]:
        """Record the units that were backed out; return the undecided attempts."""
        open_attempts = self._find_open_attempts()
        if not open_attempts:
            return []
        visible = self._find_visible_keys({attempt.message_key for attempt in open_attempts})
        # An executor that was frozen may have recorded moves that it could no longer make.
        moved = self._ledger.attempts.moved({a.message_id for a in open_attempts})
        waiting = []
        for unit, attempts in _group_by_unit(open_attempts):
            if all(a.message_key in visible or a.message_id in moved for a in attempts):
                self._log.info(
                    "unit %s was backed out: its messages are on the queue, or another unit moved"
                    " them",
                    unit,
                )
                self._record_state(attempts, AttemptState.BACKED_OUT_WITH_BATCH)
            else:
                waiting += attempts
        return waiting

    def mark_unknown(self, waiting: Sequence[Attempt]) -> None:
        self._record_state(waiting, AttemptState.UNKNOWN)
        self._log.warning(
            "%d messages of interrupted units of work are neither on the queue nor proven to have"
            " left it, and are booked as unknown; look for units of work in doubt [MQDLQ-612]",
            len(waiting),
        )

    def _find_open_attempts(self) -> list[Attempt]:
        """Return the intended attempts that this state queue can settle.

        The attempts of a run with another state queue stay intended: their markers are on that
        queue.
        """
        here = self._run
        found = []
        for attempt in self._ledger.attempts.intended(here.queue_manager, here.queue):
            run = self._ledger.runs.get(attempt.run_id)
            if run is not None and run.state_queue != here.state_queue:
                self._log.warning(
                    "only the marker of unit %s on %s can settle it; set state_queue to that queue"
                    " again [MQDLQ-613]",
                    attempt.unit,
                    run.state_queue,
                )
            else:
                found.append(attempt)
        return found

    def _find_visible_keys(self, wanted: set[bytes]) -> set[bytes]:
        """Return the keys of which the queue holds all messages that have not departed.

        Messages with equal keys are indistinguishable: one visible message does not prove that the
        other is visible, too.
        """
        run = self._run
        seen: Counter[bytes] = Counter()
        for browsed in self._cursor.messages():
            key = message_key(browsed.descriptor, browsed.total_length, browsed.prefix)
            if key in wanted:
                seen[key] += 1
        expected = self._ledger.messages.residents(run.queue_manager, run.queue, wanted)
        return {key for key in wanted if seen[key] >= expected.get(key, 1)}

    def _record_state(self, attempts: Sequence[Attempt], state: AttemptState) -> None:
        now = self._execution.clock()
        settled = [replace(attempt, state=state, at=now) for attempt in attempts]
        self._ledger.attempts.add(settled)


def _build_learned_outcome(
    fact: OutcomeFact, of_run: str, booked: Outcome, execution: Execution
) -> Learned:
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


def _group_by_unit(attempts: Iterable[Attempt]) -> Iterable[tuple[str, list[Attempt]]]:
    units: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        units[attempt.unit].append(attempt)
    return units.items()
