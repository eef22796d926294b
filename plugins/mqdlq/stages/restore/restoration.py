"""A recorded restoration in; its copies on a queue, and exactly one outcome for each, out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mqdlq.errors import AccountError, MalformedHeaderError
from mqdlq.ledger import DRY_RUN, ArchivedCopy, CopyId, CopyState, Restoration
from mqdlq.model import RestorationState
from mqdlq.mqi.connect import connect
from mqdlq.stages.restore.copies import Found, already, read, refusals
from mqdlq.stages.restore.interrupted_copies import settle_open_units
from mqdlq.stages.restore.putting import Booking, Copies, Put, put_of
from mqdlq.stages.restore.restoration_resources import Restoring
from mqdlq.stages.units.destinations import Destinations
from mqdlq.stages.units.engine import UnitEngine
from mqdlq.stages.units.exclusive_access import hold_state_queue

ENDS = frozenset(
    {
        RestorationState.RESTORED,
        RestorationState.REFUSED,
        RestorationState.FAILED,
        RestorationState.UNKNOWN,
        RestorationState.NOT_ATTEMPTED,
    }
)
"""The states that are outcomes: each copy that was selected ends in exactly one of them."""
DONE = (RestorationState.RESTORED, RestorationState.UNKNOWN)
"""The outcomes after which a restoration never puts a copy again."""


@dataclass(frozen=True, slots=True)
class Result:
    """How the copies of a restoration ended, counted; and why those ended so that were not put.

    `reasons` are (outcome, why) pairs with how many copies each is of.
    """

    outcomes: Counter[RestorationState]
    reasons: Counter[tuple[RestorationState, str]]
    restoration: Restoration

    @property
    def total(self) -> int:
        """Return how many copies were selected."""
        return self.outcomes.total()

    @property
    def is_worth_a_retry(self) -> bool:
        """Whether copies were not put for a reason that may pass."""
        unfinished = (RestorationState.FAILED, RestorationState.NOT_ATTEMPTED)
        is_real = not self.restoration.dry_run
        return is_real and any(self.outcomes[state] for state in unfinished)

    @property
    def shortfall(self) -> str:
        """Say what a person asked for and has not got, "" where there is nothing.

        What is refused since it was restored to the same queue before is none.
        """
        is_there = already(self.restoration)
        missed = Counter(
            {
                (state, why): number
                for (state, why), number in self.reasons.items()
                if not why.startswith(is_there)
            }
        )
        if not missed or self.restoration.dry_run:
            return ""
        ((_, why), number), *others = missed.most_common()
        more = f"; and {len(others)} more reasons" if others else ""
        return f"{missed.total()} of {self.total} messages are not restored; {number}: {why}{more}"


def restore(work: Restoring) -> Result:
    """Settle what earlier attempts left open, then put each copy that is still to be put.

    May be called again at any time, also after a crash: what was put is in the ledger and in the
    markers, and is never put again by the same restoration; what was refused, failed, or not
    attempted is tried anew. A dry run opens no queue. Copies stay in the archive. Raises
    AnotherExecutorError where an executor does not let go of the state queue, QueueManagerError
    where the queue manager fails, LedgerError where another task puts the same messages, and
    AccountError where the outcomes are not the copies; nothing is put twice by any of them.
    """
    if work.restoration.dry_run:
        _say_only(work)
    else:
        _put(work)
    return _account(work)


def _say_only(work: Restoring) -> None:
    refused, acceptable = _sorted_out(work, _due(work))
    for found in read(acceptable):
        why = found.problem or DRY_RUN
        state = RestorationState.REFUSED if found.problem else RestorationState.NOT_ATTEMPTED
        refused.append(_state(work, found.copy, state, why))
    work.ledger.restorations.add_states(work.restoration.restoration_id, refused)


def _put(work: Restoring) -> None:
    restoration, refused = work.restoration, list[CopyState]()
    with (
        connect(work.settings) as queue_manager,
        hold_state_queue(queue_manager, restoration.state_queue, work) as markers,
    ):
        if not markers.prove_commits:
            work.log.warning(
                "the state queue %s is not defined on %s: each message is put alone, and a crash"
                " may leave messages unknown; define it with DEFINE QLOCAL(%s) DEFPSIST(YES)"
                " [MQDLQ-715]",
                restoration.state_queue,
                restoration.queue_manager,
                restoration.state_queue,
            )
        settled = settle_open_units(work, markers)
        refused, acceptable = _sorted_out(work, _due(work))
        work.ledger.restorations.add_states(restoration.restoration_id, refused)
        limit = work.max_messages_per_unit if markers.prove_commits else 1
        destinations = Destinations(queue_manager, limit)
        booking = Booking(work, destinations)
        source = Copies(queue_manager)
        with UnitEngine(source, booking, markers=markers, destinations=destinations) as units:
            units.clear_markers_later(settled)
            if markers.prove_commits and (acceptable or settled):
                units.put_marker()
            for found in read(acceptable):
                _offer(found, units, booking, restoration)
        units.clear_markers()


def _offer(
    found: Found, units: UnitEngine[Put], booking: Booking, restoration: Restoration
) -> None:
    """Put a copy, unless it cannot be read as it was archived."""
    if found.content is None:
        booking.refuse(found.copy, found.problem)
        return
    try:
        put = put_of(found.copy, found.content, restoration)
    except MalformedHeaderError as error:
        why = f"its MQDLH cannot be taken off ({error}): restore it with its header"
        booking.refuse(found.copy, why)
    else:
        units.offer(put)


def _due(work: Restoring) -> list[ArchivedCopy]:
    """Return the copies that are selected and not put, in the order they had on their queue."""
    states = work.ledger.restorations.states(work.restoration.restoration_id)
    due = {key for key, state in states.items() if state.state not in DONE}
    runs = dict.fromkeys(run_id for run_id, _ in states)
    copies = [copy for run_id in runs for copy in work.ledger.archive.copies(run_id=run_id)]
    return sorted(
        (copy for copy in copies if copy.key in due), key=lambda copy: (copy.at, copy.location)
    )


def _sorted_out(
    work: Restoring, due: Sequence[ArchivedCopy]
) -> tuple[list[CopyState], list[ArchivedCopy]]:
    """Return what the ledger says must not be put, and the other copies."""
    restoration = work.restoration
    keys = [copy.key for copy in due]
    others = (
        {}
        if restoration.again
        else work.ledger.restorations.put_by_others(restoration.restoration_id, keys)
    )
    why: dict[CopyId, str] = refusals(due, others)
    refused = [
        _state(work, copy, RestorationState.REFUSED, why[copy.key])
        for copy in due
        if copy.key in why
    ]
    return refused, [copy for copy in due if copy.key not in why]


def _state(work: Restoring, copy: ArchivedCopy, state: RestorationState, why: str) -> CopyState:
    return CopyState(*copy.key, state, work.clock(), why=why)


def _account(work: Restoring) -> Result:
    """Count the outcomes; raises AccountError unless every copy selected has one."""
    states = work.ledger.restorations.states(work.restoration.restoration_id).values()
    outcomes = Counter(state.state for state in states if state.state in ENDS)
    if outcomes.total() != len(states):
        raise AccountError(
            "MQDLQ-714",
            f"{len(states)} copies are selected, but {outcomes.total()} have an outcome; clear the"
            " task",
        )
    reasons: Counter[tuple[RestorationState, str]] = Counter()
    for state in states:
        if state.state is not RestorationState.RESTORED:
            reasons[state.state, state.why] += 1
    return Result(outcomes, reasons, work.restoration)
