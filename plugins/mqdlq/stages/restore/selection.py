"""List the copies in the archive, and whether each can be restored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from mqdlq.constants import reason_text
from mqdlq.errors import MalformedHeaderError, RestoreError
from mqdlq.handlers import Handler
from mqdlq.lake.archive import Copy
from mqdlq.ledger import Ledger
from mqdlq.ledger.archive import ArchivedCopy
from mqdlq.ledger.tables.messages import CopyState, Restoration
from mqdlq.model import RestorationState
from mqdlq.reasons import Reason, Why
from mqdlq.rules import RulesError, parse
from mqdlq.stages.restore.copies import (
    explain_lost_time,
    explain_provisional_copy,
    explain_pruned_copy,
    explain_repaired_delivery,
    read_archived_copies,
)
from mqdlq.stages.restore.putting import decode_copied_descriptor, decode_copied_header
from mqdlq.stages.units.destinations import Destinations
from mqdlq.words import moment, place

EXPIRY_UNITS_PER_SECOND = 10
"""MQMD.Expiry counts tenths of a second."""


class Restorability(StrEnum):
    """Whether a copy can be restored."""

    RESTORED = "can be restored"
    RESTORED_AGAIN = "restored"
    DOUBTFUL = "may have been restored"
    REPAIRED = "delivered repaired"
    PROVISIONAL = "provisional"
    PRUNED = "pruned"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class ListedCopy:
    """A copy with the facts that `mqdlq restore list` shows.

    `reason` and the destination are from its MQDLH. `length` is the length in bytes of its body
    with its properties. `expiry_s` is its remaining Expiry in seconds at the time of archiving,
    None for unlimited. All of these are None or "" if the copy cannot be read; the MQDLH's are None
    or "" if it has no valid one. `why` says what prevents a restoration, or where the copy was put
    before.
    """

    copy: ArchivedCopy
    restorability: Restorability
    why: Reason | None
    rule_line: int
    reason: int | None = None
    dest_q: str = ""
    dest_q_mgr: str = ""
    length: int | None = None
    expiry_s: float | None = None
    restored_at: datetime | None = None
    restoration_id: str = ""

    @property
    def reason_text(self) -> str:
        """Return the reason as text, "" if the copy cannot be read."""
        if self.reason is None:
            return "" if self.length is None else "no valid MQDLH"
        return reason_text(self.reason)


def sort_newest_first(copies: Sequence[ArchivedCopy]) -> list[ArchivedCopy]:
    """Sort the newest run first; the order within a run stays."""
    latest: dict[str, datetime] = {}
    for copy in copies:
        latest[copy.run_id] = max(latest.get(copy.run_id, copy.at), copy.at)
    return sorted(copies, key=lambda copy: (latest[copy.run_id], copy.run_id), reverse=True)


def list_copies(copies: Sequence[ArchivedCopy], ledger: Ledger) -> Iterator[ListedCopy]:
    """Yield the facts about copies, file by file; each copy is read and its digest is checked."""
    put = ledger.restorations.put_by_others("", [copy.key for copy in copies])
    lines, taken_on = _RuleLines(ledger), ledger.epochs.taken_on()
    for found in read_archived_copies(copies):
        copy = found.copy
        restorability, why = _find_restorability(copy, put.get(copy.key), found.problem)
        if restorability is Restorability.RESTORED and explain_lost_time(copy, taken_on):
            restorability, why = Restorability.DOUBTFUL, Why.RESTORED_IN_LOST_TIME()
        by = put.get(copy.key)
        yield ListedCopy(
            copy,
            restorability,
            why,
            lines.find_line(copy),
            **(_read_fields(found.content) if found.content else {}),
            restored_at=by[1].at if by else None,
            restoration_id=by[0].restoration_id if by else "",
        )


def _find_restorability(
    copy: ArchivedCopy, by: tuple[Restoration, CopyState] | None, problem: Reason | None
) -> tuple[Restorability, Reason | None]:
    if pruned := explain_pruned_copy(copy):
        return Restorability.PRUNED, pruned
    if provisional := explain_provisional_copy(copy):
        return Restorability.PROVISIONAL, provisional
    if by is not None:
        restoration, state = by
        where = place(restoration.to_queue, restoration.to_queue_manager)
        if state.state is RestorationState.RESTORED:
            return Restorability.RESTORED_AGAIN, Why.RESTORED_TO(place=where, at=state.at)
        name = restoration.restoration_id
        return Restorability.DOUBTFUL, Why.PERHAPS_RESTORED_TO(place=where, restoration_id=name)
    if problem:
        return Restorability.UNUSABLE, problem
    delivered = explain_repaired_delivery(copy)
    return (Restorability.REPAIRED if delivered else Restorability.RESTORED), delivered


def _read_fields(content: Copy) -> dict[str, Any]:
    expiry = decode_copied_descriptor(content).expiry
    try:
        header = decode_copied_header(content)
    except MalformedHeaderError:
        of_header: dict[str, Any] = {}
    else:
        of_header = {
            "reason": header.reason,
            "dest_q": header.dest_q_name,
            "dest_q_mgr": header.dest_q_mgr_name,
        }
    return {
        **of_header,
        "length": len(content.body),
        "expiry_s": expiry / EXPIRY_UNITS_PER_SECOND if expiry >= 0 else None,
    }


class _RuleLines:
    """The lines of the rules that discarded messages; each run's table is parsed once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lines_by_run: dict[str, tuple[int, ...]] = {}

    def find_line(self, copy: ArchivedCopy) -> int:
        """Return the line of the rule that discarded the message, 0 if it is unknown."""
        if copy.run_id not in self._lines_by_run:
            self._lines_by_run[copy.run_id] = self._read(copy.run_id)
        lines = self._lines_by_run[copy.run_id]
        return lines[copy.rule - 1] if 0 < copy.rule <= len(lines) else 0

    def _read(self, run_id: str) -> tuple[int, ...]:
        run = self._ledger.runs.get(run_id)
        try:
            return (
                tuple(rule.line for rule in parse(run.rules_text, frozen=True).rules) if run else ()
            )
        except RulesError:  # written in an older language
            return ()


# Select the archived copies that a restore request names, and record the restoration.


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
