"""Carry out a restoration, and describe it before and after as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from mqdlq.constants import reason_text
from mqdlq.errors import AccountError, MalformedHeaderError
from mqdlq.lake.archive import Copy
from mqdlq.lake.works import record_restoration
from mqdlq.ledger import Ledger
from mqdlq.ledger.archive import ArchivedCopy
from mqdlq.ledger.tables import CopyState, Restoration
from mqdlq.model import RestorationState
from mqdlq.mqi.connect import connect
from mqdlq.reasons import Reason, Why, words_of
from mqdlq.stages.older_ledger import begin_work
from mqdlq.stages.restore.copies import (
    RestorationResources,
    explain_pruned_copy,
    find_refusals,
    is_there,
    read_archived_copies,
    settle_open_units,
)
from mqdlq.stages.restore.putting import (
    ArchiveSource,
    PlannedPut,
    RestorationRecorder,
    build_delivery,
)
from mqdlq.stages.restore.selection import check_target
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

NEVER_PUT_AGAIN = (RestorationState.RESTORED, RestorationState.UNKNOWN)
"""The outcomes after which a restoration never puts a copy again."""


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
        """Return which requested messages are not restored and why, or "".

        Copies that were refused because they are already on the same queue do not count.
        """
        found = self.reasons.items()
        missed = Counter({key: n for key, n in found if not is_there(key[1], self.restoration)})
        if not missed or self.restoration.dry_run:
            return ""
        ((_, why), number), *others = missed.most_common()
        more = f"; and {len(others)} more reasons" if others else ""
        first = f"{number}: {words_of(why)}{more}"
        return f"{missed.total()} of {self.total} messages are not restored; {first}"


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
    for copy, content in read_archived_copies(acceptable):
        state, why = RestorationState.NOT_ATTEMPTED, Why.DRY_RUN()
        if isinstance(content, Reason):
            state, why = RestorationState.REFUSED, content
        refused.append(CopyState(*copy.key, state, work.clock(), why=why))
    work.ledger.restorations.add_states(work.restoration.restoration_id, refused)


def _put_copies(work: RestorationResources) -> None:
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
        limit = work.max_messages_per_unit if markers.prove_commits else 1
        destinations = Destinations(queue_manager, limit)
        check_target(restoration, destinations)
        name = restoration.restoration_id
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
            for copy, content in read_archived_copies(acceptable):
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
    if isinstance(content, Reason):
        booking.refuse(copy, _explain_now(copy, content, work.ledger))
        return
    asked = work.restoration
    to = asked.to_queue, asked.to_queue_manager
    try:
        delivery = build_delivery(content, *to, header=asked.header)
    except MalformedHeaderError as error:
        booking.refuse(copy, Why.HEADER_STAYS(error=str(error)))
    else:
        units.offer(PlannedPut(copy, content.descriptor, delivery))


def _explain_now(copy: ArchivedCopy, problem: Reason, ledger: Ledger) -> Reason:
    """Return why a copy has no content; a prune may have removed it since the ledger was read."""
    copies = ledger.archive.copies(run_id=copy.run_id, message_keys=[copy.message_key.hex()])
    same = [explain_pruned_copy(one) for one in copies if one.key == copy.key]
    return next(filter(None, same), problem)


def _select_due_copies(
    work: RestorationResources,
) -> tuple[list[CopyState], list[ArchivedCopy]]:
    """Return the states of copies that the ledger refuses, and the other copies to be put.

    Copies that are put already are left out; the others come in the order of their original queue.
    """
    states = work.ledger.restorations.states(work.restoration.restoration_id)
    runs = dict.fromkeys(run_id for run_id, _ in states)
    copies = [copy for run_id in runs for copy in work.ledger.archive.copies(run_id=run_id)]
    due = [
        copy
        for copy in sorted(copies, key=lambda copy: (copy.at, copy.location))
        if copy.key in states and states[copy.key].state not in NEVER_PUT_AGAIN
    ]
    found = find_refusals(due, work.restoration, work.ledger)
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
