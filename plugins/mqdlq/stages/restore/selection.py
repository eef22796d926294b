"""Read archived copies, say which of them must not be restored, list them, and select them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from itertools import groupby

from mqdlq import headers
from mqdlq.constants import reason_text
from mqdlq.errors import LakeError, MalformedHeaderError, RestoreError
from mqdlq.handlers import Handler
from mqdlq.headers import DeadLetterHeader, MessageDescriptor, RulesHeader2
from mqdlq.headers.chain import ChainedHeader
from mqdlq.lake.archive import Copy, read_copies
from mqdlq.lake.files import MissingFileError
from mqdlq.ledger import Ledger
from mqdlq.ledger.archive import ArchivedCopy
from mqdlq.ledger.tables import CopyId, CopyState, Epoch, Restoration
from mqdlq.model import AttemptState, RestorationState
from mqdlq.reasons import Reason, Why
from mqdlq.rules import check
from mqdlq.stages.units.destinations import Destinations
from mqdlq.words import moment, place

EXPIRY_UNITS_PER_SECOND = 10
"""MQMD.Expiry counts tenths of a second."""

ReadCopy = tuple[ArchivedCopy, Copy | Reason]
"""A copy and its content, or why its content is missing or unreliable."""


def read_archived_copies(copies: Sequence[ArchivedCopy]) -> Iterator[ReadCopy]:
    """Yield the copies with their content, file by file, in the order of their original queue.

    The digest of each copy is computed and compared. A copy that was pruned, or is missing,
    unreadable or altered, is yielded with the reason; missing copies of a file come last.
    """
    for location, group in groupby(copies, key=lambda copy: copy.location):
        rest = {}
        for copy in group:
            if why := explain_pruned_copy(copy):
                yield copy, why
            else:
                rest[copy.message_id] = copy
        if rest:
            yield from _read_file(location, rest)


def _read_file(location: str, wanted: dict[int, ArchivedCopy]) -> Iterator[ReadCopy]:
    problem = Why.COPY_NOT_IN_FILE(location=location)
    try:
        for content in read_copies(location):
            copy = wanted.pop(content.message_id, None)
            if copy is not None:
                is_intact = content.digest == copy.digest
                yield copy, content if is_intact else Why.COPY_ALTERED(location=copy.location)
    except MissingFileError:
        problem = Why.COPY_FILE_MISSING(location=location)
    except LakeError as error:
        problem = Why.COPY_UNREADABLE(error=error.text)
    for copy in wanted.values():
        yield copy, problem


def explain_pruned_copy(copy: ArchivedCopy) -> Reason | None:
    if copy.pruned_at is None:
        return None
    return Why.COPY_PRUNED(at=copy.pruned_at, policy=copy.pruned_by, handler=copy.handler)


def _explain_provisional_copy(copy: ArchivedCopy) -> Reason | None:
    """Return why the message of a copy may still be on its queue, or None."""
    if not copy.is_provisional:
        return None
    is_repaired = copy.repair is not None
    if copy.move is AttemptState.INTENDED:
        return Why.MOVE_NOT_SETTLED(is_repaired=is_repaired, queue=copy.queue)
    if copy.move is AttemptState.UNKNOWN:
        return Why.MOVE_UNKNOWN(is_repaired=is_repaired, queue=copy.queue)
    return Why.MOVE_NOT_MADE(run_id=copy.run_id, is_repaired=is_repaired, queue=copy.queue)


def _explain_repaired_delivery(copy: ArchivedCopy) -> Reason | None:
    if copy.repair is None or copy.is_provisional or copy.moved_at is None:
        return None
    where = place(copy.repair.target_q, copy.repair.target_q_mgr)
    return Why.DELIVERED_TO(place=where, at=copy.moved_at, run_id=copy.run_id)


def explain_no_repeat(by: Restoration, state: CopyState) -> Reason:
    where, name = place(by.to_queue, by.to_queue_manager), by.restoration_id
    if state.state is RestorationState.RESTORED:
        return Why.RESTORED_BEFORE(place=where, at=state.at, restoration_id=name)
    if state.state is RestorationState.UNKNOWN:
        return Why.PERHAPS_RESTORED_BEFORE(restoration_id=name, place=where)
    return Why.BEING_RESTORED(restoration_id=name, place=where)


def _explain_lost_time(copy: ArchivedCopy, taken_on: Epoch | None) -> Reason | None:
    """Return why nobody knows whether a copy was put in a time that the ledger lost, or None."""
    if taken_on is None or copy.at > taken_on.began_at:
        return None
    return Why.RESTORATION_LOST(at=taken_on.began_at)


def find_refusals(
    copies: Sequence[ArchivedCopy], restoration: Restoration, ledger: Ledger
) -> dict[CopyId, Reason]:
    """Return why the ledger refuses copies.

    If the restoration says again, a copy is put although its message was restored before, delivered
    repaired, or perhaps put in the time that an older ledger lost. Until it was asked for again, a
    restoration from before that loss puts nothing.
    """
    others = ledger.restorations.put_by_others(
        restoration.restoration_id, [copy.key for copy in copies]
    )
    taken_on = ledger.epochs.taken_on()
    is_lost = taken_on is not None and restoration.started_at < taken_on.began_at
    found = {}
    for copy in copies:
        why = explain_pruned_copy(copy) or _explain_provisional_copy(copy)
        if not why and (is_lost or not restoration.again):
            if copy.key in others:
                why = explain_no_repeat(*others[copy.key])
            elif delivered := _explain_repaired_delivery(copy):
                why = Why.REPAIRED_BEFORE(delivered=delivered)
            else:
                why = _explain_lost_time(copy, taken_on)
        if why:
            found[copy.key] = why
    return found


def decode_copied_header(copy: Copy) -> DeadLetterHeader:
    """Return the MQDLH of a copy; raises MalformedHeaderError if it has none."""
    _, offset, encoding, ccsid = locate_header(copy)
    return DeadLetterHeader.decode(copy.body[offset:], encoding=encoding, ccsid=ccsid)


def locate_header(copy: Copy) -> tuple[tuple[RulesHeader2, ChainedHeader] | None, int, int, int]:
    """Return the MQRFH2 before the MQDLH, and the offset, Encoding and CCSID of the MQDLH.

    A copy of a message with properties begins with an MQRFH2 that holds them (see `mqi.browse`).
    """
    md = MessageDescriptor.decode(copy.descriptor)
    encoding, ccsid = md.encoding, md.coded_char_set_id
    chain = headers.walk(copy.body, len(copy.body), **md.following)
    preceding, offset = None, 0
    for header in chain.headers:
        if not isinstance(header.record, RulesHeader2):
            break
        preceding, offset = (header.record, header), header.offset + header.length
        encoding = header.record.encoding
        ccsid = headers.following_ccsid(header.record.coded_char_set_id, header.ccsid)
    return preceding, offset, encoding, ccsid


class Restorability(StrEnum):
    """Whether a copy can be restored."""

    RESTORED = "can be restored"
    RESTORED_AGAIN = "restored"
    DOUBTFUL = "may have been restored"
    REPAIRED = "delivered repaired"
    PROVISIONAL = "provisional"
    PRUNED = "pruned"
    UNUSABLE = "unusable"


@dataclass(slots=True)
class ListedCopy:
    """A copy with the facts that `mqdlq restore list` shows.

    `why` says what prevents a restoration, or where the copy was put before. `length` is the length
    in bytes of its body with its properties, `expiry_s` its remaining Expiry in seconds at the time
    of archiving, None for unlimited. `reason` and the destination are from its MQDLH. What cannot
    be read is None or "".
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
    """Yield the facts about copies, file by file; each copy is read, and its digest is checked."""
    put = ledger.restorations.put_by_others("", [copy.key for copy in copies])
    taken_on = ledger.epochs.taken_on()

    @cache
    def lines_of(run_id: str) -> tuple[int, ...]:
        run = ledger.runs.get(run_id)
        table = check(run.rules_text, frozen=True).table if run else None
        return tuple(rule.line for rule in table.rules) if table else ()

    for copy, content in read_archived_copies(copies):
        by, lines = put.get(copy.key), lines_of(copy.run_id)
        problem = None if isinstance(content, Copy) else content
        restorability, why = _find_restorability(copy, by, problem)
        if restorability is Restorability.RESTORED and _explain_lost_time(copy, taken_on):
            restorability, why = Restorability.DOUBTFUL, Why.RESTORED_IN_LOST_TIME()
        line = lines[copy.rule - 1] if 0 < copy.rule <= len(lines) else 0
        listed = ListedCopy(copy, restorability, why, line)
        if by:
            listed.restoration_id, listed.restored_at = by[0].restoration_id, by[1].at
        if isinstance(content, Copy):
            expiry = MessageDescriptor.decode(content.descriptor).expiry
            listed.length = len(content.body)
            listed.expiry_s = expiry / EXPIRY_UNITS_PER_SECOND if expiry >= 0 else None
            with suppress(MalformedHeaderError):
                header = decode_copied_header(content)
                listed.reason, listed.dest_q = header.reason, header.dest_q_name
                listed.dest_q_mgr = header.dest_q_mgr_name
        yield listed


def _find_restorability(
    copy: ArchivedCopy, by: tuple[Restoration, CopyState] | None, problem: Reason | None
) -> tuple[Restorability, Reason | None]:
    if pruned := explain_pruned_copy(copy):
        return Restorability.PRUNED, pruned
    if provisional := _explain_provisional_copy(copy):
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
    delivered = _explain_repaired_delivery(copy)
    return (Restorability.REPAIRED if delivered else Restorability.RESTORED), delivered


# Select the archived copies that a person asks for, and record the restoration.


def begin_restoration(asked: Restoration, handler: Handler, *, ledger: Ledger) -> Restoration:
    """Select the copies and record the restoration; nothing is put, no queue is opened.

    A restoration that is recorded under this id is returned unchanged: its selection is final.
    Raises RestoreError if the request selects nothing or cannot be carried out, and
    MessageKeyError.
    """
    recorded = ledger.restorations.get(asked.restoration_id)
    if recorded is None:
        wanted, copies = select(asked, handler, ledger=ledger)
        ledger.restorations.record(wanted, copies)
        return wanted
    # The request, but for who asked when, and with the queues that the selected copies gave it.
    same = replace(
        _with_whole_keys(asked, ledger),
        who=recorded.who,
        why=recorded.why,
        started_at=recorded.started_at,
        state_queue=recorded.state_queue,
        queue_manager=recorded.queue_manager,
        queue=recorded.queue,
        to_queue=asked.to_queue or recorded.queue,
    )
    if same != recorded:
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

    Raises what `begin_restoration` raises.
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
        handler=request.handler, run_id=request.run_id, message_keys=request.message_keys
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
        with suppress(MalformedHeaderError):
            if isinstance(content, Reason) or decode_copied_header(content).reason == reason:
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
