"""Select the archived copies that a restore request names, and record the restoration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mqdlq.constants import reason_text
from mqdlq.errors import MalformedHeaderError, RestoreError
from mqdlq.handlers import Handler
from mqdlq.ledger import ArchivedCopy, Ledger, Restoration
from mqdlq.stages.report.wording import moment, place
from mqdlq.stages.restore.copies import read_archived_copies
from mqdlq.stages.restore.dead_letter_headers import decode_copied_header
from mqdlq.stages.units.destinations import Destinations


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """Which messages to restore, and to which queue.

    The request selects copies of the handler: those of `run_id` ("" for the last run that discarded
    a message), of the messages in `message_keys` (hex; empty for all) that were dead letters for
    `reason` (0 for any). An empty `to_queue` means their original dead-letter queue. `header` keeps
    the MQDLH; `again` also puts copies that were restored before.
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
    why: str = ""


def begin_restoration(
    restoration_id: str,
    handler: Handler,
    request: RestoreRequest,
    *,
    ledger: Ledger,
    clock: Callable[[], datetime],
) -> Restoration:
    """Select the copies and record the restoration; nothing is put, no queue is opened.

    A restoration that is recorded under this id is returned unchanged: its selection is final.
    Raises RestoreError if the request selects nothing or cannot be carried out, and
    MessageKeyError.
    """
    recorded = ledger.restorations.get(restoration_id)
    request = _with_whole_keys(handler, request, ledger)
    if recorded is None:
        wanted, copies = select(restoration_id, handler, request, ledger=ledger, now=clock())
        ledger.restorations.record(wanted, copies)
        return wanted
    if not _is_same_request(recorded, handler, request):
        raise RestoreError(
            "MQDLQ-711",
            f"restoration {restoration_id} is in the ledger with another selection or target,"
            " which never change; start another restoration",
        )
    return recorded


def select(
    restoration_id: str,
    handler: Handler,
    request: RestoreRequest,
    *,
    ledger: Ledger,
    now: datetime,
) -> tuple[Restoration, list[ArchivedCopy]]:
    """Return the restoration that a request asks for, and its copies; nothing is recorded.

    Raises RestoreError if the request selects nothing or cannot be carried out, and
    MessageKeyError.
    """
    request = _with_whole_keys(handler, request, ledger)
    if handler.require_reason and not (request.why or request.dry_run):
        raise RestoreError(
            "MQDLQ-980",
            f"handler {handler.name} needs a reason for each restoration (require_reason); give the"
            " reason, or the number of a ticket, as the parameter why",
        )
    copies = _select_copies(handler, request, ledger)
    wanted = _build_restoration(restoration_id, handler, request, copies[0], now)
    check_target(wanted)
    return wanted, copies


def _with_whole_keys(handler: Handler, request: RestoreRequest, ledger: Ledger) -> RestoreRequest:
    keys = ledger.message_keys.complete(request.message_keys, [handler.name])
    return replace(request, message_keys=keys)


def _is_same_request(recorded: Restoration, handler: Handler, request: RestoreRequest) -> bool:
    if recorded.handler != handler.name:
        return False
    same = ("run_id", "message_keys", "reason", "header", "again", "dry_run")
    target = request.to_queue or recorded.queue, request.to_queue_manager
    is_same_target = target == (recorded.to_queue, recorded.to_queue_manager)
    return is_same_target and all(getattr(recorded, n) == getattr(request, n) for n in same)


def _build_restoration(
    restoration_id: str,
    handler: Handler,
    request: RestoreRequest,
    first: ArchivedCopy,
    now: datetime,
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
        why=request.why,
    )


def _select_copies(handler: Handler, request: RestoreRequest, ledger: Ledger) -> list[ArchivedCopy]:
    """Return the requested copies, all of one queue; raises RestoreError."""
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
    if (pruned := ledger.prunes.pruned_run(request.run_id)) is not None:
        raise RestoreError(
            "MQDLQ-716",
            f"run {pruned.run_id} was pruned at {moment(pruned.at)} by {pruned.policy} of handler"
            f" {pruned.handler}, and its archive copies before it: nothing can be restored",
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
        found = _keep_newest(found)
    return _require_one_queue(_keep_reason(found, request.reason))


def _keep_newest(found: list[ArchivedCopy]) -> list[ArchivedCopy]:
    """Return one copy of each message: the newest that can be restored.

    A message has several copies if it came back and was discarded again, or if one run copied it
    and another run discarded it.
    """
    chosen: dict[tuple[str, str, bytes, int], ArchivedCopy] = {}
    for copy in found:  # the oldest first
        message = copy.queue_manager, copy.queue, copy.message_key, copy.occurrence
        before = chosen.get(message)
        if before is None or copy.can_be_restored or not before.can_be_restored:
            chosen[message] = copy
    kept = {copy.key for copy in chosen.values()}
    return [copy for copy in found if copy.key in kept]


def _require_one_queue(found: list[ArchivedCopy]) -> list[ArchivedCopy]:
    queues = sorted({place(copy.queue, copy.queue_manager) for copy in found})
    if len(queues) > 1:
        raise RestoreError(
            "MQDLQ-707",
            f"the messages named were on several queues ({', '.join(queues)}); restore those of"
            " one queue at a time, such as by their run",
        )
    return found


def _keep_reason(found: list[ArchivedCopy], reason: int) -> list[ArchivedCopy]:
    """Keep the copies whose MQDLH gives that reason, and the copies that cannot be read."""
    if not reason:
        return found
    kept = _find_keys_with_reason(found, reason)
    if not kept:
        raise RestoreError(
            "MQDLQ-705",
            f"none of the {len(found)} copies is of a dead letter for {reason_text(reason)}; leave"
            " the reason out, or name another",
        )
    return [copy for copy in found if copy.key in kept]


def _find_keys_with_reason(found: Sequence[ArchivedCopy], reason: int) -> set[tuple[str, int]]:
    kept = set()
    for each in read_archived_copies(found):
        try:
            is_wanted = each.content is None or decode_copied_header(each.content).reason == reason
        except MalformedHeaderError:
            is_wanted = False
        if is_wanted:
            kept.add(each.copy.key)
    return kept


def check_target(wanted: Restoration, destinations: Destinations | None = None) -> None:
    """Raise RestoreError for a target that takes no such copies; aliases need `destinations`."""
    target, via = wanted.to_queue, ""
    if destinations is not None:
        queues = (wanted.state_queue, wanted.queue)
        target = destinations.find_own((target, wanted.to_queue_manager), queues) or target
        via = f" ({wanted.to_queue} leads there)" if target != wanted.to_queue else ""
    is_here = bool(via) or wanted.to_queue_manager in {"", wanted.queue_manager}
    if is_here and target == wanted.queue and not wanted.header:
        raise RestoreError(
            "MQDLQ-708",
            f"without its MQDLH a message is not a dead letter, and {wanted.queue}{via} is a"
            " dead-letter queue; name another queue (to_queue), or keep the header",
        )
    if is_here and target == wanted.state_queue:
        raise RestoreError(
            "MQDLQ-710",
            f"{target}{via} is the handler's state queue, which holds markers only; name another"
            " queue",
        )
