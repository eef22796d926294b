"""Closed windows: no message goes to a destination while it is closed."""

from __future__ import annotations

from collections.abc import Callable

from mqdlq.controls.control import Control
from mqdlq.controls.windows.settings import ClosedWindow, find_reopening
from mqdlq.controls.work import Hold, WorkItem
from mqdlq.model import Destination
from mqdlq.mqi.hints import printable_name
from mqdlq.reasons import Why
from mqdlq.resources import Execution

FindWindows = Callable[[Destination], tuple[ClosedWindow, ...]]


class ClosedWindows(Control):
    """Holds the messages for a destination that is closed, from then on for the whole pass.

    `find_windows` returns the windows of a destination.
    """

    def __init__(self, execution: Execution, find_windows: FindWindows) -> None:
        self._clock, self._find_windows = execution.clock, find_windows
        self._windows: dict[Destination, tuple[ClosedWindow, ...]] = {}
        self._closed: dict[Destination, Hold] = {}

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold until the window ends in which the destination takes nothing."""
        destination = item.open_step.destination if item.open_step else None
        if destination is None:
            return None
        if destination not in self._windows:
            self._windows[destination] = self._find_windows(destination)
        windows = self._windows[destination]
        if windows and destination not in self._closed:
            until = find_reopening(windows, self._clock())
            if until is not None:
                why = Why.TARGET_CLOSED(queue=printable_name(destination[0]), until=until)
                self._closed[destination] = Hold(why, until)
        return self._closed.get(destination)
