"""What a restoration works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from mqdlq.ledger import Ledger, Restoration
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.stages.execute.execution import Log


@dataclass(frozen=True, slots=True)
class Restoring:
    """What an attempt at a restoration works with; `sleep` takes seconds, `clock` gives aware UTC.

    `messages_in_a_unit` bounds a unit of work.
    """

    restoration: Restoration
    settings: ConnectionSettings
    ledger: Ledger
    messages_in_a_unit: int
    clock: Callable[[], datetime]
    sleep: Callable[[float], None]
    log: Log
