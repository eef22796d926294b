"""Carry out a restoration: put its copies, and describe it before and after as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import AccountError, MalformedHeaderError
from mqdlq.headers import DLH_LENGTH, DeadLetterHeader, following_ccsid
from mqdlq.lake.archive import Copy
from mqdlq.lake.works import record_restoration
from mqdlq.ledger.archive import ArchivedCopy
from mqdlq.ledger.tables import CopyState, Restoration
from mqdlq.model import Destination, PutAuthority, RestorationState, WorkNumber
from mqdlq.mqi.connect import QueueManager, connect
from mqdlq.mqi.state_queue import RESTORATION_MARKER, Marker, Markers
from mqdlq.mqi.unit_of_work import Delivery, Syncpoint
from mqdlq.reasons import Reason, Why, words_of
from mqdlq.resources import Resources
from mqdlq.stages.execute.dead_letters import strip_dead_letter_header
from mqdlq.stages.older_ledger import begin_work
from mqdlq.stages.restore import selection
from mqdlq.stages.units.destinations import Destinations
from mqdlq.stages.units.engine import UnitEngine
from mqdlq.stages.units.interruptions import hold_state_queue
from mqdlq.words import count, place

MAX_REASONS = 5
"""How many different reasons are shown; `mqdlq restore list` shows the others."""
OUTCOMES = {
    RestorationState.RESTORED: "restored",
    RestorationState.REFUSED: "refused",
    RestorationState.FAILED: "failed",
    RestorationState.UNKNOWN: "unknown",
    RestorationState.NOT_ATTEMPTED: "not attempted",
}
"""The states that are outcomes, in words: each selected copy ends in exactly one of them."""
NEVER_PUT_AGAIN = (RestorationState.RESTORED, RestorationState.UNKNOWN)
"""The outcomes after which a restoration never puts a copy again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorationResources(Resources):
    """The resources of an attempt at a restoration, with its largest number of puts in a unit."""

    restoration: Restoration
    max_messages_per_unit: int


@dataclass(frozen=True, slots=True)
class RestorationResult:
    """The outcomes of a restoration, counted, and why copies were not put.

    `reasons` counts copies by (outcome, why).
    """

    outcomes: Counter[RestorationState]
    reasons: Counter[tuple[RestorationState, Reason | None]]
    restoration: Restoration

    @property
    def total(self) -> int:
        return self.outcomes.total()

    @property
    def may_succeed_later(self) -> bool:
        unfinished = (RestorationState.FAILED, RestorationState.NOT_ATTEMPTED)
        is_real = not self.restoration.dry_run
        return is_real and any(self.outcomes[state] for state in unfinished)

    @property
    def shortfall(self) -> str:
        """Which requested messages are not restored and why, or "".

        Copies that were refused because they are already on the same queue do not count.
        """
        asked, found = self.restoration, self.reasons.items()
        missed = Counter({key: number for key, number in found if not _is_there(key[1], asked)})
        if not missed or asked.dry_run:
            return ""
        ((_, why), number), *others = missed.most_common()
        more = f"; and {len(others)} more reasons" if others else ""
        first = f"{number}: {words_of(why)}{more}"
        return f"{missed.total()} of {self.total} messages are not restored; {first}"


def _is_there(why: Reason | None, restoration: Restoration) -> bool:
    """Whether a copy was refused because it was restored to the queue of this restoration."""
    where = place(restoration.to_queue, restoration.to_queue_manager)
    return why is not None and why.code is Why.RESTORED_BEFORE and why.by_name["place"] == where


def describe_target(restoration: Restoration) -> str:
    manager = restoration.to_queue_manager or restoration.queue_manager
    without = "" if restoration.header else ", without the MQDLH"
    return f"{place(restoration.to_queue, manager)}{without}"


def announce(restoration: Restoration, selected: int) -> Iterator[str]:
    of = f" of run {restoration.run_id}" if restoration.run_id else ""
    why = f" for {reason_text(restoration.reason)}" if restoration.reason else ""
    would = "would go" if restoration.dry_run else "goes" if selected == 1 else "go"
    messages = count(selected, "archived message")
    yield f"{messages}{of}{why} {would} to {describe_target(restoration)}"
    if restoration.puts_back:
        yield warn_of_repeated_discard(restoration)


def warn_of_repeated_discard(restoration: Restoration) -> str:
    return (
        f"the next run of {restoration.handler} meets them again and, by the rules that discarded"
        " them, discards them again: change the rules first, or name another queue"
    )


def describe_result(restoration: Restoration, result: RestorationResult) -> str:
    """Return the result of a restoration: counts, then the reasons why copies were not put."""
    counts = ", ".join(
        f"{result.outcomes[state]} {word}"
        for state, word in OUTCOMES.items()
        if result.outcomes[state]
    )
    lines = [
        f"Restoration {restoration.restoration_id} to {describe_target(restoration)}",
        f"{count(result.total, 'message')}: {counts}",
    ]
    for (state, why), number in result.reasons.most_common(MAX_REASONS):
        lines.append(f"{number} {OUTCOMES[state]}: {words_of(why)}")
    if (rest := len(result.reasons) - MAX_REASONS) > 0:
        lines.append(f"and {count(rest, 'reason')} more")
    if restoration.puts_back and result.outcomes[RestorationState.RESTORED]:
        lines.append(f"Mind: {warn_of_repeated_discard(restoration)}.")
    return "\n".join(lines)


# Carry out a recorded restoration: put its copies, and record one outcome for each.


def restore(work: RestorationResources) -> RestorationResult:
    """Settle interrupted units of earlier attempts, then put each copy that is due.

    It may be called again at any time, also after a crash. The ledger and the markers show which
    copies were put; the same restoration never puts them again. Copies that were refused, failed or
    not attempted are tried again. A dry run opens no queue. Copies stay in the archive.

    Raises AnotherExecutorError if an executor keeps holding the state queue, QueueManagerError if
    the queue manager fails, LedgerError if another task puts the same messages, and
    AccountError if the outcomes do not match the copies. None of them puts a message twice.
    """
    if work.restoration.dry_run:
        _rehearse(work)
    else:
        _put_copies(work)
    return _check_account(work)


def _rehearse(work: RestorationResources) -> None:
    refused, acceptable = _select_due_copies(work)
    for copy, content in selection.read_archived_copies(acceptable):
        state, why = RestorationState.NOT_ATTEMPTED, Why.DRY_RUN()
        if isinstance(content, Reason):
            state, why = RestorationState.REFUSED, content
        refused.append(CopyState(*copy.key, state, work.clock(), why=why))
    work.ledger.restorations.add_states(work.restoration.restoration_id, refused)


def _put_copies(work: RestorationResources) -> None:
    restoration, name = work.restoration, work.restoration.restoration_id
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
        limit = work.max_messages_per_unit if markers.prove_commits else 1
        destinations = Destinations(queue_manager, limit)
        selection.check_target(restoration, destinations)
        begun = begin_work(work, name, restoration.state_queue, markers)
        settled = settle_open_units(work, markers)
        refused, acceptable = _select_due_copies(work)
        work.ledger.restorations.add_states(name, refused)
        if acceptable:
            copies = [(*copy.key, copy.message_key.hex()) for copy in acceptable]
            plan = {"restoration": asdict(restoration), "copies": copies}
            record_restoration(work.lake_root, begun, plan)
        booking = RestorationRecorder(work, destinations, begun.number)
        source = ArchiveSource(queue_manager)
        with UnitEngine(source, booking, markers=markers, destinations=destinations) as units:
            units.clear_markers_later(settled)
            if markers.prove_commits and (acceptable or settled):
                units.put_marker()
            for copy, content in selection.read_archived_copies(acceptable):
                _offer_copy(copy, content, units, booking, work)
        units.clear_markers()


def _offer_copy(
    copy: ArchivedCopy,
    content: Copy | Reason,
    units: UnitEngine[PlannedPut],
    booking: RestorationRecorder,
    work: RestorationResources,
) -> None:
    """Offer a copy to the engine, or refuse a copy that is missing, unreadable or altered."""
    asked = work.restoration
    if isinstance(content, Reason):
        # A prune may have removed the copy since the ledger was read.
        keys = [copy.message_key.hex()]
        now = work.ledger.archive.copies(run_id=copy.run_id, message_keys=keys)
        pruned = [selection.explain_pruned_copy(one) for one in now if one.key == copy.key]
        booking.refuse(copy, next(filter(None, pruned), content))
        return
    try:
        delivery = build_delivery(
            content, asked.to_queue, asked.to_queue_manager, header=asked.header
        )
    except MalformedHeaderError as error:
        booking.refuse(copy, Why.HEADER_STAYS(error=str(error)))
    else:
        units.offer(PlannedPut(copy, content.descriptor, delivery))


def build_delivery(copy: Copy, target_q: str, target_q_mgr: str, *, header: bool) -> Delivery:
    """Return the delivery of a copy: unchanged, or without its MQDLH but with its properties.

    If the MQDLH is removed, the header before it takes Format, Encoding and CodedCharSetId from it,
    as with HEADER(NO). Raises MalformedHeaderError if there is no readable MQDLH.
    """
    if header:
        return Delivery(target_q, target_q_mgr, copy.body)
    preceding, offset, encoding, ccsid = selection.locate_header(copy)
    rest = copy.body[offset:]
    if preceding is None:
        return strip_dead_letter_header(target_q, target_q_mgr, rest, encoding, ccsid)
    removed = DeadLetterHeader.decode(rest, encoding=encoding, ccsid=ccsid)
    rfh2, start = preceding
    properties = replace(
        rfh2,
        encoding=removed.encoding,
        coded_char_set_id=following_ccsid(removed.coded_char_set_id, ccsid),
        format=removed.format,
    )
    front = copy.body[: start.offset] + properties.encode(
        encoding=start.encoding, ccsid=start.ccsid
    )
    return Delivery(target_q, target_q_mgr, front + rest[DLH_LENGTH:])


def _select_due_copies(work: RestorationResources) -> tuple[list[CopyState], list[ArchivedCopy]]:
    """Return the states of copies that the ledger refuses, and the copies to be put, in order."""
    states = work.ledger.restorations.states(work.restoration.restoration_id)
    runs = dict.fromkeys(run_id for run_id, _ in states)
    copies = [copy for run_id in runs for copy in work.ledger.archive.copies(run_id=run_id)]
    due = [
        copy
        for copy in sorted(copies, key=lambda copy: (copy.at, copy.location))
        if copy.key in states and states[copy.key].state not in NEVER_PUT_AGAIN
    ]
    found = selection.find_refusals(due, work.restoration, work.ledger)
    refused = [
        CopyState(*key, RestorationState.REFUSED, work.clock(), why=why)
        for key, why in found.items()
    ]
    return refused, [copy for copy in due if copy.key not in found]


def _check_account(work: RestorationResources) -> RestorationResult:
    """Count the outcomes; raises AccountError unless every selected copy has one."""
    states = work.ledger.restorations.states(work.restoration.restoration_id).values()
    outcomes = Counter(state.state for state in states if state.state in OUTCOMES)
    if outcomes.total() != len(states):
        raise AccountError(
            "MQDLQ-714",
            f"{len(states)} copies are selected, but {outcomes.total()} have an outcome; clear the"
            " task",
        )
    reasons = Counter[tuple[RestorationState, Reason | None]](
        (state.state, state.why) for state in states if state.state is not RestorationState.RESTORED
    )
    return RestorationResult(outcomes, reasons, work.restoration)


# Put archived copies in units of work, and record the progress in the ledger.

MAX_UNWRITTEN_STATES = 500
PROGRESS_EVERY = 1000
"""After how many restored messages the log reports progress."""


@dataclass(frozen=True, slots=True)
class PlannedPut:
    """One copy to be put."""

    copy: ArchivedCopy
    descriptor: bytes
    delivery: Delivery

    is_got: ClassVar[bool] = False
    authority: ClassVar[PutAuthority] = PutAuthority.DEF

    @property
    def message_key(self) -> bytes:
        return self.copy.message_key

    @property
    def destination(self) -> Destination:
        return self.delivery.target_q, self.delivery.target_q_mgr

    @property
    def descriptors(self) -> tuple[bytes]:
        return (self.descriptor,)

    @property
    def lengths(self) -> tuple[int]:
        return (len(self.delivery.body),)

    def __repr__(self) -> str:
        """Show no content: the body is confidential."""
        return f"<Put of message {self.copy.message_id}>"


class ArchiveSource:
    """The archive as a source of moves: copies stay there, and no message is got from a queue."""

    def __init__(self, queue_manager: QueueManager) -> None:
        self._queue_manager = queue_manager
        self._unit = Syncpoint(queue_manager)

    def open(self) -> Syncpoint:
        self._unit = Syncpoint(self._queue_manager)
        return self._unit

    def find(self, _: PlannedPut) -> bool:
        return True

    def resume(self, _: PlannedPut) -> None:
        """Do nothing: no cursor has moved."""

    def get(self, put: PlannedPut) -> Iterator[Callable[[], None]]:
        """Yield a function that puts the copy. It treats a warning as a failure."""
        unit = self._unit
        yield lambda: unit.put_with_original_context(put.descriptor, put.delivery)


class RestorationRecorder:
    """Records the state of each copy of a restoration, before and after commits."""

    def __init__(
        self, work: RestorationResources, destinations: Destinations, number: WorkNumber
    ) -> None:
        self._work, self._destinations, self._number = work, destinations, number
        self._restoration, self._restorations = work.restoration, work.ledger.restorations
        self._unwritten: list[CopyState] = []
        self._restored = 0
        self._warned_of: set[int] = set()

    def marker(self, unit: str, messages: str, _: Sequence[PlannedPut]) -> Marker:
        name = self._restoration.restoration_id
        return Marker(unit, name, RESTORATION_MARKER, messages, str(self._number))

    def may_make(self, _: PlannedPut) -> bool:
        return True

    def intend(self, unit: str, puts: Sequence[PlannedPut]) -> None:
        """Record the puts of a unit; raises LedgerError if another task puts the same messages."""
        states = self._build_states(unit, puts, RestorationState.INTENDED)
        self._restorations.intend(self._restoration, states)

    def confirm(self, unit: str, puts: Sequence[PlannedPut]) -> None:
        self._write(self._build_states(unit, puts, RestorationState.RESTORED))
        before, self._restored = self._restored, self._restored + len(puts)
        if self._restored // PROGRESS_EVERY > before // PROGRESS_EVERY:
            self._work.log.info("%d messages restored so far", self._restored)

    def back_out(self, unit: str, puts: Sequence[PlannedPut], reason: int) -> None:
        self._write(self._build_states(unit, puts, RestorationState.BACKED_OUT, reason))

    def fail(self, put: PlannedPut, reason: int) -> None:
        """Record that a put failed, and warn once for each reason."""
        queue, log = self._restoration.to_queue, self._work.log
        advice = self._destinations.explain_failure(put.destination, reason)
        why = Why.PUT_TO_QUEUE_FAILED(queue=queue, mqrc=reason, advice=advice)
        (log.debug if reason in self._warned_of else log.warning)(
            "unable to restore message %s: %s", put.message_key.hex()[:12], why.words
        )
        self._warned_of.add(reason)
        self._record_end(put.copy, RestorationState.FAILED, reason, why)

    def leave(self, put: PlannedPut) -> None:
        """Do nothing: a copy in the archive is never gone."""

    def skip(self, put: PlannedPut, reason: int) -> bool:
        """Record a copy that is too long as failed, and any other copy as not attempted."""
        if reason == MQRC["MQRC_MSG_TOO_BIG_FOR_Q"]:
            self.fail(put, reason)
        else:
            why = Why.QUEUE_BLOCKED(queue=self._restoration.to_queue, mqrc=reason)
            self._record_end(put.copy, RestorationState.NOT_ATTEMPTED, reason, why)
        return True

    def refuse(self, copy: ArchivedCopy, why: Reason | None) -> None:
        self._record_end(copy, RestorationState.REFUSED, 0, why)

    def flush(self) -> None:
        waiting, self._unwritten = self._unwritten, []
        self._write(waiting)

    def _record_end(
        self, copy: ArchivedCopy, state: RestorationState, mqrc: int, why: Reason | None
    ) -> None:
        """Store the final state of a copy that was not put; a crash may lose it harmlessly."""
        self._unwritten.append(CopyState(*copy.key, state, self._work.clock(), "", mqrc, why))
        if len(self._unwritten) >= MAX_UNWRITTEN_STATES:
            self.flush()

    def _write(self, states: Sequence[CopyState]) -> None:
        self._restorations.add_states(self._restoration.restoration_id, states)

    def _build_states(
        self, unit: str, puts: Sequence[PlannedPut], state: RestorationState, mqrc: int = 0
    ) -> list[CopyState]:
        now = self._work.clock()
        return [CopyState(*put.copy.key, state, now, unit, mqrc) for put in puts]


# Settle the copies of interrupted restorations.

_LOG_LINES: Mapping[RestorationState, str] = {
    RestorationState.RESTORED: "%d messages of restoration %s were put: %s",
    RestorationState.BACKED_OUT: "%d messages of restoration %s were backed out with its"
    " connection",
    RestorationState.UNKNOWN: "%d messages of restoration %s are recorded as unknown: %s",
}


def settle_open_units(work: RestorationResources, markers: Markers) -> list[str]:
    """Settle the units of all restorations with this state queue; return the markers to clear.

    While this restoration holds the state queue, no other task can commit a unit with a marker: the
    connection that put the marker held the queue until it ended. A missing marker therefore proves
    that its unit was backed out, provided that another marker of the same restoration proves that
    nobody has cleared the queue. Without that proof, or without a state queue, the copies are
    recorded as `unknown` and are not put again: waiting would prove nothing more. A marker that
    appears later is still used.

    The markers of other settled restorations are cleared, too. The markers of executors stay.
    """
    ledger, asked = work.ledger, work.restoration
    standing = markers.markers()
    units = {marker.unit for marker in standing}
    restorations_with_marker = {marker.run_id for marker in standing}
    found = ledger.restorations.open_units(asked.queue_manager, asked.state_queue)
    for restoration, states in found:
        proven = [one for one in states if one.unit in units]
        _settle(work, restoration, proven, RestorationState.RESTORED, Why.KNOWN_FROM_MARKER())
        rest = [
            one
            for one in states
            if one.unit not in units and one.state is RestorationState.INTENDED
        ]
        if restoration.restoration_id in restorations_with_marker:
            _settle(work, restoration, rest, RestorationState.BACKED_OUT)
        else:
            where = place(restoration.to_queue, restoration.to_queue_manager)
            why = Why.PUT_IN_DOUBT(place=where)
            _settle(work, restoration, rest, RestorationState.UNKNOWN, why)
    ours = ledger.restorations.known(restorations_with_marker)
    return sorted(marker.unit for marker in standing if marker.run_id in ours)


def _settle(
    work: RestorationResources,
    restoration: Restoration,
    states: Sequence[CopyState],
    state: RestorationState,
    why: Reason | None = None,
) -> None:
    name, now = restoration.restoration_id, work.clock()
    settled = [replace(each, state=state, why=why, mqrc=0, at=now) for each in states]
    work.ledger.restorations.add_states(name, settled)
    if settled:
        tell = work.log.warning if state is RestorationState.UNKNOWN else work.log.info
        tell(_LOG_LINES[state], len(settled), name, *([why.words] if why else []))
