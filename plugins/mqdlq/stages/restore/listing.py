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
from mqdlq.stages.restore.copies import read, why_provisional
from mqdlq.stages.restore.dead_letter_headers import dead_letter_header, descriptor_of

TENTHS = 10
"""MQMD.Expiry counts tenths of a second."""


class CanBe(StrEnum):
    """Whether a copy can be restored."""

    RESTORED = "can be restored"
    RESTORED_AGAIN = "restored"
    DOUBTFUL = "may have been restored"
    PROVISIONAL = "provisional"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Listed:
    """A copy as a person wants to know it.

    `reason` and the destination are those of its MQDLH, `length` its body's in bytes with what
    properties take, `expiry_s` what was left of its Expiry in seconds when it was archived, None
    for unlimited; all of them None or "" where the copy cannot be read, and those of the MQDLH
    where there is no valid one. `why` says what keeps it from being restored, or where it went
    before.
    """

    copy: ArchivedCopy
    can_be: CanBe
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
        """Return the reason as people read it, "" where the copy cannot be read."""
        if self.reason is None:
            return "" if self.length is None else "no valid MQDLH"
        return reason_text(self.reason)


def newest_first(copies: Sequence[ArchivedCopy]) -> list[ArchivedCopy]:
    """Put the newest run first; within a run the order stays."""
    latest: dict[str, datetime] = {}
    for copy in copies:
        latest[copy.run_id] = max(latest.get(copy.run_id, copy.at), copy.at)
    return sorted(copies, key=lambda copy: (latest[copy.run_id], copy.run_id), reverse=True)


def listed(copies: Sequence[ArchivedCopy], ledger: Ledger) -> Iterator[Listed]:
    """Yield what is to be known of copies, file by file; each is read, and its digest checked."""
    put = ledger.restorations.put_by_others("", [copy.key for copy in copies])
    lines = _Lines(ledger)
    for found in read(copies):
        copy = found.copy
        can_be, why = _state(copy, put.get(copy.key), found.problem)
        by = put.get(copy.key)
        yield Listed(
            copy,
            can_be,
            why,
            lines.of(copy),
            **(_seen(found.content) if found.content else {}),
            restored_at=by[1].at if by else None,
            restoration_id=by[0].restoration_id if by else "",
        )


def _state(
    copy: ArchivedCopy, by: tuple[Restoration, CopyState] | None, problem: str
) -> tuple[CanBe, str]:
    if provisional := why_provisional(copy):
        return CanBe.PROVISIONAL, provisional
    if by is not None:
        restoration, state = by
        where = place(restoration.to_queue, restoration.to_queue_manager)
        if state.state is RestorationState.RESTORED:
            return CanBe.RESTORED_AGAIN, f"to {where} at {moment(state.at)}"
        return CanBe.DOUBTFUL, f"to {where}, by restoration {restoration.restoration_id}"
    if problem:
        return CanBe.UNUSABLE, problem
    return CanBe.RESTORED, ""


def _seen(content: Copy) -> dict[str, Any]:
    expiry = descriptor_of(content).expiry
    try:
        header = dead_letter_header(content)
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
        "expiry_s": expiry / TENTHS if expiry >= 0 else None,
    }


class _Lines:
    """The lines of the rules that discarded messages, each run's table read once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, tuple[int, ...]] = {}

    def of(self, copy: ArchivedCopy) -> int:
        """Return the line of the rule that discarded the message, 0 where there is none."""
        if copy.run_id not in self._known:
            self._known[copy.run_id] = self._read(copy.run_id)
        lines = self._known[copy.run_id]
        return lines[copy.rule - 1] if 0 < copy.rule <= len(lines) else 0

    def _read(self, run_id: str) -> tuple[int, ...]:
        run = self._ledger.runs.get(run_id)
        try:
            return tuple(rule.line for rule in parse(run.rules_text).rules) if run else ()
        except RulesError:  # of an older language
            return ()
