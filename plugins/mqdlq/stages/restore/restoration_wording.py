"""Restorations in words: what one is about to do, and what it has come to, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from mqdlq.constants import reason_text
from mqdlq.ledger import Restoration
from mqdlq.model import RestorationState
from mqdlq.stages.report.wording import count, place
from mqdlq.stages.restore.restoration import Result

MANY = 5
"""How many different reasons are told; the rest are in `mqdlq restore list`."""
OUTCOMES = {
    RestorationState.RESTORED: "restored",
    RestorationState.REFUSED: "refused",
    RestorationState.FAILED: "failed",
    RestorationState.UNKNOWN: "unknown",
    RestorationState.NOT_ATTEMPTED: "not attempted",
}


def where_to(restoration: Restoration) -> str:
    """Return the target as people write it, and that the MQDLH is taken off, if so."""
    manager = restoration.to_queue_manager or restoration.queue_manager
    without = "" if restoration.header else ", without the MQDLH"
    return f"{place(restoration.to_queue, manager)}{without}"


def announced(restoration: Restoration, selected: int) -> Iterator[str]:
    """Yield what a restoration is about to do, and what a person should know before."""
    of = f" of run {restoration.run_id}" if restoration.run_id else ""
    why = f" for {reason_text(restoration.reason)}" if restoration.reason else ""
    would = "would go" if restoration.dry_run else "go"
    messages = count(selected, "archived message")
    yield f"{messages}{of}{why} {would} to {where_to(restoration)}"
    if restoration.puts_back:
        yield warning(restoration)


def warning(restoration: Restoration) -> str:
    """Say what becomes of messages that are put back on the dead-letter queue."""
    return (
        f"the next run of {restoration.handler} meets them anew and, by the rules that discarded"
        " them, discards them again: change the rules first, or name another queue"
    )


def told(restoration: Restoration, result: Result) -> str:
    """Return how a restoration ended: counts, then the reasons of what was not put."""
    counts = ", ".join(
        f"{result.outcomes[state]} {word}"
        for state, word in OUTCOMES.items()
        if result.outcomes[state]
    )
    lines = [
        f"Restoration {restoration.restoration_id} to {where_to(restoration)}",
        f"{count(result.total, 'message')}: {counts}",
    ]
    for (state, why), number in result.reasons.most_common(MANY):
        lines.append(f"{number} {OUTCOMES[state]}: {why}")
    if (rest := len(result.reasons) - MANY) > 0:
        lines.append(f"and {count(rest, 'reason')} more")
    if restoration.puts_back and result.outcomes[RestorationState.RESTORED]:
        lines.append(f"Mind: {warning(restoration)}.")
    return "\n".join(lines)
