"""Preview what a rules table would do with the messages now on a queue.

Nothing is written and no message moves: the queue is opened only to browse and inquire.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final

from mqdlq.causes import COLUMNS, Cause, CauseCounter, CountedCause, cause_of_row
from mqdlq.model import Outcome, Step
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import QueueManager
from mqdlq.plan import TARGET_COLUMNS, resolve, steps_for
from mqdlq.rules import RulesTable, with_nuls_as_blanks
from mqdlq.stages.snapshot.properties import PropertyMatches
from mqdlq.stages.snapshot.rows import RowBuilder, add_properties, inquire_lengths, number_messages

_BATCH_SIZE: Final = 4096
_MAX_SAMPLES: Final = 8


@dataclass(slots=True)
class UnhandledMessages:
    """Messages of one cause that the table does not handle, with the first few by browse_seq.

    `outcome` is the outcome they would have; `problem` says what is wrong with the message itself.
    """

    outcome: Outcome
    problem: str
    cause: Cause
    messages: int = 0
    browse_seqs: list[int] = field(default_factory=list)


class Preview:
    """The messages on a queue, and what a table would do with them.

    Each combination of the columns that the table reads is evaluated once.
    """

    def __init__(
        self, queue_manager: str, queue: str, at: datetime, table: RulesTable, *, nul_as_blank: bool
    ) -> None:
        self.queue_manager, self.queue, self.at = queue_manager, queue, at
        self.messages = self.bytes = self.maybe_truncated = 0
        self._table, self._nul_as_blank = table, nul_as_blank
        self._causes = CauseCounter()
        self._steps: dict[tuple[Any, ...], tuple[Step, ...]] = {}
        self._planned: Counter[Step] = Counter()
        self._unhandled: dict[tuple[Outcome, str, Cause], UnhandledMessages] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        self.messages += 1
        self.bytes += row["total_length"]
        self.maybe_truncated += row["maybe_truncated"]
        self._causes.add_row(row)
        is_asked = self._table.acts_on(row["class"])
        key = (row["class"], *self._table.key_of(row))
        if key not in self._steps:
            values = with_nuls_as_blanks(row) if self._nul_as_blank else row
            self._steps[key] = steps_for(self._table, values) if is_asked else ()
        if steps := self._steps[key]:
            self._planned[resolve(steps[0], row)] += 1
            return
        outcome = Outcome.UNMATCHED if is_asked else Outcome.UNPROCESSABLE
        trouble = (outcome, row["problem"], cause_of_row(row))
        unhandled = self._unhandled.setdefault(trouble, UnhandledMessages(*trouble))
        unhandled.messages += 1
        if len(unhandled.browse_seqs) < _MAX_SAMPLES:
            unhandled.browse_seqs.append(row["browse_seq"])

    @property
    def causes(self) -> list[CountedCause]:
        return self._causes.counted()

    @property
    def planned(self) -> list[tuple[Step, int]]:
        """The messages by the step that would be tried first, in table order."""
        return sorted(
            self._planned.items(),
            key=lambda p: (p[0].rule, -p[1], p[0].target_q, p[0].target_q_mgr),
        )

    @property
    def needs_attention(self) -> list[UnhandledMessages]:
        return sorted(self._unhandled.values(), key=lambda trouble: -trouble.messages)


def preview_queue(
    queue_manager: QueueManager,
    table: RulesTable,
    queue: str = "",
    *,
    clock: Callable[[], datetime],
    progress: Callable[[int], None] = lambda _: None,
    nul_as_blank: bool = False,
) -> Preview:
    """Browse a queue and evaluate the table for every message; nothing is written.

    `progress` receives the number of messages browsed so far. Raises QueueManagerError, and
    ConnectionSettingsError if no queue is named anywhere.
    """
    name = choose_queue(queue_manager, table, queue)
    found = Preview(queue_manager.name, name, clock(), table, nul_as_blank=nul_as_blank)
    for rows in browse_rows(queue_manager, name, table, _columns(table), clock):
        for row in rows:
            found.add(row)
        progress(found.messages)
    found.at = clock()
    return found


def _columns(table: RulesTable) -> list[str]:
    own = ("browse_seq", "problem", "total_length", "maybe_truncated")
    return sorted({*own, *COLUMNS, *table.columns, *TARGET_COLUMNS})


def choose_queue(queue_manager: QueueManager, table: RulesTable, queue: str = "") -> str:
    """Return the named queue, else the table's INPUTQ, else the queue manager's DEADQ.

    Raises QueueManagerError, and ConnectionSettingsError if no queue is named anywhere.
    """
    return queue or table.control.input_q.strip() or queue_manager.dead_letter_q_name()


def browse_rows(
    queue_manager: QueueManager,
    name: str,
    table: RulesTable,
    columns: Sequence[str],
    clock: Callable[[], datetime],
) -> Iterator[list[dict[str, Any]]]:
    """Browse a queue from its first message; yield batches of rows with these snapshot columns.

    The rows have the conditions on message properties that the table asks. The queue is opened only
    to browse and inquire. Raises QueueManagerError.
    """
    builder = RowBuilder.of(queue_manager, min(inquire_lengths(queue_manager, name)))
    with queue_manager.browsing(name) as opened:
        matches = PropertyMatches(table)
        cursor = BrowseCursor(queue_manager, opened, name, matches.browsed_length(), matches.names)
        sighted = number_messages(cursor)
        while batch := list(islice(sighted, _BATCH_SIZE)):
            rows = builder.rows(batch, clock())
            rows = add_properties(rows, matches, [message.browsed for message in batch])
            yield rows.select(columns).to_pylist()
