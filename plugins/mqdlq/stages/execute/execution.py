"""What the passes of a run work with, and the result of a pass."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mqdlq.ledger import Run
from mqdlq.stages.units.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(Resources):
    """What every pass of a run works with."""

    run: Run
    lake_root: str


@dataclass(frozen=True, slots=True)
class PassResult:
    """The messages to be tried again, when at the earliest, and how many attempts were made."""

    pending: int
    next_pass_at: datetime | None
    attempts: int
