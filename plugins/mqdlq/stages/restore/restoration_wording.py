"""Describe a restoration, before and after it, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from mqdlq.constants import reason_text
from mqdlq.ledger import Restoration
from mqdlq.model import RestorationState
from mqdlq.stages.report.wording import count, place
from mqdlq.stages.restore.restoration import RestorationResult

MAX_REASONS = 5
"""How many different reasons are shown; `mqdlq restore list` shows the others."""
OUTCOMES = {
    RestorationState.RESTORED: "restored",
    RestorationState.REFUSED: "refused",
    RestorationState.FAILED: "failed",
    RestorationState.UNKNOWN: "unknown",
    RestorationState.NOT_ATTEMPTED: "not attempted",
}


def describe_target(restoration: Restoration) -> str:
    """Return the target as text, and whether the MQDLH is removed."""
    manager = restoration.to_queue_manager or restoration.queue_manager
    without = "" if restoration.header else ", without the MQDLH"
    return f"{place(restoration.to_queue, manager)}{without}"


def announce(restoration: Restoration, selected: int) -> Iterator[str]:
    """Yield what a restoration will do, and a warning if there is one."""
    of = f" of run {restoration.run_id}" if restoration.run_id else ""
    why = f" for {reason_text(restoration.reason)}" if restoration.reason else ""
    would = "would go" if restoration.dry_run else "goes" if selected == 1 else "go"
    messages = count(selected, "archived message")
    yield f"{messages}{of}{why} {would} to {describe_target(restoration)}"
    if restoration.puts_back:
        yield warn_of_repeated_discard(restoration)


def warn_of_repeated_discard(restoration: Restoration) -> str:
    """Return the warning that messages on the dead-letter queue may be discarded again."""
    return (
        f"the next run of {restoration.handler} meets them again and, by the rules that discarded"
        " them, discards them again: change the rules first, or name another queue"
    )


def describe_result(restoration: Restoration, result: RestorationResult) -> str:
    """Return the result of a restoration: counts, then the reasons why copies were not put."""
    counts = ", ".join(
        f"{result.outcomes[state]} {word}"
        for state, word in OUTCOMES.items()
        if result.outcomes[state]
    )
    lines = [
        f"Restoration {restoration.restoration_id} to {describe_target(restoration)}",
        f"{count(result.total, 'message')}: {counts}",
    ]
    for (state, why), number in result.reasons.most_common(MAX_REASONS):
        lines.append(f"{number} {OUTCOMES[state]}: {why}")
    if (rest := len(result.reasons) - MAX_REASONS) > 0:
        lines.append(f"and {count(rest, 'reason')} more")
    if restoration.puts_back and result.outcomes[RestorationState.RESTORED]:
        lines.append(f"Mind: {warn_of_repeated_discard(restoration)}.")
    return "\n".join(lines)
