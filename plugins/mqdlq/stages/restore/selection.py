"""What a person asks for in, a recorded restoration with the copies it selects out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from mqdlq.constants import reason_text
from mqdlq.errors import MalformedHeaderError, RestoreError
from mqdlq.handlers import Handler
from mqdlq.ledger import ArchivedCopy, Ledger, Restoration
from mqdlq.stages.report.wording import place
from mqdlq.stages.restore.copies import read
from mqdlq.stages.restore.dead_letter_headers import dead_letter_header


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be restored, and where to.

    Of the handler's copies those of `run_id` ("" for whichever run was the last to discard a
    message), of the messages in `message_keys`
    (hex; empty for all) and that were dead letters for `reason` (0 for whatever). `to_queue` is ""
    for the dead-letter queue they were on. `header` keeps the MQDLH; `again` puts what was
    restored before.
    """

    run_id: str = ""
    message_keys: tuple[str, ...] = ()
    reason: int = 0
    to_queue: str = ""
    to_queue_manager: str = ""
    header: bool = True
    again: bool = False
    dry_run: bool = False
    who: str = ""


def begin(
    restoration_id: str,
    handler: Handler,
    request: Request,
    *,
    ledger: Ledger,
    clock: Callable[[], datetime],
) -> Restoration:
    """Select the copies and record the restoration; nothing is put yet, no queue is touched.

    Recorded before under this id, it is returned as it was: the selection holds to its end. Raises
    RestoreError where there is nothing to select, or where it cannot be put as is asked.
    """
    recorded = ledger.restorations.get(restoration_id)
    copies = [] if recorded else _select(handler, request, ledger)
    wanted = recorded or _restoration(restoration_id, handler, request, copies[0], clock())
    if recorded is None:
        _check_target(wanted)
        ledger.restorations.record(wanted, copies)
    elif not _is_of(recorded, handler, request):
        raise RestoreError(
            "MQDLQ-711",
            f"restoration {restoration_id} is in the ledger with another selection or target,"
            " which never change; start another restoration",
        )
    return wanted


def _is_of(recorded: Restoration, handler: Handler, request: Request) -> bool:
    if recorded.handler != handler.name:
        return False
    same = ("run_id", "message_keys", "reason", "header", "again", "dry_run")
    target = request.to_queue or recorded.queue, request.to_queue_manager
    is_same_target = target == (recorded.to_queue, recorded.to_queue_manager)
    return is_same_target and all(getattr(recorded, n) == getattr(request, n) for n in same)


def _restoration(
    restoration_id: str, handler: Handler, request: Request, first: ArchivedCopy, now: datetime
) -> Restoration:
    return Restoration(
        restoration_id=restoration_id,
        handler=handler.name,
        who=request.who,
        queue_manager=first.queue_manager,
        queue=first.queue,
        state_queue=handler.state_queue,
        run_id=request.run_id,
        message_keys=request.message_keys,
        reason=request.reason,
        to_queue=request.to_queue or first.queue,
        to_queue_manager=request.to_queue_manager,
        header=request.header,
        again=request.again,
        dry_run=request.dry_run,
        started_at=now,
    )


def _select(handler: Handler, request: Request, ledger: Ledger) -> list[ArchivedCopy]:
    """Return the copies that are asked for, all of one queue; raises RestoreError."""
    if request.to_queue_manager and not request.to_queue:
        raise RestoreError("MQDLQ-709", "to_queue_manager needs to_queue; name the queue, too")
    if not request.run_id and not request.message_keys:
        raise RestoreError(
            "MQDLQ-702",
            "a restoration needs a run or message_keys, so that nobody restores a whole archive"
            " by mistake; name one of them",
        )
    found = ledger.archive.copies(
        handler=handler.name,
        run_id=request.run_id,
        message_keys=request.message_keys,
    )
    of = f"run {request.run_id}" if request.run_id else f"handler {handler.name}"
    missing = set(request.message_keys) - {copy.message_key.hex() for copy in found}
    if missing:
        raise RestoreError(
            "MQDLQ-703",
            f"the archive has no copy by {of} of {len(missing)} of the {len(request.message_keys)}"
            f" messages named, such as {min(missing)}; mqdlq restore list shows its copies",
        )
    if not found:
        raise RestoreError(
            "MQDLQ-704",
            f"the archive has no copy by {of} of handler {handler.name}; mqdlq restore list shows"
            " its copies",
        )
    if not request.run_id:
        found = _newest(found)
    return _of_one_queue(_with_reason(found, request.reason))


def _newest(found: list[ArchivedCopy]) -> list[ArchivedCopy]:
    """Return one copy of each message: of several, the newest that is not provisional.

    A message that came back and was discarded again has more than one, and so has one that a run
    copied and another discarded.
    """
    chosen: dict[tuple[str, str, bytes, int], ArchivedCopy] = {}
    for copy in found:  # the oldest first
        message = copy.queue_manager, copy.queue, copy.message_key, copy.occurrence
        before = chosen.get(message)
        if before is None or before.is_provisional or not copy.is_provisional:
            chosen[message] = copy
    kept = {copy.key for copy in chosen.values()}
    return [copy for copy in found if copy.key in kept]


def _of_one_queue(found: list[ArchivedCopy]) -> list[ArchivedCopy]:
    queues = sorted({place(copy.queue, copy.queue_manager) for copy in found})
    if len(queues) > 1:
        raise RestoreError(
            "MQDLQ-707",
            f"the messages named were on several queues ({', '.join(queues)}); restore those of"
            " one queue at a time, such as by their run",
        )
    return found


def _with_reason(found: list[ArchivedCopy], reason: int) -> list[ArchivedCopy]:
    """Keep the copies whose MQDLH gives that reason, and those that do not say."""
    if not reason:
        return found
    kept = _of_reason(found, reason)
    if not kept:
        raise RestoreError(
            "MQDLQ-705",
            f"none of the {len(found)} copies is of a dead letter for {reason_text(reason)}; leave"
            " the reason out, or name another",
        )
    return [copy for copy in found if copy.key in kept]


def _of_reason(found: Sequence[ArchivedCopy], reason: int) -> set[tuple[str, int]]:
    kept = set()
    for each in read(found):
        try:
            is_wanted = each.content is None or dead_letter_header(each.content).reason == reason
        except MalformedHeaderError:
            is_wanted = False
        if is_wanted:
            kept.add(each.copy.key)
    return kept


def _check_target(wanted: Restoration) -> None:
    if wanted.puts_back and not wanted.header:
        raise RestoreError(
            "MQDLQ-708",
            f"without its MQDLH a message is not a dead letter, and {wanted.queue} is a"
            " dead-letter queue; name another queue (to_queue), or keep the header",
        )
    is_here = wanted.to_queue_manager in {"", wanted.queue_manager}
    if is_here and wanted.to_queue == wanted.state_queue:
        raise RestoreError(
            "MQDLQ-710",
            f"{wanted.to_queue} is the handler's state queue, which holds markers only; name"
            " another queue",
        )
