"""What an attempt at a restoration works with."""

from __future__ import annotations

from dataclasses import dataclass

from mqdlq.ledger import Restoration
from mqdlq.stages.units.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring(Resources):
    """What an attempt at a restoration works with.

    `max_messages_per_unit` bounds a unit of work.
    """

    restoration: Restoration
    max_messages_per_unit: int
