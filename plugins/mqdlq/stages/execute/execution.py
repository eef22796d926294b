"""What the passes of a run work with, and what a pass leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from mqdlq.ledger import Ledger, Run
from mqdlq.mqi.connect import ConnectionSettings


class Log(Protocol):
    """Where an execution tells what it does: any logger will do."""

    def debug(self, message: str, *args: object) -> None:
        """Tell what is no news."""

    def info(self, message: str, *args: object) -> None:
        """Tell what went as planned."""

    def warning(self, message: str, *args: object) -> None:
        """Tell what a person should know."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What every pass of a run works with; `sleep` takes seconds, `clock` gives aware UTC."""

    run: Run
    settings: ConnectionSettings
    ledger: Ledger
    lake_root: str
    clock: Callable[[], datetime]
    sleep: Callable[[float], None]
    log: Log


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass left: messages to be tried again, when at the earliest, and attempts made."""

    pending: int
    next_pass_at: datetime | None
    attempts: int
