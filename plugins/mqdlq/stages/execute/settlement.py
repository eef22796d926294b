"""Settle a run: browse the queue once more, and record exactly one outcome for every message."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

import pyarrow as pa

from mqdlq.controls.key_index import KeyIndex
from mqdlq.controls.registry import ControlChain, browsed_length
from mqdlq.controls.repair.changes import describe_changes
from mqdlq.controls.settings import read_controls
from mqdlq.controls.work import WorkItem
from mqdlq.errors import AccountError, ExecutionError
from mqdlq.lake import count_settled, read_manifest, settled_rows, snapshot_rows
from mqdlq.lake.row_masks import keys_of
from mqdlq.lake.schema import SETTLED
from mqdlq.lake.selected import chosen_batches
from mqdlq.ledger import Ledger
from mqdlq.ledger.database import in_parts
from mqdlq.ledger.messages import BrowseOrderReader
from mqdlq.ledger.tables import Attempt, Ending, OutcomeFact, Run, Sighting, TakenSnapshot
from mqdlq.model import DEPARTED, Action, Destination, Disposition, Outcome, Step
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.client import BLANK_NAME
from mqdlq.mqi.connect import connect
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution
from mqdlq.stages.execute import pending_steps
from mqdlq.stages.execute.dead_letters import needs_copy, read_recorded_copies
from mqdlq.stages.execute.pending_steps import build_outcome
from mqdlq.stages.stopping import find_stop
from mqdlq.stages.units.destinations import Destinations
from mqdlq.stages.units.engine import BACKED_OUT

SECOND_BROWSE_DELAY_S = 5.0
"""How long to wait before the second browse for messages that vanished."""

ExplainFailure = Callable[[Attempt], Reason | str]
"""Returns what the reason of a failed attempt means, and where to look."""


def settle(execution: Execution, next_pass_at: datetime | None = None) -> Counter[Outcome]:
    """Browse the queue once more and record an outcome for every message that has none yet.

    A message recorded as left must be on the queue, a message recorded as departed must not be. A
    message that vanished without this run is `expired` or `taken`. A second call adds nothing.
    `next_pass_at` is when the pass that the run leaves to the next run is due, None if it leaves
    none; it is recorded if controls may hold messages. Returns the run's outcomes, counted. Raises
    AccountError if the account does not add up; the ledger then holds what was found.
    """
    run, ledger = execution.run, execution.ledger
    settlement = _Settlement(execution)
    sighting = settlement.find_present_messages()
    settlement.gather_facts()
    ledger.outcomes.add(run.run_id, settlement.explain_outcomes())
    settlement.book_untouched()
    settlement.record_settled()
    if ledger.accounts.of_run(run.run_id) is None:
        may_hold = read_controls(run.controls).hold_for_a_time
        due_at = next_pass_at if may_hold else None
        if settlement.stopped is not None:
            due_at = sighting.at  # the next run tries what this one has left
        ledger.accounts.record(run.run_id, replace(sighting, next_pass_at=due_at))
    pending_steps.lease_until(None, (), execution)
    return _check_account(execution, settlement.snapshot.messages, sighting)


def _find_snapshot(execution: Execution) -> TakenSnapshot:
    """Return the snapshot that the run accounts for; raises if the run cannot be settled now."""
    run_id, ledger = execution.run.run_id, execution.ledger
    snapshot = ledger.snapshots.of_run(run_id)
    if snapshot is None:
        raise AccountError(
            "MQDLQ-607",
            f"run {run_id} has no snapshot to account for; clear the task snapshot and the tasks"
            " after it",
        )
    if ledger.attempts.has_open_units(run_id):
        raise ExecutionError(
            "MQDLQ-605",
            f"run {run_id} has units of work that are not settled; clear the task execute and the"
            " tasks after it",
        )
    return snapshot


def _check_account(execution: Execution, messages: int, sighting: Sighting) -> Counter[Outcome]:
    """Count the outcomes; raises AccountError unless they match the snapshot and the queue."""
    run, ledger = execution.run, execution.ledger
    counted = ledger.outcomes.counts(run.run_id)
    if counted.total() != messages:
        raise AccountError(
            "MQDLQ-608",
            f"the snapshot holds {messages} messages, but {counted.total()} have an outcome; read"
            " the report before you clear the task",
        )
    if sighting.returned:
        raise AccountError(
            "MQDLQ-609",
            f"{sighting.returned} messages booked as departed are on {run.queue} again: somebody"
            " put them back, or a rule forwards to the queue it reads; correct the rule, and"
            " start a new run",
        )
    return counted


class _Settlement:
    """The messages of a run, where the last browse found them, and what else is known of them."""

    def __init__(self, execution: Execution) -> None:
        run, ledger = execution.run, execution.ledger
        self._execution, self._run, self._ledger = execution, run, ledger
        self.snapshot = _find_snapshot(execution)
        location = self.snapshot.location
        self._work = pending_steps.load_work_list(run, ledger, execution.lake_root)
        self._untouched = UntouchedMessages(location, is_for_some=run.is_for_some)
        self._controls = ControlChain(execution)
        self._missing: Sequence[tuple[int, Mapping[str, Any]]] = ()  # settled, and not met
        self._readers = 0  # handles that had the queue open for input around the last browse
        self._departed_elsewhere: Mapping[int, str] = {}  # the other run by message id
        self._being_moved: Mapping[int, str] = {}  # the same
        self._has_lost_time = False  # an older ledger was taken on since the run began
        self._blocked: Mapping[Destination | None, int] = {}  # reasons, if the handler holds then
        self._reason_not_to_act: Reason | None = None
        self.stopped = find_stop(run, ledger)
        self._at = self.snapshot.taken_at

    def find_present_messages(self) -> Sighting:
        """Find out which of the run's messages are on the queue now.

        If there was nothing to do, the snapshot itself was the last browse.
        """
        snapshot, earlier = self.snapshot, self._ledger.accounts.of_run(self._run.run_id)
        has_plan = self._ledger.plans.of_run(self._run.run_id) is not None
        if not (has_plan or earlier or read_manifest(snapshot.location).full):
            return Sighting(snapshot.messages, snapshot.messages, 0, 0, snapshot.taken_at)
        sighting = self._browse_once()
        is_complete = self._untouched.is_complete or earlier is not None
        vanished = (item.outcome is None and not item.was_seen for item in self._work.glance())
        if any(vanished) or not is_complete:
            # A missing message may have been in a unit of work that has been backed out since.
            self._execution.sleep(SECOND_BROWSE_DELAY_S)
            sighting = self._browse_once()
        return sighting

    def _browse_once(self) -> Sighting:
        """Browse the queue, mark the messages that are met, and count the queue's readers."""
        run, execution = self._run, self._execution
        self._untouched.start_browse()
        seen, others = 0, Counter[bytes]()
        with connect(execution.settings) as queue_manager:
            constants = queue_manager.client.CMQC
            readers = queue_manager.inquire_queue(run.queue, constants.MQIA_OPEN_INPUT_COUNT)
            with queue_manager.browsing(run.queue) as queue:
                cursor = BrowseCursor(queue_manager, queue, run.queue, browsed_length(run))
                for sighted in self._controls.observe_settling(self._work, cursor):
                    if sighted.item is not None or self._untouched.recognize(sighted.key):
                        seen += 1
                    else:
                        others[sighted.key] += 1
            then = queue_manager.inquire_queue(run.queue, constants.MQIA_OPEN_INPUT_COUNT)
        self._readers = max(readers, then)
        # A message restored in the meantime is a new arrival; the next run handles it.
        restored = self._ledger.restorations.put_back(run.run_id) if others else ()
        departed = self._ledger.messages.departed_keys(run.run_id, others, restored)
        returned, strange = sum(others[key] for key in departed), others.total()
        return Sighting(seen + strange, seen, returned, strange - returned, execution.clock())

    def gather_facts(self) -> None:
        """Find out what other runs did with the messages, and what keeps this run from acting."""
        run, ledger = self._run, self._ledger
        if not ledger.settled.outcomes(run.run_id):
            self._missing = self._untouched.find_missing(run, ledger)
        # Intended moves are read first: a move confirmed in between then shows as departed.
        intended = ledger.attempts.intended(run.queue_manager, run.queue)
        self._being_moved = {attempt.message_id: attempt.run_id for attempt in intended}
        self._departed_elsewhere = ledger.messages.departed_elsewhere(
            run.run_id, [message_id for message_id, _ in self._missing]
        )
        self._work.mark_moved_elsewhere(self._departed_elsewhere)
        self._has_lost_time = ledger.epochs.lost_since(run.started_at) is not None
        if run.hold_while_blocked:
            wanted = {_find_destination(item) for item in self._work.glance() if item.is_due}
            with connect(self._execution.settings) as queue_manager:
                known = Destinations(queue_manager, 1)
                self._blocked = {to: known.find_blocking_reason(to) for to in wanted}
        self._reason_not_to_act = pending_steps.find_reason_not_to_act(run, ledger)
        self._at = self._execution.clock()
        self._controls.hold_all(self._work)

    def book_untouched(self) -> None:
        """Record the messages with which the run did nothing, once, by count.

        A settled message that the browse did not meet is recorded individually, and belongs to the
        run's own messages from then on.
        """
        if self._ledger.settled.outcomes(self._run.run_id):
            return
        booked = self._ledger.outcomes.of_run(self._run.run_id) if self._missing else {}
        counts, vanished = self._untouched.count_settled(), []
        for message_id, row in self._missing:
            ending = Ending.of_row(row)
            counts[ending] -= 1
            if message_id not in booked:
                explained = self._explain_vanished_message(message_id, row["expires_at"])
                fact = build_outcome(message_id, *explained, None, self._at)
                vanished.append((row["browse_seq"], ending.outcome.disposition, fact))
        self._ledger.settled.book(self._run.run_id, +counts, vanished, self._at)

    def record_settled(self) -> None:
        run, ledger = self._run, self._ledger
        if run.has_given_action:
            return
        listed = ledger.messages.listed(run.run_id, DEPARTED)
        booked = BrowseOrderReader((one.browse_seq, one.outcome) for one in listed)
        found = _find_newly_settled(self._work.glance(), booked, run)
        ledger.settled.record(run.run_id, self.snapshot.snapshot_id, found)

    def explain_outcomes(self) -> Iterator[OutcomeFact]:
        """Yield the outcomes of the messages that have none yet.

        The work list, the attempts and the snapshot's rows are all read in browse order.
        """
        if all(item.outcome is not None for item in self._work.glance()):
            return
        columns = ["browse_seq", "expires_at", "problem"]
        found = snapshot_rows(self.snapshot.location, columns)
        rows = BrowseOrderReader((row["browse_seq"], row) for row in found)
        made = self._ledger.attempts.in_browse_order(self._run.run_id, DEPARTED)
        attempts = BrowseOrderReader(made)
        if not (self._reason_not_to_act or self.stopped):
            self._withhold_without_copy()
        with self._open_failure_explanations() as advice:
            for item in self._work.glance():
                if item.outcome is not None:
                    continue
                tried = attempts.rows_for(item.message.browse_seq)
                row = next(iter(rows.rows_for(item.message.browse_seq)), {})
                yield self._explain_outcome(item, tried[-1] if tried else None, row, advice)

    def _withhold_without_copy(self) -> None:
        """Say why each message stays that no control holds, and whose step needs an archive copy.

        A control may have held it in the last pass, after its copy was archived.
        """
        waiting = [
            item
            for item in self._work.glance()
            if item.outcome is None and item.was_seen and item.hold is None and item.due_step
            if needs_copy(item.due_step, self._run)
        ]
        recorded = self._ledger.archive.digests(self._run.run_id) if waiting else {}
        copies = read_recorded_copies(self._execution, recorded) if recorded else {}
        for item in waiting:
            if item.message.message_id not in copies:
                item.withheld_reason = Why.NO_ARCHIVE_COPY()
            elif item.attempts_made == 0:
                item.withheld_reason = Why.NOT_MOVED()

    @contextmanager
    def _open_failure_explanations(self) -> Iterator[ExplainFailure]:
        """Yield a function that explains a failed attempt; it connects when it first has to."""
        with ExitStack() as stack:

            @cache
            def destinations() -> Destinations:
                return Destinations(stack.enter_context(connect(self._execution.settings)), 1)

            @cache
            def explain_group(unit: str) -> Reason | None:
                made = self._ledger.attempts.of_unit(unit)
                failed = next((attempt for attempt in made if attempt.mqrc != BACKED_OUT), None)
                if failed is None:  # the queue manager backed the unit out each time
                    return None
                (number,) = (
                    item.message.browse_seq
                    for item in self._work.glance()
                    if item.message.message_id == failed.message_id
                )
                return Why.OTHER_OF_GROUP_FAILED(number=number, mqrc=failed.mqrc)

            def explain(attempt: Attempt) -> Reason | str:
                if attempt.mqrc == BACKED_OUT and (other := explain_group(attempt.unit)):
                    return other
                destination = attempt.target_q, attempt.target_q_mgr
                return destinations().explain_failure(destination, attempt.mqrc)

            yield explain

    def _explain_outcome(
        self, item: WorkItem, last: Attempt | None, row: Mapping[str, Any], advice: ExplainFailure
    ) -> OutcomeFact:
        message, disposition = item.message, item.message.disposition
        if item.is_in_doubt and not item.was_seen:
            outcome, why = Outcome.UNKNOWN, Why.IN_DOUBT()
        elif not item.was_seen:
            explained = self._explain_vanished_message(message.message_id, row["expires_at"])
            outcome, why = explained
        elif disposition is Disposition.UNPROCESSABLE:
            outcome, why = Outcome.UNPROCESSABLE, Why.UNPROCESSABLE(problem=row["problem"])
        elif disposition is Disposition.UNMATCHED:
            outcome, why = Outcome.UNMATCHED, Why.NO_RULE_MATCHES()
        elif self._reason_not_to_act:
            outcome = Outcome.NOT_ATTEMPTED
            why = _explain_inaction(item, self._reason_not_to_act)
        else:
            blocked = self._blocked.get(_find_destination(item), 0)
            outcome, why = _explain_planned_message(item, last, blocked, advice)
            is_untried = outcome is Outcome.RETRY_PENDING and not (last and item.attempts_made)
            if self.stopped and is_untried:
                outcome, why = Outcome.NOT_ATTEMPTED, self.stopped
        return build_outcome(message.message_id, outcome, why, item.step or last, self._at)

    def _explain_vanished_message(
        self, message_id: int, expires_at: datetime | None
    ) -> tuple[Outcome, Reason]:
        """Explain a message that is no longer on the queue, although this run did not move it.

        A message got within an open unit of work is invisible; the MQI cannot distinguish it from a
        message that is gone. While no handle has the queue open for input, such a unit is unlikely.
        """
        if other := self._departed_elsewhere.get(message_id):
            return Outcome.LEASED_BY_RUN, Why.HANDLED_BY_RUN(run_id=other)
        if other := self._being_moved.get(message_id):
            return Outcome.LEASED_BY_RUN, Why.BEING_MOVED(run_id=other)
        if self._has_lost_time:
            return Outcome.UNKNOWN, Why.TIME_LOST()
        if expires_at is not None and expires_at <= self._at:
            return Outcome.EXPIRED, Why.EXPIRED(at=expires_at)
        if self._readers:
            return Outcome.UNKNOWN, Why.INVISIBLE(handles=self._readers)
        return Outcome.TAKEN, Why.TAKEN()


def _explain_inaction(item: WorkItem, why: Reason) -> Reason:
    """Return why the run does nothing, and what would have withheld this message in any case."""
    also = item.withheld_reason
    if not also and item.hold and item.hold.until is None:
        also = item.hold.why
    if also:
        return Why.WOULD_ALSO_STAY(why=why, also=also)
    if item.changes:
        return Why.WOULD_BE_REPAIRED(why=why, changes=describe_changes(item.changes))
    return why


def _explain_planned_message(
    item: WorkItem, last: Attempt | None, blocked: int, advice: ExplainFailure
) -> tuple[Outcome, Reason]:
    """Explain a planned message that is still on the queue at the end of the run.

    `blocked` is the reason why no put to its destination succeeds, if the handler holds attempts.
    """
    step = item.step
    if item.hold and item.hold.outcome is not Outcome.NOT_ATTEMPTED and not item.withheld_reason:
        return item.hold.outcome, item.hold.why
    if step is None:
        end = _explain_attempt(last, advice)
        return Outcome.EXHAUSTED, Why.EXHAUSTED(attempts=item.attempts_made, last=end)
    if step.action is Action.IGNORE:
        return Outcome.LEFT_BY_RULE, Why.RULE_IGNORES(rule=step.rule, line=step.rule_line)
    if why := _find_reason_it_was_held(item, step, last, blocked):
        return Outcome.NOT_ATTEMPTED, why
    if last is None:
        return Outcome.RETRY_PENDING, Why.NOT_TRIED()
    end = _explain_attempt(last, advice)
    return Outcome.RETRY_PENDING, Why.TRIED(attempts=item.attempts_made, last=end)


def _find_reason_it_was_held(
    item: WorkItem, step: Step, last: Attempt | None, blocked: int
) -> Reason | None:
    if item.withheld_reason == Why.NOT_MOVED() and last is not None:
        return Why.BACKED_OUT(mqrc=last.mqrc) if last.mqrc else Why.DIFFERS_FROM_COPY()
    if item.withheld_reason:
        return item.withheld_reason
    if item.hold:
        return item.hold.why
    return Why.TARGET_BLOCKED(target=step.target_q, mqrc=blocked) if blocked else None


def _explain_attempt(attempt: Attempt | None, advice: ExplainFailure) -> Reason:
    if attempt is None:
        return Why.OF_EARLIER_RUN()
    to = attempt.target_q or BLANK_NAME
    if not attempt.mqrc:
        return Why.ATTEMPT_ENDED(target=to, state=attempt.state.words)
    return Why.PUT_FAILED(target=to, mqrc=attempt.mqrc, advice=advice(attempt))


def _find_destination(item: WorkItem) -> Destination | None:
    step = item.step
    return (step.target_q, step.target_q_mgr) if step and step.target_q else None


# The messages of a run's snapshot that need no row in the ledger.


class UntouchedMessages:
    """Messages of a run's snapshot with which the run does nothing, and that have no own row.

    These are the messages with compact rows, which earlier runs have settled; each keeps its
    earlier outcome if a browse meets it. In a run for some messages they are all others: other
    runs may move these in the meantime, so a browse need not meet them. A browse recognises the
    messages by their keys. Messages with equal keys are counted, since they are indistinguishable.
    """

    def __init__(self, location: str, *, is_for_some: bool = False) -> None:
        self._location = location
        batches = list(settled_rows(location, ["message_key"] if is_for_some else None))
        self._rows: pa.Table | None = None  # None for messages that a run is not for
        if not is_for_some:
            self._rows = pa.Table.from_batches(batches) if batches else SETTLED.empty_table()
        others = chosen_batches(location, ["message_key"], others=True) if is_for_some else ()
        keys = (keys_of(batch.column("message_key")) for batch in (*others, *batches))
        self._keys = KeyIndex(b"".join(part.tobytes() for part in keys))
        self._was_browsed = False

    def start_browse(self) -> None:
        self._keys.begin()
        self._was_browsed = True

    def recognize(self, key: bytes) -> bool:
        """Return whether a browsed message is one of these, and count it as seen."""
        return self._keys.find(key) >= 0

    @property
    def is_complete(self) -> bool:
        """Whether the last browse, if there was any, met all messages that it had to meet."""
        return self._rows is None or not self._was_browsed or self._keys.is_all_found

    def count_settled(self) -> Counter[Ending]:
        if self._rows is None:
            return Counter({Ending(0, "", "", "", Outcome.NOT_SELECTED): len(self._keys)})
        rows = count_settled(self._location)
        return Counter({Ending.of_row(row): row["count_all"] for row in rows})

    def find_missing(self, run: Run, ledger: Ledger) -> list[tuple[int, dict[str, Any]]]:
        """Return the settled messages that the last browse did not meet: their ids and rows."""
        if self._rows is None or self.is_complete:
            return []
        # Of equal messages, the last are missing, as the index finds the first ones first.
        rows = self._rows.take(self._keys.unfound).to_pylist()
        ids: dict[tuple[bytes, int], int] = {}
        for some in in_parts({row["message_key"] for row in rows}):
            ids |= ledger.messages.ids(run, some)
        return [(ids[row["message_key"], row["occurrence"]], row) for row in reversed(rows)]


def _find_newly_settled(
    items: Iterable[WorkItem], outcomes: BrowseOrderReader[OutcomeFact | None], run: Run
) -> Iterator[tuple[int, bool, Ending]]:
    """Yield the messages that later runs may skip while the rules stay the same.

    They are (message_id, whether only for runs that carry attempts on, ending).

    A message may have been tried before it reached an IGNORE or exhausted its rules. A run that
    counts attempts from zero tries such a message again.
    """
    for item in items:
        fact = next(iter(outcomes.rows_for(item.message.browse_seq)), None)
        if fact is None or item.is_in_doubt:
            continue
        needs_carry = fact.outcome is Outcome.EXHAUSTED
        if fact.outcome is Outcome.LEFT_BY_RULE:
            needs_carry = item.steps[0].action is not Action.IGNORE
        elif fact.outcome.disposition is Disposition.PLANNED and not needs_carry:
            continue
        if run.carry_attempts or not needs_carry:
            settled = Ending(fact.rule, fact.action, fact.target_q, fact.target_q_mgr, fact.outcome)
            yield item.message.message_id, needs_carry, settled
