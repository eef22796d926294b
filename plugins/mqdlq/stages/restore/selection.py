"""List the copies in the archive, and select those that a person asks to restore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

from mqdlq.constants import reason_text
from mqdlq.errors import MalformedHeaderError, RestoreError
from mqdlq.handlers import Handler
from mqdlq.headers import MessageDescriptor
from mqdlq.lake.archive import Copy
from mqdlq.ledger import Ledger
from mqdlq.ledger.archive import ArchivedCopy
from mqdlq.ledger.tables import CopyState, Restoration
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
from mqdlq.stages.restore.putting import decode_copied_header
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
    taken_on = ledger.epochs.taken_on()

    @cache
    def lines_of(run_id: str) -> tuple[int, ...]:
        run = ledger.runs.get(run_id)
        try:
            rules = parse(run.rules_text, frozen=True).rules if run else ()
        except RulesError:  # written in an older language
            return ()
        return tuple(rule.line for rule in rules)

    for copy, content in read_archived_copies(copies):
        by, lines = put.get(copy.key), lines_of(copy.run_id)
        problem = None if isinstance(content, Copy) else content
        restorability, why = _find_restorability(copy, by, problem)
        if restorability is Restorability.RESTORED and explain_lost_time(copy, taken_on):
            restorability, why = Restorability.DOUBTFUL, Why.RESTORED_IN_LOST_TIME()
        yield ListedCopy(
            copy,
            restorability,
            why,
            lines[copy.rule - 1] if 0 < copy.rule <= len(lines) else 0,
            **(_read_fields(content) if isinstance(content, Copy) else {}),
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
    expiry = MessageDescriptor.decode(content.descriptor).expiry
    found: dict[str, Any] = {
        "length": len(content.body),
        "expiry_s": expiry / EXPIRY_UNITS_PER_SECOND if expiry >= 0 else None,
    }
    with suppress(MalformedHeaderError):
        header = decode_copied_header(content)
        found["reason"] = header.reason
        found["dest_q"], found["dest_q_mgr"] = header.dest_q_name, header.dest_q_mgr_name
    return found


# Select the archived copies that a person asks for, and record the restoration.


_REQUESTED = (
    "handler",
    "run_id",
    "message_keys",
    "reason",
    "to_queue_manager",
    "header",
    "again",
    "dry_run",
)
"""What a person asks for, without the queue, which the selected copies may give."""


def begin_restoration(asked: Restoration, handler: Handler, *, ledger: Ledger) -> Restoration:
    """Select the copies and record the restoration; nothing is put, no queue is opened.

    A restoration that is recorded under this id is returned unchanged: its selection is final.
    Raises RestoreError if the request selects nothing or cannot be carried out, and
    MessageKeyError.
    """
    asked = _with_whole_keys(asked, ledger)
    recorded = ledger.restorations.get(asked.restoration_id)
    if recorded is None:
        wanted, copies = select(asked, handler, ledger=ledger)
        ledger.restorations.record(wanted, copies)
        return wanted
    is_same = all(getattr(recorded, name) == getattr(asked, name) for name in _REQUESTED)
    if not is_same or recorded.to_queue != (asked.to_queue or recorded.queue):
        raise RestoreError(
            "MQDLQ-711",
            f"restoration {asked.restoration_id} is in the ledger with another selection or target,"
            " which never change; start another restoration",
        )
    return recorded


def select(
    asked: Restoration, handler: Handler, *, ledger: Ledger
) -> tuple[Restoration, list[ArchivedCopy]]:
    """Return a requested restoration with its queues, and its copies; nothing is recorded.

    Raises RestoreError if the request selects nothing or cannot be carried out, and
    MessageKeyError.
    """
    asked = _with_whole_keys(asked, ledger)
    if handler.require_reason and not (asked.why or asked.dry_run):
        raise RestoreError(
            "MQDLQ-980",
            f"handler {handler.name} needs a reason for each restoration (require_reason); give the"
            " reason, or the number of a ticket, as the parameter why",
        )
    copies = _select_copies(asked, ledger)
    first = copies[0]
    wanted = replace(
        asked,
        queue_manager=first.queue_manager,
        queue=first.queue,
        to_queue=asked.to_queue or first.queue,
    )
    check_target(wanted)
    return wanted, copies


def _with_whole_keys(asked: Restoration, ledger: Ledger) -> Restoration:
    keys = ledger.message_facts.complete(asked.message_keys, [asked.handler])
    return replace(asked, message_keys=keys)


def _select_copies(request: Restoration, ledger: Ledger) -> list[ArchivedCopy]:
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
        handler=request.handler,
        run_id=request.run_id,
        message_keys=request.message_keys,
    )
    if (pruned := ledger.prunes.pruned_run(request.run_id)) is not None:
        raise RestoreError(
            "MQDLQ-716",
            f"run {request.run_id} was pruned at {moment(pruned.at)} by {pruned.policy} of handler"
            f" {pruned.handler}, and its archive copies before it: nothing can be restored",
        )
    of = f"run {request.run_id}" if request.run_id else f"handler {request.handler}"
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
            f"the archive has no copy by {of} of handler {request.handler}; mqdlq restore list"
            " shows its copies",
        )
    if not request.run_id:
        found = _keep_newest(found)
    found = _keep_reason(found, request.reason)
    queues = sorted({place(copy.queue, copy.queue_manager) for copy in found})
    if len(queues) > 1:
        raise RestoreError(
            "MQDLQ-707",
            f"the messages named were on several queues ({', '.join(queues)}); restore those of"
            " one queue at a time, such as by their run",
        )
    return found


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


def _keep_reason(found: list[ArchivedCopy], reason: int) -> list[ArchivedCopy]:
    """Keep the copies whose MQDLH gives that reason, and the copies that cannot be read."""
    if not reason:
        return found
    kept = set()
    for copy, content in read_archived_copies(found):
        is_wanted = True
        if isinstance(content, Copy):
            try:
                is_wanted = decode_copied_header(content).reason == reason
            except MalformedHeaderError:
                is_wanted = False
        if is_wanted:
            kept.add(copy.key)
    if not kept:
        raise RestoreError(
            "MQDLQ-705",
            f"none of the {len(found)} copies is of a dead letter for {reason_text(reason)}; leave"
            " the reason out, or name another",
        )
    return [copy for copy in found if copy.key in kept]


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
