"""Measure the processor time of requests of pages, with that of the ledger's server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time


class Stopwatch:
    """Milliseconds of processor time of this process and PostgreSQL, and of time that passes."""

    def __init__(self, server_pid: int | None) -> None:
        """Measure with the processes of a PostgreSQL server, or this process alone."""
        self._children = Path(f"/proc/{server_pid}/task/{server_pid}/children")
        self._has_server = server_pid is not None

    def time(self, request: Callable[[], object]) -> tuple[float, float]:
        """Return the processor time that a request takes, and how long it takes."""
        passed, used = perf_counter(), self._used()
        request()
        return round((self._used() - used) * 1000, 1), round((perf_counter() - passed) * 1000, 1)

    def _used(self) -> float:
        children = self._children.read_text().split() if self._has_server else []
        places = [Path(f"/proc/{child}/schedstat") for child in children]
        served = sum(int(place.read_text().split()[0]) for place in places)
        return process_time() + served / 1e9
