"""How people stand to a cause: new, acknowledged, muted, resolved, or come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from mqdlq.ledger import Ledger
from mqdlq.ledger.inbox import STATES
from mqdlq.ledger.tables import CauseChange, CauseNumbers, Run
from mqdlq.model import ChangeKind, InWords
from mqdlq.words import count, moment


class Standing(InWords):
    """The state of a cause among people; a resolved cause whose messages come again has its own."""

    NEW = "new", "new"
    CAME_BACK = "came_back", "came back"
    ACKNOWLEDGED = "acknowledged", "acknowledged"
    MUTED = "muted", "muted"
    RESOLVED = "resolved", "resolved"


_OF_KIND: Final = {
    ChangeKind.ACKNOWLEDGED: Standing.ACKNOWLEDGED,
    ChangeKind.MUTED: Standing.MUTED,
    ChangeKind.RESOLVED: Standing.RESOLVED,
}


@dataclass(frozen=True, slots=True)
class Mute:
    """When a mute ends: at a time, with so many more messages, or with so many times as many."""

    until: datetime | None = None
    more: int = 0
    times: int = 0

    @classmethod
    def read(cls, value: str) -> Mute:
        kind, _, number = value.partition(" ")
        if kind == "until":
            return cls(until=datetime.fromisoformat(number))
        return cls(more=int(number)) if kind == "more" else cls(times=int(number))

    @property
    def stored(self) -> str:
        if self.until is not None:
            return f"until {self.until.isoformat()}"
        return f"more {self.more}" if self.more else f"times {self.times}"

    @property
    def words(self) -> str:
        if self.until is not None:
            return f"until {moment(self.until)}"
        if self.more:
            return f"until {count(self.more, 'more message')}"
        return f"until {self.times} times as many messages"

    def why_over(self, then: int, messages: int, now: datetime) -> str:
        """Say why a mute has ended that began with `then` messages, "" while it lasts."""
        if self.until is not None:
            return f"it was {self.words}" if now >= self.until else ""
        most = then + self.more if self.more else max(then, 1) * self.times
        is_over = messages >= most
        return f"there were {then:,} messages, and there are {messages:,}" if is_over else ""


@dataclass(frozen=True, slots=True)
class Said:
    """What people say of a cause: its last change of state, ticket and note, None without any."""

    state: CauseChange | None = None
    ticket: CauseChange | None = None
    note: CauseChange | None = None

    @classmethod
    def of(cls, changes: Sequence[CauseChange]) -> Said:
        by_name = {
            "state" if one.kind in STATES else one.kind.value: one for one in reversed(changes)
        }
        return cls(**by_name)

    def standing(self, messages: int, last_at: datetime | None, now: datetime) -> Standing:
        """Return the state of a cause with so many messages on all queues, the last of a time."""
        change = self.state
        if change is None:
            return Standing.NEW
        standing = _OF_KIND.get(change.kind, Standing.NEW)
        if standing is Standing.MUTED:
            why = Mute.read(change.value).why_over(change.messages, messages, now)
            return Standing.NEW if why else standing
        is_back = bool(messages) and last_at is not None and last_at > change.at
        return Standing.CAME_BACK if standing is Standing.RESOLVED and is_back else standing


@dataclass(frozen=True, slots=True)
class Quiet:
    """The muted causes on a queue by cause_id, and the causes whose mutes have just ended.

    `oldest_left` is when the oldest message of the other causes was dead-lettered.
    """

    muted: Mapping[str, CauseNumbers] = field(default_factory=dict)
    ended: tuple[CauseNumbers, ...] = ()
    oldest_left: datetime | None = None

    @property
    def words(self) -> str:
        """Say about what alerts and notes keep quiet, "" for nothing."""
        messages = sum(max(one.messages, 0) for one in self.muted.values())
        causes = count(len(self.muted), "muted cause")
        return f"Quiet about {causes}: {count(messages, 'message')}." if self.muted else ""

    @property
    def attention(self) -> int:
        return sum(max(one.attention, 0) for one in self.muted.values())


def find_quiet(run: Run, ledger: Ledger, now: datetime) -> Quiet:
    """Find what to keep quiet about after a run; record the end of each mute that has ended.

    A mute ends for good: fewer messages later do not mute the cause again. The first run of each
    handler that ends after it tells of it.
    """
    here = {one.numbers.cause_id: one.numbers for one in ledger.inbox.of_queue(run) if one.is_whole}
    last = ledger.cause_changes.last()
    states = {one: Said.of(last[one]).state for one in here.keys() & last.keys()}
    messages, muted = ledger.inbox.messages(states), dict[str, CauseNumbers]()
    for cause_id, change in states.items():
        if change is None or change.kind is not ChangeKind.MUTED:
            continue
        number = messages[cause_id]
        if why := Mute.read(change.value).why_over(change.messages, number, now):
            end = CauseChange(cause_id, now, "mqdlq", ChangeKind.MUTE_ENDED, why, number)
            ledger.cause_changes.end_mute(end)
            states[cause_id] = end
        else:
            muted[cause_id] = here[cause_id]
    before = ledger.alerts.run_before(run, is_closed=True)
    sighting = ledger.accounts.of_run(before) if before is not None else None
    since = sighting.at if sighting is not None else run.started_at
    ended = tuple(
        here[cause_id]
        for cause_id, change in states.items()
        if change and change.kind is ChangeKind.MUTE_ENDED and change.at > since
    )
    others = (one for cause_id, one in here.items() if cause_id not in muted and one.messages > 0)
    oldest = min((one.oldest_at for one in others if one.oldest_at), default=None)
    return Quiet(muted, ended, oldest)
