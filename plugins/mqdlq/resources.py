"""The resources of a task: settings, ledger, clock, sleep and log."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Run
from mqdlq.mqi.connect import ConnectionSettings


class Log(Protocol):
    """Receives the progress of a task; any logger fits."""

    def debug(self, message: str, *args: object) -> None:
        """Log a detail."""

    def info(self, message: str, *args: object) -> None:
        """Log normal progress."""

    def warning(self, message: str, *args: object) -> None:
        """Log a condition that someone should know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources of a task. `sleep` takes seconds, `clock` returns aware UTC."""

    settings: ConnectionSettings
    ledger: Ledger
    lake_root: str
    clock: Callable[[], datetime]
    sleep: Callable[[float], None]
    log: Log


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(Resources):
    """The resources of every pass of a run."""

    run: Run
