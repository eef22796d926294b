"""The resources of a run's passes, and the result of a pass."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mqdlq.ledger import Run
from mqdlq.stages.units.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(Resources):
    """The resources of every pass of a run."""

    run: Run


@dataclass(frozen=True, slots=True)
class PassResult:
    """The result of a pass.

    `pending` counts the messages that wait for a retry, `next_pass_at` is when it is due, and
    `attempts` counts the attempts of the pass.
    """

    pending: int
    next_pass_at: datetime | None
    attempts: int
