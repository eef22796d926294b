"""A clock that a process shares with the processes that it forks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from multiprocessing.sharedctypes import RawValue

from tests.support.world import NOON, Clock

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class SharedClock(Clock):
    """A clock in shared memory: time does not go back if a child that has moved it is killed."""

    def __init__(self) -> None:
        """Begin at noon, as other test clocks do."""
        self._microseconds = RawValue("q")
        self.now = NOON

    @property
    def now(self) -> datetime:
        """The time that the process shows that set it last."""
        return _BEGIN + int(self._microseconds.value) * _MICROSECOND

    @now.setter
    def now(self, moment: datetime) -> None:
        self._microseconds.value = (moment - _BEGIN) // _MICROSECOND
