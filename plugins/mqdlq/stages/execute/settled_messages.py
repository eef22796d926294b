"""The messages of a run's snapshot that need no row of their own in the ledger.

Nothing is done with a parked message, nor with one that a run for named messages does not name. But
it is part of the run's snapshot, so it has an outcome in the run like any other, booked by number:
a parked message the one it was parked with, as long as a browse meets it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.lake import parked_rows, snapshot_rows
from mqdlq.ledger import InStep, Ledger, OutcomeFact, Parking, Run, Settled
from mqdlq.model import Action, Disposition, Outcome
from mqdlq.stages.execute.pending_steps import WorkItem

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Vanished:
    """A parked message that the last browse did not meet, by its id in the ledger."""

    message_id: int
    browse_seq: int
    expires_at: datetime | None


class Bystanders(ABC):
    """Messages of a run's snapshot with which the run does nothing.

    A browse recognises them by their keys. Equal messages are counted: nothing tells them apart.
    """

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = keys
        self._waiting: Counter[bytes] = Counter()
        self.begin()

    def begin(self) -> None:
        """Begin a browse: nothing is met yet."""
        self._waiting = Counter(self._keys)

    def meet(self, key: bytes) -> bool:
        """Say whether a message that a browse meets is one of these."""
        if self._waiting.get(key, 0) <= 0:
            return False
        self._waiting[key] -= 1
        return True

    def meet_all(self) -> None:
        """Count every one of them as met."""
        self._waiting.clear()

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether the last browse met all that it had to meet."""

    @abstractmethod
    def settled(self) -> Counter[Settled]:
        """Count all of them by how they are left."""

    @abstractmethod
    def missing(self, run: Run, ledger: Ledger) -> list[tuple[Vanished, Settled]]:
        """Return those that the last browse had to meet and did not."""


class NotSelected(Bystanders):
    """All messages in the snapshot of a run for named messages, but for the named ones.

    Other runs may move them meanwhile, so none of them has to be met.
    """

    is_complete = True

    def __init__(self, location: str, named: Collection[bytes]) -> None:
        full = (row["message_key"] for row in snapshot_rows(location, ["message_key"]))
        parked = (
            key
            for batch in parked_rows(location, ["message_key"])
            for key in batch.column("message_key").to_pylist()
        )
        super().__init__([key for key in chain(full, parked) if key not in named])

    def settled(self) -> Counter[Settled]:
        """Count them all as not selected."""
        return Counter({Settled(Outcome.NOT_SELECTED, 0, "", "", ""): len(self._keys)})

    def missing(self, run: Run, ledger: Ledger) -> list[tuple[Vanished, Settled]]:
        """Return an empty list: the run does not answer for them."""
        del run, ledger
        return []


class ParkedList(Bystanders):
    """The messages with compact rows in one snapshot."""

    def __init__(self, location: str) -> None:
        batches = list(parked_rows(location))
        self._rows = pa.Table.from_batches(batches) if batches else None
        super().__init__(self._rows["message_key"].to_pylist() if self._rows else [])

    @property
    def is_complete(self) -> bool:
        """Whether the last browse met all of them."""
        return not +self._waiting

    def settled(self) -> Counter[Settled]:
        """Count all of them by how they were left."""
        if self._rows is None:
            return Counter()
        names = ["outcome", "rule", "action", "target_q", "target_q_mgr"]
        counted = self._rows.select(names).group_by(names).aggregate([([], "count_all")])
        return Counter({_settled(row): row["count_all"] for row in counted.to_pylist()})

    def missing(self, run: Run, ledger: Ledger) -> list[tuple[Vanished, Settled]]:
        """Return those that the last browse did not meet."""
        waiting = +self._waiting
        if not waiting or self._rows is None:
            return []
        wanted = pa.array(list(waiting), pa.binary())
        rows = self._rows.filter(pc.is_in(self._rows["message_key"], wanted)).to_pylist()
        ids: dict[tuple[bytes, int], int] = {}
        keys = list(waiting)
        for start in range(0, len(keys), _AT_ONCE):
            ids |= ledger.messages.ids(run, keys[start : start + _AT_ONCE])
        found = []
        for row in reversed(rows):  # of equal ones, the last are missing
            key = row["message_key"]
            if waiting[key] > 0:
                waiting[key] -= 1
                message_id = ids[key, row["occurrence"]]
                vanished = Vanished(message_id, row["browse_seq"], row["expires_at"])
                found.append((vanished, _settled(row)))
        return found


def parked_places(location: str, keys: Collection[bytes]) -> dict[bytes, set[int]]:
    """Return which occurrences of these keys have compact rows in a snapshot."""
    wanted = pa.array(list(keys), pa.binary())
    places: dict[bytes, set[int]] = {}
    for batch in parked_rows(location, ["message_key", "occurrence"]):
        for row in batch.filter(pc.is_in(batch["message_key"], wanted)).to_pylist():
            places.setdefault(row["message_key"], set()).add(row["occurrence"])
    return places


def to_be_parked(
    items: Iterable[WorkItem], outcomes: InStep[OutcomeFact | None], run: Run
) -> Iterator[Parking]:
    """Yield what later runs need not look at, as long as the rules stay the same.

    A message that was tried before it came to its IGNORE, or until its rules were exhausted, is
    tried again by a run that counts from zero.
    """
    for item in items:
        fact = next(iter(outcomes.on(item.message.browse_seq)), None)
        if fact is None or item.in_doubt:
            continue
        needs_carry = fact.outcome is Outcome.EXHAUSTED
        if fact.outcome is Outcome.LEFT_BY_RULE:
            needs_carry = item.steps[0].action is not Action.IGNORE
        elif fact.outcome.disposition is Disposition.PLANNED and not needs_carry:
            continue
        if run.carry_attempts or not needs_carry:
            settled = Settled(
                fact.outcome, fact.rule, fact.action, fact.target_q, fact.target_q_mgr
            )
            yield Parking(item.message.message_id, needs_carry, settled)


def _settled(row: dict[str, Any]) -> Settled:
    return Settled(
        Outcome(row["outcome"]), row["rule"], row["action"], row["target_q"], row["target_q_mgr"]
    )
