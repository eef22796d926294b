"""A queue as it is now and a rules table in; what the table would do with its messages out.

Nothing is written and nothing moves: the queue is opened for browsing, and for nothing else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count, islice
from typing import Any, Final

from mqdlq.headers import PREFIX_LENGTH, message_key
from mqdlq.model import Action, MessageClass, Outcome
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import QueueManager
from mqdlq.plan import TARGET_COLUMNS, StepTemplate, resolve, steps_for
from mqdlq.rules import RulesTable, with_nuls_as_blanks
from mqdlq.stages.snapshot.cause_counts import Cause, CauseCount
from mqdlq.stages.snapshot.highlights import Marks
from mqdlq.stages.snapshot.rows import RowBuilder, Sighted

_AT_ONCE: Final = 4096
_SAMPLES: Final = 8


@dataclass(frozen=True, slots=True)
class Planned:
    """What would be tried first, how often at most, and for how many messages."""

    rule: int
    rule_line: int
    action: Action
    target_q: str
    target_q_mgr: str
    tries: int
    messages: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """Messages of one cause that the table leaves to a person, the first few by browse_seq.

    `outcome` is the one they would have; `problem` says what is odd about the message itself.
    """

    outcome: Outcome
    cls: MessageClass
    problem: str
    reason: int
    dest_q_name: str
    dest_q_mgr_name: str
    messages: int
    browse_seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """What is on a queue, and what a table would do with it; `planned` in the table's order."""

    queue_manager: str
    queue: str
    messages: int
    bytes: int
    causes: tuple[Cause, ...]
    planned: tuple[Planned, ...]
    needs_attention: tuple[Trouble, ...]
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
    """Browse a queue and ask the table about every message; nothing is written.

    Without a name the queue is the table's INPUTQ, else the queue manager's DEADQ. `progress` is
    told how many messages were browsed. Raises QueueManagerError, and ConnectionSettingsError
    where there is no queue to look at.
    """
    name = queue_to_browse(queue_manager, table, queue)
    asked = _Asked(table, nul_as_blank=nul_as_blank)
    for rows in browsed_rows(queue_manager, name, asked.columns, clock):
        for row in rows:
            asked.add(row)
        progress(asked.messages)
    return asked.preview(queue_manager.name, name, clock())


def queue_to_browse(queue_manager: QueueManager, table: RulesTable, queue: str = "") -> str:
    """Return the queue that is named, else the table's INPUTQ, else the queue manager's DEADQ.

    Raises QueueManagerError, and ConnectionSettingsError where none of them names a queue.
    """
    return queue or table.control.input_q.strip() or queue_manager.dead_letter_q_name()


def browsed_rows(
    queue_manager: QueueManager, name: str, columns: Sequence[str], clock: Callable[[], datetime]
) -> Iterator[list[dict[str, Any]]]:
    """Browse a queue from its first message; yield these columns of a snapshot, many rows at once.

    The queue is opened for browsing and inquiring only. Raises QueueManagerError.
    """
    constants = queue_manager.client.CMQC
    lengths = (
        queue_manager.inquire_queue(name, constants.MQIA_MAX_MSG_LENGTH),
        queue_manager.inquire(constants.MQIA_MAX_MSG_LENGTH),
    )
    builder = RowBuilder(
        Marks(queue_manager.name, name, 0, lambda _: None),
        longest=min(map(int, lengths)),
        ccsid=int(queue_manager.inquire(constants.MQIA_CODED_CHAR_SET_ID)),
    )
    with queue_manager.browsing(name) as opened:
        cursor = BrowseCursor(queue_manager, opened, name, PREFIX_LENGTH)
        numbers = count(1)
        sighted = (
            Sighted(next(numbers), message_key(b.descriptor, b.total_length, b.prefix), b)
            for b in cursor.messages()
        )
        while batch := list(islice(sighted, _AT_ONCE)):
            yield builder.rows(batch, clock()).select(columns).to_pylist()


class _Asked:
    """Counts what a table says of messages; each combination of what it looks at is asked once."""

    def __init__(self, table: RulesTable, *, nul_as_blank: bool) -> None:
        self._table, self._nul_as_blank = table, nul_as_blank
        self._key = ("class", *table.columns)
        own = ("browse_seq", "problem", "total_length", "maybe_truncated")
        self.columns = sorted({*own, *Cause.COLUMNS, *table.columns, *TARGET_COLUMNS})
        self.messages = self._bytes = self._truncated = 0
        self._causes = CauseCount()
        self._steps: dict[tuple[Any, ...], tuple[StepTemplate, ...]] = {}
        self._planned: Counter[tuple[int, int, Action, str, str, int]] = Counter()
        self._troubles: Counter[tuple[Any, ...]] = Counter()
        self._samples: dict[tuple[Any, ...], list[int]] = defaultdict(list)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a message."""
        self.messages += 1
        self._bytes += row["total_length"]
        self._truncated += row["maybe_truncated"]
        self._causes.add(row)
        steps = self._steps_for(row)
        if steps:
            first = resolve(steps[0], row)
            where = (first.target_q, first.target_q_mgr, first.tries)
            self._planned[first.rule, first.rule_line, first.action, *where] += 1
            return
        is_dead = row["class"] == MessageClass.DEAD_LETTER
        outcome = Outcome.UNMATCHED if is_dead else Outcome.UNPROCESSABLE
        trouble = (outcome, row["problem"], *(row[name] for name in Cause.COLUMNS[:-1]))
        self._troubles[trouble] += 1
        if len(self._samples[trouble]) < _SAMPLES:
            self._samples[trouble].append(row["browse_seq"])

    def _steps_for(self, row: Mapping[str, Any]) -> tuple[StepTemplate, ...]:
        key = tuple(row[name] for name in self._key)
        if key not in self._steps:
            is_dead = row["class"] == MessageClass.DEAD_LETTER
            values = with_nuls_as_blanks(row) if self._nul_as_blank else row
            self._steps[key] = steps_for(self._table, values) if is_dead else ()
        return self._steps[key]

    def preview(self, queue_manager: str, queue: str, at: datetime) -> Preview:
        """Return what was counted."""
        planned = [Planned(*what, messages) for what, messages in self._planned.items()]
        planned.sort(key=lambda p: (p.rule, -p.messages, p.target_q, p.target_q_mgr))
        return Preview(
            queue_manager=queue_manager,
            queue=queue,
            messages=self.messages,
            bytes=self._bytes,
            causes=tuple(self._causes.causes()),
            planned=tuple(planned),
            needs_attention=tuple(self._trouble(*item) for item in self._troubles.most_common()),
            maybe_truncated=self._truncated,
            at=at,
        )

    def _trouble(self, trouble: tuple[Any, ...], messages: int) -> Trouble:
        outcome, problem, cls, reason, queue, queue_manager = trouble
        return Trouble(
            outcome=outcome,
            cls=MessageClass(cls),
            problem=problem,
            reason=reason or 0,
            dest_q_name=queue or "",
            dest_q_mgr_name=queue_manager or "",
            messages=messages,
            browse_seqs=tuple(self._samples[trouble]),
        )
