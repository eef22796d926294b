"""Fill the number of earlier attempts on each message into the rows of a snapshot."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from mqdlq.lake.schema import HEADERS
from mqdlq.ledger import Ledger, Run
from mqdlq.rules import table_with

_COLUMN = "attempts_made"


class AttemptNumbers:
    """The attempts that the ledger knows of the messages on a run's queue.

    The ledger is asked only if the run's rules compare attempts, with a few queries for a thousand
    messages. Otherwise the column stays null, and a snapshot costs the same as without it.

    Attempts of all runs count, whatever their rules, from the time when the message came to this
    queue: a message that comes back begins with 0. Such a table settles no message, so that every
    message of the queue passes through here, in browse order.
    """

    def __init__(self, run: Run, ledger: Ledger) -> None:
        self._run, self._ledger = run, ledger
        self._is_used = table_with(run.rules_text, "ATTEMPTS") is not None
        self._sighted = Counter[bytes]()

    def add_to(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with their attempts; the k-th of equal messages has those of the k-th."""
        if not self._is_used:
            return rows
        run, keys = self._run, rows.column("message_key").to_pylist()
        known = self._ledger.attempts.of_residents(run.queue_manager, run.queue, set(keys))
        numbers = [self._number_of(key, known.get(key, ())) for key in keys]
        place = HEADERS.get_field_index(_COLUMN)
        filled = pa.array(numbers, HEADERS.field(_COLUMN).type)
        return rows.set_column(place, HEADERS.field(_COLUMN), filled)

    def _number_of(self, key: bytes, numbers: list[int] | tuple[int, ...]) -> int:
        if not numbers:
            return 0
        place = self._sighted[key]
        self._sighted[key] += 1
        return numbers[place] if place < len(numbers) else 0
