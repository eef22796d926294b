"""Archive messages before they are discarded, or delivered repaired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from mqdlq.controls.registry import ControlChain
from mqdlq.controls.repair.changes import check_body
from mqdlq.controls.work import WorkList
from mqdlq.errors import LakeError, QueueManagerError
from mqdlq.lake.archive import Copy, name_of_copies, read_copies, write_copies
from mqdlq.ledger.tables import MessageRepair, Run
from mqdlq.model import Action, Step
from mqdlq.mqi.browse import GONE, BrowseCursor, BrowsedMessage, browse_with_properties
from mqdlq.resources import Execution


def needs_copy(step: Step, run: Run) -> bool:
    """Return whether a step moves a message only if the archive has a copy of it.

    Such a step is a DISCARD, or the step of a run with a repair. A forward to a quarantine queue
    (rule 0) repairs nothing.
    """
    return step.action is Action.DISCARD or bool(run.repair and step.rule)


def archive_messages(
    execution: Execution, work: WorkList, cursor: BrowseCursor, controls: ControlChain
) -> dict[int, str]:
    """Archive the messages whose next step needs a copy; return the copies' steady digests.

    If the controls know how many messages the pass moves at most, no more copies are made. Then a
    message that is held for the rest of the run gets none, so that it takes no other one's place.

    Copies are made by browse, before any message is got. They are read back before any message is
    moved, also the copies of an earlier pass. A copy holds the whole message with its properties.
    The changes of a message to be delivered repaired are recorded with its copy. If its body does
    not allow them, that is recorded, and the message is neither archived nor moved.
    """
    run, ledger, room = execution.run, execution.ledger, controls.room
    due = {
        item.message.message_id
        for item in work.items
        if (step := item.due_step) and needs_copy(step, run) and item.hold is None
        if room is None or not controls.is_held_to_the_end(item)
    }
    if not due:
        return {}
    recorded = ledger.archive.digests(run.run_id)
    copied = read_recorded_copies(execution, recorded) if due & set(recorded) else {}
    wanted = due - set(recorded)
    number = None if room is None else max(0, room - len(due & set(recorded)))
    if not wanted or number == 0:
        return copied
    at = execution.clock()
    steady: dict[int, str] = {}
    changes: list[MessageRepair] = []
    copies = islice(_browse_copies(work, cursor, wanted, changes, steady), number)
    location, digests = write_copies(execution.lake_root, run.run_id, name_of_copies(at), copies)
    ledger.archive.record(run.run_id, location, digests, at, changes)
    why = "delivered repaired" if run.repair else "discarded"
    execution.log.info("%d messages to be %s are archived and read back", len(digests), why)
    return copied | steady


def read_recorded_copies(execution: Execution, recorded: Mapping[int, str]) -> dict[int, str]:
    """Return the steady digests of the run's recorded copies that the archive holds unaltered.

    `recorded` has the digests in the ledger by message id.
    """
    steady: dict[int, str] = {}
    for location in execution.ledger.archive.locations(execution.run.run_id):
        try:
            steady |= {
                copy.message_id: copy.steady_digest
                for copy in read_copies(location)
                if recorded.get(copy.message_id) == copy.digest
            }
        except LakeError as error:
            execution.log.warning(
                "the archive copies in %s cannot be read, so their messages are not moved: %s"
                " [MQDLQ-614]",
                location,
                error,
            )
    return steady


def _browse_copies(
    work: WorkList,
    cursor: BrowseCursor,
    wanted: set[int],
    changes: list[MessageRepair],
    steady: dict[int, str],
) -> Iterator[Copy]:
    """Yield copies of the wanted messages; add the changes and the steady digests of the copies.

    Changes without a refusal are added with the copy. If another application holds the message in
    the meantime, there are neither, and the next pass tries again.
    """
    for met in work.browse(cursor):
        item = met.item
        if item is None or item.message.message_id not in wanted:
            continue
        if item.changes is not None:
            repair = _compare_with_body(item.changes, met.browsed, cursor)
            if repair is None:
                continue
            item.changes, item.withheld_reason = repair, repair.refusal
            if repair.refusal:
                changes.append(repair)
                continue
        whole = _browse_whole(met.browsed, cursor)
        if whole is None:
            continue
        if item.changes is not None:
            changes.append(item.changes)
        copy = Copy(item.message.message_id, *whole)
        steady[copy.message_id] = copy.steady_digest
        yield copy


def _browse_whole(browsed: BrowsedMessage, cursor: BrowseCursor) -> tuple[bytes, bytes] | None:
    try:
        return browse_with_properties(cursor, browsed.total_length)
    except QueueManagerError as error:
        if error.reason in GONE:
            return None
        raise


def _compare_with_body(
    changes: MessageRepair, browsed: BrowsedMessage, cursor: BrowseCursor
) -> MessageRepair | None:
    """Return the changes of a message after a look at its whole body, None if it is gone."""
    whole = cursor.find(browsed.token, browsed.total_length)
    return None if whole is None else check_body(changes, whole.descriptor, whole.prefix)
