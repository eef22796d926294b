"""Interrupting a run by Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Interruption:
    """Whether Ctrl-C or SIGTERM has come, also where Python drops the exception.

    Python reports an exception that is raised in a destructor, such as that of a client's queue
    object, and continues: the next call of `check` then ends the run.
    """

    def __init__(self) -> None:
        self._came = False

    def come(self, _number: int, _frame: FrameType | None) -> NoReturn:
        """Interrupt the run; the handler of SIGINT and SIGTERM."""
        self._came = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if an interruption has come."""
        if self._came:
            raise KeyboardInterrupt


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
