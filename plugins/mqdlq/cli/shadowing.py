"""What our rules said of a queue's messages and where they are now in; who agrees with whom out.

Another handler, `runmqdlq` as a rule, handled the queue between two snapshots. What it did is known
from where the messages are: on the queue still, on a queue they could be meant for, or on neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mqdlq.model import Action, MessageClass, Step
from mqdlq.plan import TARGET_COLUMNS, resolve, steps_for
from mqdlq.rules import RulesTable, with_nuls_as_blanks

SAMPLES: Final = 5
IDENTITY: Final = ("msg_id", "correl_id", "put_date", "put_time", "put_appl_name")
"""What a message keeps when it is put with all its context, whatever becomes of its headers."""

Row = Mapping[str, Any]


class Verdict(StrEnum):
    """Whether what happened is what our rules said."""

    AGREES = "agrees"
    DIFFERS = "differs"
    OPEN = "open"


@dataclass(slots=True)
class Finding:
    """The messages of which the same was said and to which the same happened."""

    verdict: Verdict
    said: str
    happened: str
    messages: int = 0
    samples: list[int] = field(default_factory=list)
    """The first few, by their browse_seq in the first snapshot."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """What a comparison came to; `arrived` counts what is on the queue only now."""

    findings: tuple[Finding, ...]
    arrived: int

    def messages(self, verdict: Verdict) -> int:
        """Return how many messages a verdict is about."""
        return sum(found.messages for found in self.findings if found.verdict is verdict)


def columns_needed(table: RulesTable) -> list[str]:
    """Name the columns of the first snapshot that are read."""
    own = ("browse_seq", "class", "message_key", "expires_at")
    return sorted({*own, *IDENTITY, *table.columns, *TARGET_COLUMNS})


class Whereabouts:
    """Where messages are after the other handler was at work."""

    def __init__(
        self, still: Iterable[Row], arrivals: Mapping[str, Iterable[Row]], seen_at: datetime
    ) -> None:
        """Take the rows of the second snapshot, and of the queues browsed, by their names."""
        self.queues = frozenset(arrivals)
        self.seen_at = seen_at
        self._still = Counter(row["message_key"] for row in still)
        self._arrived: dict[tuple[Any, ...], list[str]] = {}
        for queue, rows in arrivals.items():
            for row in rows:
                self._arrived.setdefault(_identity(row), []).append(queue)

    @property
    def left_over(self) -> int:
        """Return how many messages on the queue nobody has asked for."""
        return self._still.total()

    def is_still_there(self, row: Row) -> bool:
        """Take one of the messages with this key off the account, if one is left."""
        there = self._still[row["message_key"]] > 0
        if there:
            self._still[row["message_key"]] -= 1
        return there

    def arrived_on(self, row: Row) -> str | None:
        """Take one of the messages with this identity off the account; return its queue."""
        queues = self._arrived.get(_identity(row))
        return queues.pop(0) if queues else None


def compare(
    table: RulesTable, rows: Iterable[Row], now: Whereabouts, *, nul_as_blank: bool = False
) -> Shadow:
    """Ask the rules about each message of the first snapshot, and see where it is now."""
    found: dict[tuple[str, ...], Finding] = {}
    for row in rows:
        steps = tuple(_steps(table, row, nul_as_blank=nul_as_blank))
        verdict, happened = _judge(steps, row, now)
        said = _said(steps, row)
        finding = found.setdefault((verdict, said, happened), Finding(verdict, said, happened))
        finding.messages += 1
        if len(finding.samples) < SAMPLES:
            finding.samples.append(row["browse_seq"])
    order = list(Verdict)
    findings = sorted(found.values(), key=lambda f: (-order.index(f.verdict), -f.messages))
    worst_first = sorted(findings, key=lambda f: f.verdict is not Verdict.DIFFERS)
    return Shadow(tuple(worst_first), now.left_over)


def _steps(table: RulesTable, row: Row, *, nul_as_blank: bool) -> Iterator[Step]:
    if row["class"] == MessageClass.DEAD_LETTER:
        values = with_nuls_as_blanks(row) if nul_as_blank else row
        for template in steps_for(table, values):
            yield resolve(template, row)


def _said(steps: Sequence[Step], row: Row) -> str:
    if row["class"] != MessageClass.DEAD_LETTER:
        return "leave it: no valid MQDLH"
    words = (
        f"{step.action} to {step.target_q}" if step.target_q else step.action for step in steps
    )
    return ", then ".join(words) or "leave it: no rule"


def _judge(steps: Sequence[Step], row: Row, now: Whereabouts) -> tuple[Verdict, str]:
    wish = steps[0].action if steps else Action.IGNORE
    if now.is_still_there(row):
        return _WISH_STILL_THERE[wish]
    targets = sorted({step.target_q for step in steps if step.target_q})
    if queue := now.arrived_on(row):
        return Verdict.AGREES if queue in targets else Verdict.DIFFERS, f"on {queue}"
    if row["expires_at"] is not None and row["expires_at"] <= now.seen_at:
        return Verdict.OPEN, "gone: it has expired"
    return _judge_gone(wish, targets, now)


_WAITS: Final = (Verdict.OPEN, "on the queue still: puts failed, or it waits for its next pass")
_WISH_STILL_THERE: Final = {
    Action.IGNORE: (Verdict.AGREES, "on the queue still"),
    Action.DISCARD: (Verdict.DIFFERS, "on the queue still"),
    Action.RETRY: _WAITS,
    Action.FWD: _WAITS,
}


def _judge_gone(wish: Action, targets: list[str], now: Whereabouts) -> tuple[Verdict, str]:
    if wish is Action.IGNORE:
        return Verdict.DIFFERS, "gone"
    if wish is Action.DISCARD:
        return Verdict.AGREES, "gone"
    unseen = [target for target in targets if target not in now.queues]
    if unseen:
        return Verdict.OPEN, f"gone; not browsed: {', '.join(unseen)}"
    return Verdict.OPEN, f"gone: not on {' or '.join(targets)} any more"


def _identity(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in IDENTITY)
