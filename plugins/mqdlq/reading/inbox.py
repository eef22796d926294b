"""The inbox: each cause of dead letters over all queues, with its messages now."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from mqdlq.causes import Cause
from mqdlq.handlers.operation import Notification
from mqdlq.handlers.owners import Owners
from mqdlq.ledger import Ledger
from mqdlq.ledger.inbox import BookedNumbers
from mqdlq.ledger.tables import CauseNumbers, Run
from mqdlq.reading.standings import Said, Standing

ARRIVING_FOR: Final = timedelta(minutes=15)
"""A cause still arrives if its last message was dead-lettered so shortly before the last look."""


def is_arriving(place: BookedNumbers) -> bool:
    last = place.numbers.last_at
    return bool(place.numbers.messages and last and last >= place.looked_at - ARRIVING_FOR)


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A cause on all queues that a person may read, with what people say of it.

    `numbers` are the sums over its `places`; the applications are in the places alone.
    """

    numbers: CauseNumbers
    places: Sequence[BookedNumbers]
    said: Said
    standing: Standing

    @property
    def cause(self) -> Cause:
        return self.numbers.cause

    @property
    def is_arriving(self) -> bool:
        return any(map(is_arriving, self.places))

    @property
    def looked_at(self) -> datetime:
        return max(one.looked_at for one in self.places)

    @property
    def held(self) -> Sequence[BookedNumbers]:
        """The places that have messages now; all places if none has any."""
        return [one for one in self.places if one.numbers.messages] or self.places

    @property
    def handlers(self) -> list[str]:
        return sorted({one.handler for one in self.held})

    @property
    def queue_managers(self) -> list[str]:
        return sorted({one.place[0] for one in self.held})

    @property
    def applications(self) -> Counter[str]:
        """The applications that put most of the messages, in the order of their names."""
        found: Counter[str] = Counter()
        for one in self.places:
            if one.numbers.messages:
                found.update(json.loads(one.numbers.applications))
        return Counter(dict(sorted(found.items())))


def read_inbox(ledger: Ledger, handlers: Collection[str], now: datetime) -> list[InboxRow]:
    """Return a row for each cause on the queues of some handlers; nothing of others is in it.

    Of several handlers of one queue, the one that looked last says what is on it.
    """
    places: dict[tuple[int, str], list[BookedNumbers]] = defaultdict(list)
    for place in _read_places(ledger, handlers):
        places[place.key].append(place)
    changes, nothing = ledger.cause_changes.last(), Said()
    # Whether a mute is over does not depend on who asks.
    messages = ledger.inbox.messages([key[1] for key in places if key[1] in changes])
    found = []
    for key, own in places.items():
        said = Said.of(changes[key[1]]) if key[1] in changes else nothing
        numbers = _sum_of([one.numbers for one in own])
        standing = said.standing(messages[key[1]], numbers.last_at, now)
        found.append(InboxRow(numbers, own, said, standing))
    return found


def _read_places(ledger: Ledger, handlers: Collection[str]) -> Iterable[BookedNumbers]:
    """Return the numbers of each cause on each queue, with what later runs changed of them."""
    rows = [row for row in ledger.inbox.all() if row.handler in handlers]
    newest: dict[tuple[str, str], tuple[datetime, str]] = {}
    for row in rows:
        if row.is_whole:
            seen = row.looked_at, row.handler
            newest[row.place] = max(newest.get(row.place, seen), seen)
    made: dict[tuple[tuple[str, str], tuple[int, str]], BookedNumbers] = {}
    for row in sorted(rows, key=lambda row: not row.is_whole):
        if newest.get(row.place, (None, row.handler))[1] != row.handler:
            continue
        key = row.place, row.key
        known = made.setdefault(key, row)
        if known is not row:
            made[key] = known._replace(numbers=_sum_of([known.numbers, row.numbers]))
    return made.values()


def _sum_of(some: Sequence[CauseNumbers]) -> CauseNumbers:
    """Sum up numbers; no sum is less than 0, or more than the messages."""
    if len(some) == 1 and some[0].messages >= max(some[0].attention, 0):
        return some[0]
    messages = max(sum(one.messages for one in some), 0)
    return replace(
        some[0],
        messages=messages,
        attention=min(max(sum(one.attention for one in some), 0), messages),
        expiring=min(sum(one.expiring for one in some), messages),
        expires_at=min((one.expires_at for one in some if one.expires_at), default=None),
        oldest_at=min((one.oldest_at for one in some if one.oldest_at), default=None),
        first_at=min((one.first_at for one in some if one.first_at), default=None),
        last_at=max((one.last_at for one in some if one.last_at), default=None),
    )


def notifications_of_owners(run: Run, ledger: Ledger, owners: Owners) -> list[Notification]:
    """Return where the alerts of a run go for the owners of the causes on its queue."""
    found: dict[str, None] = {}
    for row in ledger.inbox.of_queue(run) if owners.causes else ():
        if row.is_whole and row.numbers.messages:
            applications = json.loads(row.numbers.applications)
            name = row.numbers.dest_q_name or ""
            found[owners.of(name, applications, [run.queue_manager])] = None
    return [one for name in found if name for one in owners.owners[name].notify]
