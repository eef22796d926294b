"""Archived copies in; each with its content, or the reason why it must not be put, out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from mqdlq.lake.archive import Copy, read_copies
from mqdlq.ledger import ArchivedCopy, CopyId, CopyState, Restoration
from mqdlq.model import AttemptState, RestorationState
from mqdlq.stages.report.wording import moment, place


class Found(NamedTuple):
    """A copy as the archive has it; `problem` says why there is no content to trust, if so."""

    copy: ArchivedCopy
    content: Copy | None
    problem: str = ""


def read(copies: Sequence[ArchivedCopy]) -> Iterator[Found]:
    """Yield the copies with their content, file by file, in the order they had on their queue.

    The digest of each is computed anew. What is missing, cannot be read, or is not what was
    archived is yielded without content, the missing ones of a file behind the others.
    """
    for location, group in groupby(copies, key=lambda copy: copy.location):
        wanted = {copy.message_id: copy for copy in group}
        problem = f"its copy is missing: {location} does not hold it"
        try:
            for content in read_copies(location):
                copy = wanted.pop(content.message_id, None)
                if copy is None:
                    continue
                if content.digest == copy.digest:
                    yield Found(copy, content)
                else:
                    yield Found(copy, None, _altered(copy))
        except FileNotFoundError:
            problem = f"its copy is missing: {location} is not there"
        except (OSError, ValueError) as error:  # ValueError: not Parquet
            problem = f"its copy cannot be read from {location}: {error}"
        for copy in wanted.values():
            yield Found(copy, None, problem)


def _altered(copy: ArchivedCopy) -> str:
    return f"its copy in {copy.location} was altered: it is not what the ledger has the digest of"


def why_provisional(copy: ArchivedCopy) -> str:
    """Say why a copy is provisional, "" if it is not: the message may be on its queue."""
    if not copy.is_provisional:
        return ""
    what = {
        AttemptState.INTENDED: "the unit of work that was to discard it is not settled, which the"
        " handler's next run does;",
        AttemptState.UNKNOWN: "nobody knows whether the unit of work that was to discard it took"
        " effect;",
    }.get(copy.discard or AttemptState.FAILED, f"run {copy.run_id} did not discard it;")
    return f"its copy is provisional: {what} the message may still be on {copy.queue}"


def already(by: Restoration) -> str:
    """Return how the refusal of a copy begins that a restoration has put where it puts copies."""
    return f"it was restored to {place(by.to_queue, by.to_queue_manager)} at "


def why_not_again(by: Restoration, state: CopyState) -> str:
    """Say what another restoration has done with a copy, for which it is not put once more."""
    where = place(by.to_queue, by.to_queue_manager)
    if state.state is RestorationState.RESTORED:
        return (
            f"{already(by)}{moment(state.at)} by restoration {by.restoration_id};"
            " again puts it once more"
        )
    if state.state is RestorationState.UNKNOWN:
        return (
            f"restoration {by.restoration_id} may have put it to {where}: look there for its MsgId;"
            " if it is not there, again puts it"
        )
    return f"restoration {by.restoration_id} is about to put it to {where}, or was interrupted"


def refusals(
    copies: Sequence[ArchivedCopy],
    others: Mapping[CopyId, tuple[Restoration, CopyState]],
) -> dict[CopyId, str]:
    """Return why copies must not be put, as far as the ledger says; `others` as `put_by_others`."""
    found = {}
    for copy in copies:
        why = why_provisional(copy)
        if not why and copy.key in others:
            why = why_not_again(*others[copy.key])
        if why:
            found[copy.key] = why
    return found
