"""Interrupting a run by Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Whether Ctrl-C or SIGTERM has come; the run ends at its next check.

    An exception at any call would leave units of work open, whose messages keep a scratch queue
    from being deleted, or Python would drop it, in a destructor. So only a second Ctrl-C or SIGTERM
    raises KeyboardInterrupt at once, for a call that does not return.
    """

    def __init__(self) -> None:
        self._came = False

    def come(self, _number: int, _frame: FrameType | None) -> None:
        """Take note of an interruption; the handler of SIGINT and SIGTERM."""
        if self._came:
            raise KeyboardInterrupt
        self._came = True

    def check(self) -> None:
        """Raise KeyboardInterrupt if an interruption has come."""
        if self._came:
            raise KeyboardInterrupt

    def sleep(self, seconds: float) -> None:
        """Sleep, and raise KeyboardInterrupt if an interruption has come by then."""
        time.sleep(seconds)
        self.check()


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Let Ctrl-C and SIGTERM interrupt the block, so that the scratch queues are removed."""
    interruption = Interruption()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, interruption.come) for number in numbers}
    try:
        yield interruption
        interruption.check()
    finally:
        for number in numbers:
            signal.signal(number, before[number])
