"""The ledger: what runs intended, did and found, as facts that are only ever added."""

from __future__ import annotations

from mqdlq.ledger.facts import Attempt, OutcomeFact, Run, RunMessage, Sighting
from mqdlq.ledger.parking import Parking, Settled
from mqdlq.ledger.store import Ledger, open_ledger

__all__ = [
    "Attempt",
    "Ledger",
    "OutcomeFact",
    "Parking",
    "Run",
    "RunMessage",
    "Settled",
    "Sighting",
    "open_ledger",
]
