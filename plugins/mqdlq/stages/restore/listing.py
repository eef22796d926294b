"""List the copies in the archive, and whether each can be restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from mqdlq.constants import reason_text
from mqdlq.errors import MalformedHeaderError
from mqdlq.lake.archive import Copy
from mqdlq.ledger import ArchivedCopy, CopyState, Ledger, Restoration
from mqdlq.model import RestorationState
from mqdlq.rules import RulesError, parse
from mqdlq.stages.report.wording import moment, place
from mqdlq.stages.restore.copies import (
    describe_repaired_delivery,
    explain_lost_time,
    explain_provisional_copy,
    explain_pruned_copy,
    read_archived_copies,
)
from mqdlq.stages.restore.dead_letter_headers import decode_copied_descriptor, decode_copied_header

_LOST = "before an older copy of the ledger was restored"
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
    why: str
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
            restorability, why = Restorability.DOUBTFUL, _LOST
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
    copy: ArchivedCopy, by: tuple[Restoration, CopyState] | None, problem: str
) -> tuple[Restorability, str]:
    if pruned := explain_pruned_copy(copy):
        return Restorability.PRUNED, pruned
    if provisional := explain_provisional_copy(copy):
        return Restorability.PROVISIONAL, provisional
    if by is not None:
        restoration, state = by
        where = place(restoration.to_queue, restoration.to_queue_manager)
        if state.state is RestorationState.RESTORED:
            return Restorability.RESTORED_AGAIN, f"to {where} at {moment(state.at)}"
        return Restorability.DOUBTFUL, f"to {where}, by restoration {restoration.restoration_id}"
    if problem:
        return Restorability.UNUSABLE, problem
    delivered = describe_repaired_delivery(copy)
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
