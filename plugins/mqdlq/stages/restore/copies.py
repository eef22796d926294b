"""Read archived copies, and find the reasons why copies must not be restored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from mqdlq.errors import LakeError
from mqdlq.lake.archive import Copy, read_copies
from mqdlq.lake.files import MissingFileError
from mqdlq.ledger import ArchivedCopy, CopyId, CopyState, Epoch, Restoration
from mqdlq.model import AttemptState, RestorationState
from mqdlq.stages.report.wording import moment, place


class ReadCopy(NamedTuple):
    """A copy read from the archive; `problem` says why its content is missing or unreliable."""

    copy: ArchivedCopy
    content: Copy | None
    problem: str = ""


def read_archived_copies(copies: Sequence[ArchivedCopy]) -> Iterator[ReadCopy]:
    """Yield the copies with their content, file by file, in the order of their original queue.

    The digest of each copy is computed and compared. A copy that was pruned, or is missing,
    unreadable or altered, is yielded without content; missing copies of a file come last.
    """
    for location, group in groupby(copies, key=lambda copy: copy.location):
        pruned, rest = [], {}
        for copy in group:
            if why := explain_pruned_copy(copy):
                pruned.append(ReadCopy(copy, None, why))
            else:
                rest[copy.message_id] = copy
        yield from pruned
        if rest:
            yield from _read_file(location, rest)


def _read_file(location: str, wanted: dict[int, ArchivedCopy]) -> Iterator[ReadCopy]:
    problem = f"its copy is missing: {location} does not hold it"
    try:
        for content in read_copies(location):
            copy = wanted.pop(content.message_id, None)
            if copy is None:
                continue
            if content.digest == copy.digest:
                yield ReadCopy(copy, content)
            else:
                yield ReadCopy(copy, None, _describe_altered_copy(copy))
    except MissingFileError:
        problem = f"its copy is missing: {location} is not there"
    except LakeError as error:
        problem = f"its copy cannot be read: {error.text}"
    for copy in wanted.values():
        yield ReadCopy(copy, None, problem)


def _describe_altered_copy(copy: ArchivedCopy) -> str:
    return f"its copy in {copy.location} was altered: it is not what the ledger has the digest of"


def explain_pruned_copy(copy: ArchivedCopy) -> str:
    """Return when and by which policy a copy was pruned, "" if it was not."""
    if copy.pruned_at is None:
        return ""
    policy = f"{copy.pruned_by} of handler {copy.handler}"
    return f"its copy was pruned at {moment(copy.pruned_at)} by {policy}"


def explain_provisional_copy(copy: ArchivedCopy) -> str:
    """Return why a copy is provisional, that is, its message may still be on its queue, or ""."""
    if not copy.is_provisional:
        return ""
    discard = "discard it" if copy.repair is None else "deliver it repaired"
    what = {
        AttemptState.INTENDED: f"the unit of work that was to {discard} is not settled, which the"
        " handler's next run does;",
        AttemptState.UNKNOWN: f"nobody knows whether the unit of work that was to {discard} took"
        " effect;",
    }.get(copy.move or AttemptState.FAILED, f"run {copy.run_id} did not {discard};")
    return f"its copy is provisional: {what} the message may still be on {copy.queue}"


def describe_repaired_delivery(copy: ArchivedCopy) -> str:
    """Return where and when the message was delivered repaired, "" if it was not."""
    if copy.repair is None or copy.is_provisional or copy.moved_at is None:
        return ""
    where = place(copy.repair.target_q, copy.repair.target_q_mgr)
    return f"to {where} at {moment(copy.moved_at)} by run {copy.run_id}"


def _explain_repaired(copy: ArchivedCopy) -> str:
    """Return why the original of a message that was delivered repaired is not put, or ""."""
    delivered = describe_repaired_delivery(copy)
    return delivered and (
        f"it was delivered repaired {delivered}, so that its original would be a second message;"
        " again puts the original, too"
    )


def describe_earlier_restoration(by: Restoration) -> str:
    """Return the first words of the refusal of a copy that was restored to the same queue."""
    return f"it was restored to {place(by.to_queue, by.to_queue_manager)} at "


def explain_no_repeat(by: Restoration, state: CopyState) -> str:
    """Return why a copy is not put again after another restoration has put it, or may have."""
    where = place(by.to_queue, by.to_queue_manager)
    if state.state is RestorationState.RESTORED:
        return (
            f"{describe_earlier_restoration(by)}{moment(state.at)} by restoration"
            f" {by.restoration_id}; again puts it once more"
        )
    if state.state is RestorationState.UNKNOWN:
        return (
            f"restoration {by.restoration_id} may have put it to {where}: look there for its MsgId;"
            " if it is not there, again puts it"
        )
    return f"restoration {by.restoration_id} is about to put it to {where}, or was interrupted"


def explain_lost_time(copy: ArchivedCopy, taken_on: Epoch | None) -> str:
    """Return why nobody knows whether a copy was put before an older ledger was taken on, or ""."""
    if taken_on is None or copy.at > taken_on.began_at:
        return ""
    return (
        f"the ledger was restored from an older copy and taken on at {moment(taken_on.began_at)}: a"
        " restoration that it lost may have put the message, so look for its MsgId; if it was not"
        " put, another restoration with again puts it"
    )


def find_refusals(
    copies: Sequence[ArchivedCopy],
    others: Mapping[CopyId, tuple[Restoration, CopyState]],
    restoration: Restoration,
    taken_on: Epoch | None,
) -> dict[CopyId, str]:
    """Return why the ledger refuses copies; `others` is from `put_by_others`.

    If the restoration says again, a copy is put although its message was restored before, delivered
    repaired, or perhaps put in the time that an older ledger lost. Until it was asked for again, a
    restoration from before that loss puts nothing.
    """
    is_lost = taken_on is not None and restoration.started_at < taken_on.began_at
    found = {}
    for copy in copies:
        why = explain_pruned_copy(copy) or explain_provisional_copy(copy)
        if not why and (is_lost or not restoration.again):
            why = _explain_repaired(copy) or explain_lost_time(copy, taken_on)
            if copy.key in others:
                why = explain_no_repeat(*others[copy.key])
        if why:
            found[copy.key] = why
    return found
