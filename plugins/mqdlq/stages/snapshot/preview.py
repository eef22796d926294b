"""Preview what a rules table would do with the messages now on a queue.

Nothing is written and no message moves: the queue is opened only to browse and inquire.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, islice
from typing import Any, Final

from mqdlq.causes import COLUMNS, Cause, CauseCounter, CountedCause, cause_of_row
from mqdlq.headers import message_key
from mqdlq.model import Outcome, Step
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import QueueManager
from mqdlq.plan import TARGET_COLUMNS, resolve, steps_for
from mqdlq.rules import RulesTable, with_nuls_as_blanks
from mqdlq.stages.snapshot.rows import NumberedMessage, PropertyMatches, RowBuilder

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


@dataclass(frozen=True, slots=True)
class Preview:
    """The messages on a queue, and what a table would do with them.

    `planned` counts the messages by the step that would be tried first, in table order.
    """

    queue_manager: str
    queue: str
    messages: int
    bytes: int
    causes: tuple[CountedCause, ...]
    planned: tuple[tuple[Step, int], ...]
    needs_attention: tuple[UnhandledMessages, ...]
    maybe_truncated: int
    at: datetime


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

    Without a name the queue is the table's INPUTQ, else the queue manager's DEADQ. `progress`
    receives the number of messages browsed so far. Raises QueueManagerError, and
    ConnectionSettingsError if no queue is named anywhere.
    """
    name = choose_queue(queue_manager, table, queue)
    asked = _PreviewCounter(table, nul_as_blank=nul_as_blank)
    for rows in browse_rows(queue_manager, name, table, asked.columns, clock):
        for row in rows:
            asked.add(row)
        progress(asked.messages)
    return asked.build_preview(queue_manager.name, name, clock())


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
    constants = queue_manager.client.CMQC
    lengths = (
        queue_manager.inquire_queue(name, constants.MQIA_MAX_MSG_LENGTH),
        queue_manager.inquire(constants.MQIA_MAX_MSG_LENGTH),
    )
    builder = RowBuilder(
        max_length=min(map(int, lengths)),
        ccsid=int(queue_manager.inquire(constants.MQIA_CODED_CHAR_SET_ID)),
    )
    with queue_manager.browsing(name) as opened:
        matches = PropertyMatches(table)
        cursor = BrowseCursor(queue_manager, opened, name, matches.browsed_length(), matches.names)
        numbers = count(1)
        sighted = (
            NumberedMessage(next(numbers), message_key(b.descriptor, b.total_length, b.prefix), b)
            for b in cursor.messages()
        )
        while batch := list(islice(sighted, _BATCH_SIZE)):
            rows = builder.rows(batch, clock())
            rows = matches.add_to(rows, [message.browsed for message in batch])
            yield rows.select(columns).to_pylist()


class _PreviewCounter:
    """Counts the results of a table; each combination of the columns it reads is evaluated once."""

    def __init__(self, table: RulesTable, *, nul_as_blank: bool) -> None:
        self._table, self._nul_as_blank = table, nul_as_blank
        own = ("browse_seq", "problem", "total_length", "maybe_truncated")
        self.columns = sorted({*own, *COLUMNS, *table.columns, *TARGET_COLUMNS})
        self.messages = self._bytes = self._truncated = 0
        self._causes = CauseCounter()
        self._steps: dict[tuple[Any, ...], tuple[Step, ...]] = {}
        self._planned: Counter[Step] = Counter()
        self._unhandled: dict[tuple[Outcome, str, Cause], UnhandledMessages] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        self.messages += 1
        self._bytes += row["total_length"]
        self._truncated += row["maybe_truncated"]
        self._causes.add_row(row)
        steps = self._find_steps(row)
        if steps:
            self._planned[resolve(steps[0], row)] += 1
            return
        is_asked = self._table.acts_on(row["class"])
        outcome = Outcome.UNMATCHED if is_asked else Outcome.UNPROCESSABLE
        key = (outcome, row["problem"], cause_of_row(row))
        trouble = self._unhandled.setdefault(key, UnhandledMessages(*key))
        trouble.messages += 1
        if len(trouble.browse_seqs) < _MAX_SAMPLES:
            trouble.browse_seqs.append(row["browse_seq"])

    def _find_steps(self, row: Mapping[str, Any]) -> tuple[Step, ...]:
        key = (row["class"], *self._table.key_of(row))
        if key not in self._steps:
            is_asked = self._table.acts_on(row["class"])
            values = with_nuls_as_blanks(row) if self._nul_as_blank else row
            self._steps[key] = steps_for(self._table, values) if is_asked else ()
        return self._steps[key]

    def build_preview(self, queue_manager: str, queue: str, at: datetime) -> Preview:
        planned = sorted(
            self._planned.items(),
            key=lambda p: (p[0].rule, -p[1], p[0].target_q, p[0].target_q_mgr),
        )
        unhandled = sorted(self._unhandled.values(), key=lambda trouble: -trouble.messages)
        return Preview(
            queue_manager=queue_manager,
            queue=queue,
            messages=self.messages,
            bytes=self._bytes,
            causes=tuple(self._causes.counted()),
            planned=tuple(planned),
            needs_attention=tuple(unhandled),
            maybe_truncated=self._truncated,
            at=at,
        )
