"""Epochs: the numbers of passes and restorations, by which an older copy of a ledger is recognised.

A pass or restoration takes the next number, which is then written to the lake and to each marker,
before it moves a message. So the ledger knows every number that the lake or a state queue has,
unless it was restored from an older copy, or another ledger wrote the number.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, insert, select, update

from mqdlq.ledger.audit import AuditEvent, record_event
from mqdlq.ledger.database import Repository, in_turn
from mqdlq.ledger.tables.retention import epochs
from mqdlq.model import AuditKind, WorkNumber


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of the ledger: its last number, when work took it, and who began the epoch."""

    epoch: int
    name: str
    number: int
    began_at: datetime
    worked_at: datetime
    who: str = ""
    why: str = ""

    @property
    def last(self) -> WorkNumber:
        """The number of the last pass or restoration."""
        return WorkNumber(self.epoch, self.number, self.name)


_NEWEST: Final = select(epochs).order_by(epochs.c.epoch.desc()).limit(1)


class Epochs(Repository):
    """The epochs of the ledger. The number of the newest one is updated, all else only added."""

    def newest(self) -> Epoch | None:
        """Return the newest epoch, None if no work was ever begun."""
        return self._one(Epoch, _NEWEST)

    def taken_on(self) -> Epoch | None:
        """Return the newest epoch if a person began it by taking on an older ledger, or None."""
        newest = self.newest()
        return newest if newest is not None and newest.who else None

    def lost_since(self, moment: datetime) -> Epoch | None:
        """Return the epoch before which the ledger lost work that was done after a moment."""
        taken_on = self.taken_on()
        return taken_on if taken_on is not None and moment <= taken_on.began_at else None

    def knows(self, work: WorkNumber) -> bool:
        """Whether this ledger counted a number, or it is from before it was taken on."""
        newest = self.newest()
        if newest is None or work.epoch >= newest.epoch:
            return newest is not None and work.name == newest.name and work <= newest.last
        return True

    def next_number(self, at: datetime) -> WorkNumber:
        """Take the next number; it is durable when this returns."""
        with in_turn(self._engine) as connection:
            row = connection.execute(_NEWEST).mappings().first()
            if row is None:
                return _begin(connection, Epoch(1, secrets.token_hex(8), 1, at, at)).last
            number = row["number"] + 1
            connection.execute(
                update(epochs)
                .where(epochs.c.epoch == row["epoch"])
                .values(number=number, worked_at=at)
            )
            return WorkNumber(row["epoch"], number, row["name"])

    def begin(self, above: int, who: str, why: str, details: str, at: datetime) -> Epoch:
        """Begin an epoch above another one; the audit has who took the ledger on, and why.

        A ledger that has begun no work may be a copy from before the first epoch: that counts, too.
        """
        with in_turn(self._engine) as connection:
            row = connection.execute(_NEWEST).mappings().first()
            epoch = max(above, row["epoch"] if row else 1) + 1
            event = AuditEvent(at, AuditKind.LEDGER_TAKEN_ON, who, why=why, details=details)
            record_event(connection, event)
            return _begin(connection, Epoch(epoch, secrets.token_hex(8), 0, at, at, who, why))


def _begin(connection: Connection, epoch: Epoch) -> Epoch:
    connection.execute(insert(epochs), asdict(epoch))
    return epoch
