"""What passes and restorations work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from mqdlq.ledger import Ledger
from mqdlq.mqi.connect import ConnectionSettings


class Log(Protocol):
    """Receives the progress of a task: any logger will do."""

    def debug(self, message: str, *args: object) -> None:
        """Log what is no news."""

    def info(self, message: str, *args: object) -> None:
        """Log what went as planned."""

    def warning(self, message: str, *args: object) -> None:
        """Log what a person should know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a task works with; `sleep` takes seconds, `clock` gives aware UTC."""

    settings: ConnectionSettings
    ledger: Ledger
    clock: Callable[[], datetime]
    sleep: Callable[[float], None]
    log: Log
