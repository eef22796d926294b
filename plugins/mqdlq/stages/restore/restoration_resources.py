"""The resources of an attempt at a restoration."""

from __future__ import annotations

from dataclasses import dataclass

from mqdlq.ledger import Restoration
from mqdlq.stages.units.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorationResources(Resources):
    """The resources of an attempt at a restoration.

    `max_messages_per_unit` limits the number of messages in a unit of work.
    """

    restoration: Restoration
    max_messages_per_unit: int
