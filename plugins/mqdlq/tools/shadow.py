"""Compare what the rules planned for a queue's messages with where the messages are now.

Another handler, usually `runmqdlq`, handled the queue between two snapshots. Its actions are known
only by where the messages are now: still on the queue, or on another browsed queue. Nothing is
known of a message that is on neither. It may have been discarded, put to a queue that was not
browsed, taken from its target since, taken by another application, or it may have expired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.lake import Snapshot
from mqdlq.model import Action, MessageClass, Step
from mqdlq.plan import TARGET_COLUMNS, decide
from mqdlq.rules import RulesTable, parse

MAX_SAMPLES: Final = 5
IDENTITY_COLUMNS: Final = ("msg_id", "correl_id", "put_date", "put_time", "put_appl_name")
"""The columns that stay the same when a message is put with all its context."""

Row = Mapping[str, Any]
QueueAddress = tuple[str, str]
"""A queue and its queue manager."""


class Verdict(StrEnum):
    """Whether a message is where the rules would have put it; open if that cannot be determined."""

    AGREES = "agrees"
    DIFFERS = "differs"
    OPEN = "open"


@dataclass(slots=True)
class Finding:
    """The messages with the same plan and the same observation."""

    verdict: Verdict
    planned: str
    observed: str
    messages: int = 0
    samples: list[int] = field(default_factory=list)
    """The browse_seq of the first few in the first snapshot."""


@dataclass(frozen=True, slots=True)
class ShadowComparison:
    """The result of a comparison; `arrived` counts messages that only the second snapshot holds."""

    findings: tuple[Finding, ...]
    arrived: int

    def messages(self, verdict: Verdict) -> int:
        return sum(found.messages for found in self.findings if found.verdict is verdict)


def _find_needed_columns(table: RulesTable) -> list[str]:
    own = ("browse_seq", "class", "message_key", "expires_at")
    return sorted({*own, *IDENTITY_COLUMNS, *table.columns, *TARGET_COLUMNS})


class MessageLocations:
    """Where messages are after the other handler has handled the queue."""

    def __init__(
        self,
        queue_manager: str,
        still: Iterable[Row],
        arrivals: Iterable[tuple[QueueAddress, Iterable[Row]]],
        seen_at: datetime,
    ) -> None:
        """Store the rows of the second snapshot and of other queues, each browsed at least once."""
        self.queue_manager = queue_manager
        self.seen_at = seen_at
        self.browsed: set[QueueAddress] = set()
        self._remaining = Counter(row["message_key"] for row in still)
        self._arrived: dict[tuple[Any, ...], Counter[QueueAddress]] = {}
        for place, rows in arrivals:
            self.browsed.add(place)
            for identity, count in Counter(map(_find_identity, rows)).items():
                found = self._arrived.setdefault(identity, Counter())
                found[place] = max(found[place], count)  # a queue may be browsed twice

    @property
    def new_messages(self) -> int:
        """Return the number of messages on the queue that were not taken into account."""
        return self._remaining.total()

    def take_remaining(self, row: Row) -> bool:
        """Remove one message with this key from the account; return whether there was one."""
        there = self._remaining[row["message_key"]] > 0
        if there:
            self._remaining[row["message_key"]] -= 1
        return there

    def take_arrived(self, row: Row, targets: Iterable[QueueAddress]) -> QueueAddress | None:
        """Remove one message with this identity from the account; return its queue.

        Several messages may share an identity: those on a target of this message come first.
        """
        found = +self._arrived.get(_find_identity(row), Counter())
        place = next((place for place in (*targets, *found) if found[place]), None)
        if place is not None:
            self._arrived[_find_identity(row)][place] -= 1
        return place

    def find_target(self, step: Step) -> QueueAddress:
        return step.target_q, step.target_q_mgr or self.queue_manager

    def format_address(self, place: QueueAddress) -> str:
        queue, queue_manager = place
        return queue if queue_manager == self.queue_manager else f"{queue} @ {queue_manager}"


def compare_with_rules(
    first: Snapshot, second: Snapshot, arrivals: Sequence[Snapshot]
) -> ShadowComparison:
    """Evaluate the first snapshot's frozen rules for its messages, and find where these are now.

    Raises `LakeError` if the snapshots do not belong together, or if one cannot be read.
    """
    _check_snapshots(first, second, arrivals)
    manifest = first.manifest
    table = parse(manifest.rules_text, queue_kind=manifest.queue_kind, frozen=True)
    now = MessageLocations(
        first.manifest.queue_manager,
        lake.whole_rows(second.directory, ["message_key"]),
        ((one.queue[::-1], lake.whole_rows(one.directory, IDENTITY_COLUMNS)) for one in arrivals),
        second.manifest.taken_at,
    )
    found: dict[tuple[str, ...], Finding] = {}
    for row in lake.whole_rows(first.directory, _find_needed_columns(table)):
        steps = decide(table, row, nul_as_blank=first.manifest.nul_as_blank)
        verdict, happened = _judge(steps, row, now)
        said = _describe_steps(steps, row, now)
        finding = found.setdefault((verdict, said, happened), Finding(verdict, said, happened))
        finding.messages += 1
        if len(finding.samples) < MAX_SAMPLES:
            finding.samples.append(row["browse_seq"])
    order = list(Verdict)
    findings = sorted(found.values(), key=lambda f: (-order.index(f.verdict), -f.messages))
    worst_first = sorted(findings, key=lambda f: f.verdict is not Verdict.DIFFERS)
    return ShadowComparison(tuple(worst_first), now.new_messages)


def _check_snapshots(first: Snapshot, second: Snapshot, arrivals: Sequence[Snapshot]) -> None:
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


def _describe_steps(steps: Sequence[Step], row: Row, now: MessageLocations) -> str:
    if row["class"] != MessageClass.DEAD_LETTER:
        return "leave it: no valid MQDLH"
    words = (
        f"{step.action} to {now.format_address(now.find_target(step))}"
        if step.target_q
        else step.action
        for step in steps
    )
    return ", then ".join(words) or "leave it: no rule"


def _judge(steps: Sequence[Step], row: Row, now: MessageLocations) -> tuple[Verdict, str]:
    wish = steps[0].action if steps else Action.IGNORE
    if now.take_remaining(row):
        return _VERDICTS_IF_STILL_THERE[wish]
    targets = sorted({now.find_target(step) for step in steps if step.target_q})
    if place := now.take_arrived(row, targets):
        return (
            Verdict.AGREES if place in targets else Verdict.DIFFERS,
            f"on {now.format_address(place)}",
        )
    if row["expires_at"] is not None and row["expires_at"] <= now.seen_at:
        return Verdict.OPEN, "gone; its time to expire has come"
    return _judge_missing(wish, targets, now)


_STILL_WAITING: Final = (
    Verdict.OPEN,
    "on the queue still: puts failed, or it waits for its next pass",
)
_VERDICTS_IF_STILL_THERE: Final = {
    Action.IGNORE: (Verdict.AGREES, "on the queue still"),
    Action.DISCARD: (Verdict.DIFFERS, "on the queue still"),
    Action.RETRY: _STILL_WAITING,
    Action.FWD: _STILL_WAITING,
}


def _judge_missing(
    wish: Action, targets: list[QueueAddress], now: MessageLocations
) -> tuple[Verdict, str]:
    if wish is Action.IGNORE:
        return Verdict.DIFFERS, "gone: by that handler, or by somebody else"
    unseen = [now.format_address(target) for target in targets if target not in now.browsed]
    if unseen:
        return Verdict.OPEN, f"gone; not browsed: {', '.join(unseen)}"
    if targets:
        return (
            Verdict.OPEN,
            f"gone, and not seen on {' or '.join(map(now.format_address, targets))}",
        )
    return Verdict.OPEN, "gone: discarded, or taken or put where nobody looked"


def _find_identity(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in IDENTITY_COLUMNS)
