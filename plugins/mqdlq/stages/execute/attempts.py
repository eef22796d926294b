"""The attempts of a run: record each of a pass, and settle what an interruption left open."""

import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mqdlq.constants import MQRC, reason_text
from mqdlq.controls.key_index import key_of
from mqdlq.controls.loops.control import forward_to
from mqdlq.controls.registry import ControlChain
from mqdlq.controls.repair.changes import explain_delivery
from mqdlq.controls.work import Planned, PlannedAttempt, WorkItem, choose_step
from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import DeadLetterHeader, MessageDescriptor
from mqdlq.ledger.messages import OutcomeLot
from mqdlq.ledger.tables import Attempt, AttemptLot, Ending, Learned, OutcomeFact, Run, Try
from mqdlq.model import SUCCESSES, AttemptState, Outcome, Step, WorkNumber
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.client import printable_name
from mqdlq.mqi.state_queue import RESTORATION_MARKER, Marker, Markers
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution
from mqdlq.rules import treatment_changes
from mqdlq.stages.execute.pending_steps import build_outcome, load_work_list
from mqdlq.stages.older_ledger import is_known
from mqdlq.stages.units.destinations import Destinations
from mqdlq.stages.units.engine import BACKED_OUT

MAX_UNWRITTEN = 500
MOST_ROWS = 400
"""How many rows of moves a marker has room for; those before them are forgotten."""


def _build_attempt(
    item: WorkItem,
    step: Step,
    number: int,
    state: AttemptState,
    *,
    of: tuple[str, str, str],
    at: datetime,
    reason: int = 0,
) -> Attempt:
    """Return the attempt of this number to take a step; `of` are its unit, run and plan."""
    unit, run_id, plan_id = of
    return Attempt(
        unit=unit,
        run_id=run_id,
        plan_id=plan_id,
        message_id=item.message.message_id,
        message_key=item.message.message_key,
        rule=step.rule,
        attempt_no=number,
        action=step.action,
        target_q=step.target_q,
        target_q_mgr=step.target_q_mgr,
        state=state,
        mqrc=reason,
        at=at,
        cause_id=item.cause_id,
    )


# Record the attempts of a pass and their outcomes.

Moved = tuple[tuple[Any, ...], ...]
"""The latest moves of a run by its plan, in the rows of `Marker.moved`."""


def read_moved(standing: Sequence[Marker], run_id: str, plan_id: str) -> Moved:
    """Return the moves that the markers on the state queue have of a run and its plan."""
    own = [one for one in standing if (one.run_id, one.plan_id) == (run_id, plan_id)]
    rows = tuple(tuple(row) for one in own for row in one.moved)
    return _join_moves(rows) if len(own) > 1 else rows


def _add_moves(moved: Moved, tries: Sequence[PlannedAttempt]) -> Moved:
    """Return the moves with those of one more unit of work, in as many rows as have room.

    The rows of the unit come first for that, then those of the most messages, then the latest.
    """
    rows = list(moved[-1:])
    for one in tries:
        step, item = one.step, one.item
        number, seq = item.attempts_made + 1, item.message.browse_seq
        target = () if step.rule else (step.target_q,)
        before = rows[-1] if rows else ()
        if before and before[0] == number and before[2] == seq - 1 and before[3:] == target:
            rows[-1] = (number, before[1], seq, *target)
        else:
            rows.append((number, seq, seq, *target))
    rows, earlier = rows[-MOST_ROWS:], moved[:-1]
    if len(earlier) + len(rows) > MOST_ROWS:
        by_length = sorted(enumerate(earlier), key=lambda at: (at[1][2] - at[1][1], at[0]))
        kept = by_length[len(earlier) + len(rows) - MOST_ROWS :]
        earlier = tuple(row for _, row in sorted(kept))
    return *earlier, *rows


def _join_moves(moved: Moved) -> Moved:
    """Return moves in as few rows as possible; units of several lanes make them in any order."""
    rows = list[tuple[Any, ...]]()
    for row in sorted(moved, key=lambda row: (row[0], row[3:], row[1])):
        number, first, last, *target = row
        before = rows[-1] if rows else ()
        if before and (before[0], *before[3:]) == (number, *target) and first <= before[2] + 1:
            rows[-1] = (number, before[1], max(before[2], last), *target)
        else:
            rows.append(row)
    return tuple(rows)


class AttemptRecorder:
    """Records the attempts of one pass, before and after the commits of their units.

    `number` is that of the pass in its ledger, `moved` has the moves of earlier passes. `failures`
    counts the failed puts by queue and reason; `attempts` counts all attempts.
    """

    def __init__(
        self,
        execution: Execution,
        plan_id: str,
        destinations: Destinations,
        controls: ControlChain,
        *,
        number: WorkNumber,
        moved: Moved,
    ) -> None:
        self._number, self._moved, self._controls = number, moved, controls
        self._run, self._plan_id, self._destinations = execution.run, plan_id, destinations
        self._ledger, self._clock, self._log = execution.ledger, execution.clock, execution.log
        self._booking = execution.ledger.attempts.of_plan(execution.run.run_id, plan_id)
        self._unwritten_failures = defaultdict[int, list[Try]](list)
        self._unwritten_of_groups: list[Attempt] = []
        self._unwritten_outcomes: list[OutcomeFact] = []
        self._withheld_because: set[Reason] = set()
        self._warned_of: set[tuple[str, int]] = set()
        self.failures: Counter[tuple[str, int]] = Counter()
        self.attempts = 0

    def marker(self, unit: str, messages: str, moves: Sequence[Planned]) -> Marker:
        moved = _add_moves(self._moved, _tries_of(moves))
        return Marker(unit, self._run.run_id, self._plan_id, messages, str(self._number), moved)

    def may_make(self, planned: Planned) -> bool:
        return all(self._controls.may_still_move(one) for one in planned.tries)

    def may_begin(self, planned: Planned) -> bool:
        """Return whether an admitted move may begin, now that the results of others are known."""
        return all(self._controls.may_begin(one) for one in planned.tries)

    def intend(self, unit: str, moves: Sequence[Planned]) -> None:
        tries = _in_lots(_tries_of(moves))
        self._booking.begin(unit, tries, AttemptState.INTENDED, 0, self._clock())

    def confirm(self, unit: str, moves: Sequence[Planned]) -> None:
        """Record that the unit committed, with the outcomes of its messages."""
        tries, at = _tries_of(moves), self._clock()
        ended: dict[Any, OutcomeLot] = {}
        for one in tries:
            step, number, how = one.step, one.item.attempts_made + 1, one.how
            same = id(step), number, how
            if same not in ended:
                decision = step.rule, step.action.value, step.target_q, step.target_q_mgr
                ending = Ending(*decision, SUCCESSES[step.action])
                ended[same] = OutcomeLot(ending, how or Why.ATTEMPT(number=number), at, [])
            ended[same].message_ids.append(one.item.message.message_id)
        self._booking.confirm(unit, [*ended.values()], at)
        self._moved = _add_moves(self._moved, tries)
        if self._run.connections > 1:
            self._moved = _join_moves(self._moved)
        for one in tries:
            one.item.attempts_made += 1
            one.item.outcome = SUCCESSES[one.step.action]
        self.attempts += len(tries)
        self._controls.confirm(tries)

    def back_out(self, unit: str, moves: Sequence[Planned], reason: int) -> None:
        """Record that the unit was backed out; its attempts do not count."""
        self._booking.back_out(unit, _in_lots(_tries_of(moves)), reason, self._clock())

    def fail(self, planned: Planned, reason: int) -> None:
        """Record a failed put: the attempt counts, unless its unit was only backed out.

        If a message of a group fails, an attempt counts for each of its messages. Those of the
        other messages have the reason MQRC_BACKED_OUT.
        """
        if reason == BACKED_OUT:
            self.leave(planned)
        else:
            self._record_failure(planned, reason, planned.tries[planned.reached])
            self.flush()

    def leave(self, planned: Planned) -> None:
        """Tell the controls that attempts were not made.

        A message that was got but must not be moved has an attempt that was backed out.
        """
        if withheld := [one for one in planned.tries if one.item.withheld_reason]:
            self.back_out(secrets.token_hex(24), [Planned(tuple(withheld))], 0)
        for one in planned.tries:
            self._controls.leave(one)

    def skip(self, planned: Planned, reason: int) -> bool:
        """Record a failure for a put that cannot succeed, unless the handler holds the message.

        A handler may hold messages while their target queue is blocked. A blank queue name is never
        held, since nobody can unblock it. The record may wait for others: if a crash loses it, the
        message is tried once more. Returns False if a failed attempt would lead to a DISCARD: only
        a real attempt may do that.
        """
        is_blocked = reason != MQRC["MQRC_MSG_TOO_BIG_FOR_Q"]
        destination = planned.destination
        if is_blocked and self._run.hold_while_blocked and destination and destination[0]:
            self.leave(planned)
            return True
        if any(one.precedes_discard for one in planned.tries):
            return False
        longest = max(planned.tries, key=lambda one: one.length)
        self._record_failure(planned, reason, None if is_blocked else longest)
        alone = sum(map(len, self._unwritten_failures.values()))
        if alone + len(self._unwritten_of_groups) >= MAX_UNWRITTEN:
            self.flush()
        return True

    def withhold(self, planned: Planned, why: Reason, culprit: PlannedAttempt) -> None:
        """Record that messages stay for the rest of the run because of one of them.

        The record may wait for others: a pass that loses it finds the same reason again.
        """
        if why not in self._withheld_because:
            self._withheld_because.add(why)
            number = culprit.item.message.browse_seq
            self._log.warning("message %d stays: %s [MQDLQ-630]", number, why.words)
        for one in planned.tries:
            item, own = one.item, why if one is culprit else Why.OTHER_OF_GROUP_STAYS(why=why)
            item.withheld_reason, item.outcome = own, Outcome.NOT_ATTEMPTED
            message_id = item.message.message_id
            fact = build_outcome(message_id, item.outcome, own, one.step, self._clock())
            self._unwritten_outcomes.append(fact)
        if len(self._unwritten_outcomes) >= MAX_UNWRITTEN:
            self.flush()

    def flush(self) -> None:
        outcomes, self._unwritten_outcomes = self._unwritten_outcomes, []
        self._ledger.outcomes.add(self._run.run_id, outcomes)
        # Taken out before they are written: if that fails, the flush at the end of the pass must
        # not count those again that were written.
        unwritten, self._unwritten_failures = self._unwritten_failures, defaultdict(list)
        for reason, tries in unwritten.items():
            unit, at = secrets.token_hex(24), self._clock()
            self._booking.begin(unit, tries, AttemptState.FAILED, reason, at)
        of_groups, self._unwritten_of_groups = self._unwritten_of_groups, []
        if of_groups:
            self._ledger.attempts.add(of_groups)

    def _record_failure(self, planned: Planned, reason: int, failed: PlannedAttempt | None) -> None:
        """Record a failed attempt for each message; None if the reason is that of all of them."""
        of, at = (secrets.token_hex(24), self._run.run_id, self._plan_id), self._clock()
        for one in planned.tries:
            own_reason = reason if failed is None or one is failed else BACKED_OUT
            if len(planned.tries) == 1:
                self._unwritten_failures[own_reason] += _in_lots([one])
            else:
                number, state = one.item.attempts_made + 1, AttemptState.FAILED
                self._unwritten_of_groups.append(
                    _build_attempt(
                        one.item, one.step, number, state, of=of, at=at, reason=own_reason
                    )
                )
            one.item.attempts_made += 1
            self.attempts += 1
            self.failures[one.step.target_q, own_reason] += 1
            self._log_failure(one, own_reason)
            self._controls.leave(one, own_reason)

    def _log_failure(self, planned: PlannedAttempt, reason: int) -> None:
        """Log a failed put, as a warning once per queue and reason in a pass.

        IBM's handler logs nothing if a put fails for the reason that the MQDLH already records.
        """
        step, cause = planned.step, (planned.step.target_q, reason)
        explanation = self._destinations.explain_failure(step.destination, reason)
        is_first = cause not in self._warned_of and not _repeats_recorded_failure(planned, reason)
        if is_first:
            self._warned_of.add(cause)
        (self._log.warning if is_first else self._log.debug)(
            "AMQ8722: unable to put message %d to %s: rule %d (line %d), attempt %d, %s",
            planned.item.message.browse_seq,
            printable_name(step.target_q),
            step.rule,
            step.rule_line,
            planned.item.attempts_made,
            ": ".join(filter(None, [reason_text(reason), explanation])),
        )


def _tries_of(moves: Sequence[Planned]) -> list[PlannedAttempt]:
    return [one for move in moves for one in move.tries]


def _in_lots(tries: Sequence[PlannedAttempt]) -> list[Try]:
    """Return attempts as the ledger adds them; those with the same decision share one lot."""
    lots: dict[Any, AttemptLot] = {}
    found = []
    for one in tries:
        step, number, cause_id = one.step, one.item.attempts_made + 1, one.item.cause_id
        lot = lots.get(same := (id(step), number, cause_id))
        if lot is None:
            decision = step.rule, step.action, step.target_q, step.target_q_mgr
            lot = lots[same] = AttemptLot(*decision, number, cause_id)
        found.append((lot, one.item.message.message_id))
    return found


def _repeats_recorded_failure(planned: PlannedAttempt, reason: int) -> bool:
    """Return whether a put failed for the reason and queue that the MQDLH already records."""
    browsed, step = planned.browsed, planned.step
    try:
        md = MessageDescriptor.decode(browsed.descriptor)
        header = DeadLetterHeader.decode(
            browsed.prefix, encoding=md.encoding, ccsid=md.coded_char_set_id
        )
    except MalformedHeaderError:
        return False
    recorded = header.reason, header.dest_q_name, header.dest_q_mgr_name
    return recorded == (reason, step.target_q, step.target_q_mgr)


# Settle the attempts that earlier executions left open, and any that an older ledger lost.

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
    deadline = execution.clock() + RESOLUTION_TIMEOUT
    while True:
        standing = markers.markers()
        _confirm_marked(execution, standing)
        waiting = _record_backouts(execution, cursor)
        if waiting and execution.clock() >= deadline:
            _record_state(execution, waiting, AttemptState.UNKNOWN)
            execution.log.warning(
                "%d messages of interrupted units of work are neither on the queue nor proven to"
                " have left it, and are booked as unknown; look for units of work in doubt"
                " [MQDLQ-612]",
                len(waiting),
            )
            waiting = []
        if not waiting:
            units = {marker.unit for marker in standing}
            return sorted(execution.ledger.attempts.confirmed_units(units))
        execution.sleep(1.0)


def _confirm_marked(execution: Execution, standing: Sequence[Marker]) -> None:
    """Record the attempts that markers prove; an outcome that a run has recorded stays.

    If a run has recorded another outcome because the marker was missing, the ledger records the
    correction. An older copy of the ledger may have lost the attempts.
    """
    units, ledger = {marker.unit for marker in standing}, execution.ledger
    in_doubt = ledger.attempts.in_states(
        execution.run.queue_manager, AttemptState.INTENDED, AttemptState.UNKNOWN
    )
    proven = [attempt for attempt in in_doubt if attempt.unit in units]
    _confirm(execution, proven, Why.KNOWN_FROM_MARKER())
    lost = list(_find_lost_attempts(execution, standing))
    _confirm(execution, lost, Why.MOVED_IN_LOST_TIME())


def _confirm(execution: Execution, proven: Sequence[Attempt], how: Reason) -> None:
    """Record attempts as confirmed in one transaction; `how` explains their outcomes."""
    if not proven:
        return
    ledger, log, now = execution.ledger, execution.log, execution.clock()
    booked = ledger.outcomes.of_messages([attempt.message_id for attempt in proven])
    repairs = {run_id: ledger.archive.repairs(run_id) for run_id in {a.run_id for a in proven}}
    confirmed = [replace(one, state=AttemptState.CONFIRMED, at=now) for one in proven]
    facts, news = list[tuple[str, OutcomeFact]](), list[Learned]()
    for attempt in confirmed:
        changes = repairs[attempt.run_id].get(attempt.message_id) if attempt.rule else None
        why = how
        if changes is not None:
            why = Why.REPAIRED_BECAUSE(repaired=explain_delivery(changes), because=how)
        outcome = SUCCESSES[attempt.action]
        fact = build_outcome(attempt.message_id, outcome, why, attempt, now)
        before = booked.get(attempt.message_id, {})
        if attempt.run_id not in before:
            facts.append((attempt.run_id, fact))
        for run_id, outcome in before.items():
            is_wrong = run_id == attempt.run_id and outcome != fact.outcome
            if outcome is Outcome.UNKNOWN or is_wrong:
                log.info("what run %s booked as %s is now known: %s", run_id, outcome, fact.outcome)
                learned = Learned(
                    of_run=run_id,
                    message_id=fact.message_id,
                    run_id=execution.run.run_id,
                    outcome=fact.outcome,
                    target_q=fact.target_q,
                    target_q_mgr=fact.target_q_mgr,
                    at=fact.at,
                )
                news.append(learned)
    ledger.attempts.add(confirmed, facts, news)
    for unit, attempts in _group_by_unit(confirmed):
        log.info(
            "unit %s committed: its marker is on the state queue (%s by rule %d); %s",
            unit,
            attempts[0].action.value,
            attempts[0].rule,
            how,
        )


def _find_lost_attempts(execution: Execution, standing: Sequence[Marker]) -> Iterator[Attempt]:
    """Yield the attempts that markers prove and the ledger does not know.

    A marker names the latest moves of its pass by their browse_seq, which identifies messages in
    the snapshot of its plan. The ledger must have accepted that plan. If the rules that match a
    message change with its age, the number of an attempt does not say which rule made it: then
    nothing is proven. Markers have their earlier moves in common; each belongs to the first of
    them, which was put first.
    """
    ledger, log = execution.ledger, execution.log
    found = set[int]()
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
            for attempt in _attempts_of(marker, run, execution):
                if attempt.message_id not in found:
                    found.add(attempt.message_id)
                    yield attempt


def _attempts_of(marker: Marker, run: Run, execution: Execution) -> Iterator[Attempt]:
    work = load_work_list(run, execution.ledger, execution.lake_root)
    items = {
        item.message.browse_seq: item
        for item in work.glance()
        if item.outcome in {None, Outcome.UNKNOWN}
    }
    for number, first, last, *target in marker.moved:
        for item in filter(None, map(items.get, range(first, last + 1))):
            step = forward_to(target[0], 1) if target else choose_step(item.steps, number - 1)
            if step is not None:
                of, now = (marker.unit, marker.run_id, marker.plan_id), execution.clock()
                yield _build_attempt(item, step, number, AttemptState.CONFIRMED, of=of, at=now)


def _record_backouts(execution: Execution, cursor: BrowseCursor) -> list[Attempt]:
    """Record the units that were backed out; return the undecided attempts."""
    ledger, open_attempts = execution.ledger, _find_open_attempts(execution)
    if not open_attempts:
        return []
    keys = {attempt.message_key for attempt in open_attempts}
    visible = _find_visible_keys(execution, cursor, keys)
    # An executor that was frozen may have recorded moves that it could no longer make.
    moved = ledger.attempts.moved({attempt.message_id for attempt in open_attempts})
    waiting = []
    for unit, attempts in _group_by_unit(open_attempts):
        if all(a.message_key in visible or a.message_id in moved for a in attempts):
            execution.log.info(
                "unit %s was backed out: its messages are on the queue, or another unit moved them",
                unit,
            )
            _record_state(execution, attempts, AttemptState.BACKED_OUT_WITH_BATCH)
        else:
            waiting += attempts
    return waiting


def _find_open_attempts(execution: Execution) -> list[Attempt]:
    """Return the intended attempts that this state queue can settle.

    The attempts of a run with another state queue stay intended: their markers are on that queue.
    """
    here, ledger = execution.run, execution.ledger
    found = []
    for attempt in ledger.attempts.intended(here.queue_manager, here.queue):
        run = ledger.runs.get(attempt.run_id)
        if run is not None and run.state_queue != here.state_queue:
            execution.log.warning(
                "only the marker of unit %s on %s can settle it; set state_queue to that queue"
                " again [MQDLQ-613]",
                attempt.unit,
                run.state_queue,
            )
        else:
            found.append(attempt)
    return found


def _find_visible_keys(
    execution: Execution, cursor: BrowseCursor, wanted: set[bytes]
) -> set[bytes]:
    """Return the keys of which the queue holds all messages that have not departed.

    Messages with equal keys are indistinguishable: one visible message does not prove that the
    other is visible, too.
    """
    seen = Counter(key for key in map(key_of, cursor.messages()) if key in wanted)
    run = execution.run
    expected = execution.ledger.messages.residents(run.queue_manager, run.queue, wanted)
    return {key for key in wanted if seen[key] >= expected.get(key, 1)}


def _record_state(execution: Execution, attempts: Sequence[Attempt], state: AttemptState) -> None:
    now = execution.clock()
    execution.ledger.attempts.add([replace(one, state=state, at=now) for one in attempts])


def _group_by_unit(attempts: Iterable[Attempt]) -> Iterable[tuple[str, list[Attempt]]]:
    units: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        units[attempt.unit].append(attempt)
    return units.items()
