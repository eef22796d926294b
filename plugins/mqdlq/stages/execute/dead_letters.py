"""Dead letters as a source of moves: found by a browse cursor, got under it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mqdlq.errors import ExecutionError, QueueManagerError
from mqdlq.headers import message_key
from mqdlq.lake.archive import steady_digest
from mqdlq.mqi.browse import GONE, BrowseCursor, Browsed
from mqdlq.mqi.unit_of_work import Got, UnitOfWork
from mqdlq.stages.execute.actions import delivery
from mqdlq.stages.execute.booking import Try
from mqdlq.stages.units.moves import GoneError, WithdrawnError

NOT_ARCHIVED = "it could not be archived"


class DeadLetters:
    """The messages of a dead-letter queue, opened to browse, to get and to save all context."""

    def __init__(self, cursor: BrowseCursor, copies: Mapping[int, str]) -> None:
        """Get under `cursor`; `copies` are the steady digests of archive copies by message id."""
        self._cursor = cursor
        self._copies = copies
        self._unit = UnitOfWork(cursor)

    def open(self) -> UnitOfWork:
        """Begin a unit of work."""
        self._unit = UnitOfWork(self._cursor)
        return self._unit

    def find(self, tried: Try) -> bool:
        """Put the cursor on the message again: by its token, else by walking to its key."""
        found = self._cursor.find(tried.browsed.token)
        if found is not None and _key(found) == tried.message_key:
            return True
        return any(_key(met) == tried.message_key for met in self._cursor.messages())

    def resume(self, tried: Try) -> None:
        """Continue the browse behind this message.

        If it is gone, the browse meets some messages again, which are not the run's any more.
        """
        self._cursor.find(tried.browsed.token)

    def get(self, tried: Try) -> Callable[[], None]:
        """Get the message under the cursor; return a function that puts it where the step says.

        A message to be discarded is only got, and must be what the archive has a copy of.
        """
        unit, length = self._unit, tried.browsed.total_length
        is_discard = tried.destination is None
        try:
            got = unit.get_with_properties(length) if is_discard else unit.get_under_cursor(length)
        except QueueManagerError as error:
            if error.reason in GONE:
                raise GoneError from error
            raise
        if is_discard:
            self._check_against_copy(tried, got)
            return _put_nothing
        self._check(tried, got)
        return lambda: unit.put(got, delivery(tried.step, got))

    def _check_against_copy(self, tried: Try, got: Got) -> None:
        copy = self._copies.get(tried.item.message.message_id)
        if steady_digest(got.descriptor.pack(), got.body) != copy:
            tried.item.withheld = NOT_ARCHIVED
            raise WithdrawnError

    def _check(self, tried: Try, got: Got) -> None:
        """Refuse a message that is not the planned one, before anything is done with it."""
        if message_key(got.descriptor.pack(), len(got.body), got.body) != tried.message_key:
            raise ExecutionError(
                f"the message got from {self._cursor.name} is not the one under the cursor"
                f" (message {tried.item.message.browse_seq}); nothing is done with it"
            )


def _put_nothing() -> None:
    """Put nothing: a message that is discarded goes nowhere."""


def _key(browsed: Browsed) -> bytes:
    return message_key(browsed.descriptor, browsed.total_length, browsed.prefix)
