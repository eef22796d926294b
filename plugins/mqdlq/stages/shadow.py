"""Compare what our rules said of a queue's messages with where the messages are now.

Another handler, `runmqdlq` as a rule, handled the queue between two snapshots. What it did is known
from where the messages are: on the queue still, or on a queue that was browsed. Of a message that
is on neither nothing is known: it may have been discarded, put to a queue nobody looked at, taken
from there since, taken by somebody else, or it may have expired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.lake import Snapshot
from mqdlq.model import Action, MessageClass, Step
from mqdlq.plan import TARGET_COLUMNS, resolve, steps_for
from mqdlq.rules import RulesTable, parse, with_nuls_as_blanks

SAMPLES: Final = 5
IDENTITY: Final = ("msg_id", "correl_id", "put_date", "put_time", "put_appl_name")
"""What a message keeps when it is put with all its context, whatever becomes of its headers."""

Row = Mapping[str, Any]
Place = tuple[str, str]
"""A queue and its queue manager."""


class Verdict(StrEnum):
    """Whether a message is where our rules would have it; open where that cannot be seen."""

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


def _columns_needed(table: RulesTable) -> list[str]:
    """Name the columns of the first snapshot that are read."""
    own = ("browse_seq", "class", "message_key", "expires_at")
    return sorted({*own, *IDENTITY, *table.columns, *TARGET_COLUMNS})


class Whereabouts:
    """Where messages are after the other handler was at work."""

    def __init__(
        self,
        queue_manager: str,
        still: Iterable[Row],
        arrivals: Iterable[tuple[Place, Iterable[Row]]],
        seen_at: datetime,
    ) -> None:
        """Take the rows of the second snapshot, and of other queues, each browsed once or more."""
        self.queue_manager = queue_manager
        self.seen_at = seen_at
        self.places: set[Place] = set()
        self._still = Counter(row["message_key"] for row in still)
        self._arrived: dict[tuple[Any, ...], Counter[Place]] = {}
        for place, rows in arrivals:
            self.places.add(place)
            for identity, count in Counter(map(_identity, rows)).items():
                found = self._arrived.setdefault(identity, Counter())
                found[place] = max(found[place], count)  # the same ones, where seen twice

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

    def arrived_on(self, row: Row, targets: Iterable[Place]) -> Place | None:
        """Take one of the messages with this identity off the account; return where it is.

        Several may share an identity: one that is where this one is meant to be comes first.
        """
        found = +self._arrived.get(_identity(row), Counter())
        place = next((place for place in (*targets, *found) if found[place]), None)
        if place is not None:
            self._arrived[_identity(row)][place] -= 1
        return place

    def of(self, step: Step) -> Place:
        """Return where a step puts."""
        return step.target_q, step.target_q_mgr or self.queue_manager

    def shown(self, place: Place) -> str:
        """Return a place for people."""
        queue, queue_manager = place
        return queue if queue_manager == self.queue_manager else f"{queue} @ {queue_manager}"


def shadow(first: Snapshot, second: Snapshot, arrivals: Sequence[Snapshot]) -> Shadow:
    """Ask the rules frozen in the first snapshot about its messages, and see where they are now.

    Raises `LakeError` where the snapshots do not belong together, or one cannot be read.
    """
    _must_belong_together(first, second, arrivals)
    table = parse(first.manifest.rules_text)
    now = Whereabouts(
        first.manifest.queue_manager,
        lake.whole_rows(second.directory, ["message_key"]),
        ((one.queue[::-1], lake.whole_rows(one.directory, IDENTITY)) for one in arrivals),
        second.manifest.taken_at,
    )
    found: dict[tuple[str, ...], Finding] = {}
    for row in lake.whole_rows(first.directory, _columns_needed(table)):
        steps = tuple(_steps(table, row, nul_as_blank=first.manifest.nul_as_blank))
        verdict, happened = _judge(steps, row, now)
        said = _said(steps, row, now)
        finding = found.setdefault((verdict, said, happened), Finding(verdict, said, happened))
        finding.messages += 1
        if len(finding.samples) < SAMPLES:
            finding.samples.append(row["browse_seq"])
    order = list(Verdict)
    findings = sorted(found.values(), key=lambda f: (-order.index(f.verdict), -f.messages))
    worst_first = sorted(findings, key=lambda f: f.verdict is not Verdict.DIFFERS)
    return Shadow(tuple(worst_first), now.left_over)


def _must_belong_together(first: Snapshot, second: Snapshot, arrivals: Sequence[Snapshot]) -> None:
    of_first, of_second = first.manifest, second.manifest
    if first.queue != second.queue:
        raise LakeError(
            "MQDLQ-431",
            f"{of_first.snapshot_id} is of {of_first.queue} @ {of_first.queue_manager},"
            f" {of_second.snapshot_id} of {of_second.queue} @ {of_second.queue_manager}; name two"
            " snapshots of one queue as BEFORE and AFTER",
        )
    for later in (second, *arrivals):
        if later.manifest.taken_at <= of_first.taken_at:
            raise LakeError(
                "MQDLQ-432",
                f"{later.manifest.snapshot_id} was taken before {of_first.snapshot_id}, or at the"
                " same time; name a later snapshot",
            )


def _steps(table: RulesTable, row: Row, *, nul_as_blank: bool) -> Iterator[Step]:
    if row["class"] == MessageClass.DEAD_LETTER:
        values = with_nuls_as_blanks(row) if nul_as_blank else row
        for template in steps_for(table, values):
            yield resolve(template, row)


def _said(steps: Sequence[Step], row: Row, now: Whereabouts) -> str:
    if row["class"] != MessageClass.DEAD_LETTER:
        return "leave it: no valid MQDLH"
    words = (
        f"{step.action} to {now.shown(now.of(step))}" if step.target_q else step.action
        for step in steps
    )
    return ", then ".join(words) or "leave it: no rule"


def _judge(steps: Sequence[Step], row: Row, now: Whereabouts) -> tuple[Verdict, str]:
    wish = steps[0].action if steps else Action.IGNORE
    if now.is_still_there(row):
        return _WISH_STILL_THERE[wish]
    targets = sorted({now.of(step) for step in steps if step.target_q})
    if place := now.arrived_on(row, targets):
        return Verdict.AGREES if place in targets else Verdict.DIFFERS, f"on {now.shown(place)}"
    if row["expires_at"] is not None and row["expires_at"] <= now.seen_at:
        return Verdict.OPEN, "gone; its time to expire has come"
    return _judge_gone(wish, targets, now)


_WAITS: Final = (Verdict.OPEN, "on the queue still: puts failed, or it waits for its next pass")
_WISH_STILL_THERE: Final = {
    Action.IGNORE: (Verdict.AGREES, "on the queue still"),
    Action.DISCARD: (Verdict.DIFFERS, "on the queue still"),
    Action.RETRY: _WAITS,
    Action.FWD: _WAITS,
}


def _judge_gone(wish: Action, targets: list[Place], now: Whereabouts) -> tuple[Verdict, str]:
    if wish is Action.IGNORE:
        return Verdict.DIFFERS, "gone: by that handler, or by somebody else"
    unseen = [now.shown(target) for target in targets if target not in now.places]
    if unseen:
        return Verdict.OPEN, f"gone; not browsed: {', '.join(unseen)}"
    if targets:
        return Verdict.OPEN, f"gone, and not seen on {' or '.join(map(now.shown, targets))}"
    return Verdict.OPEN, "gone: discarded, or taken or put where nobody looked"


def _identity(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in IDENTITY)
