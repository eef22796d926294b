"""Count the messages of a snapshot by reason and destination."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from mqdlq.constants import reason_text
from mqdlq.model import MessageClass


@dataclass(frozen=True, slots=True)
class Cause:
    """The number of messages of one class with one reason and one destination, and their times.

    `reason` is 0 and the destination is "" if there is no MQDLH.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = (
        "class",
        "dlh_reason",
        "dlh_dest_q_name",
        "dlh_dest_q_mgr_name",
        "dead_lettered_at",
    )

    cls: MessageClass
    reason: int
    dest_q_name: str
    dest_q_mgr_name: str
    messages: int
    first_at: datetime | None
    last_at: datetime | None

    @property
    def reason_text(self) -> str:
        """The reason as text; "" if there is none."""
        return reason_text(self.reason) if self.cls is MessageClass.DEAD_LETTER else ""

    def as_json(self) -> dict[str, Any]:
        """Return the cause as JSON values."""
        times = (self.first_at, self.last_at)
        first, last = (at.isoformat() if at else None for at in times)
        return {
            "class": self.cls.value,
            "reason": self.reason,
            "reason_text": self.reason_text,
            "dest_q_name": self.dest_q_name,
            "dest_q_mgr_name": self.dest_q_mgr_name,
            "messages": self.messages,
            "first_at": first,
            "last_at": last,
        }


class CauseCounter:
    """Counts causes, row by row."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Any, ...]] = Counter()
        self._times: dict[tuple[Any, ...], list[datetime]] = defaultdict(list)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row of a snapshot."""
        key = tuple(row.get(name) for name in Cause.COLUMNS[:-1])
        self._counts[key] += 1
        if at := row.get("dead_lettered_at"):
            times = self._times[key]
            self._times[key] = [min(at, *times), max(at, *times)] if times else [at, at]

    def causes(self) -> list[Cause]:
        """Return the causes, the most frequent first."""
        found = []
        for key, messages in self._counts.items():
            cls, reason, queue, queue_manager = key
            first, last = self._times.get(key) or (None, None)
            kind = MessageClass(cls)
            found.append(
                Cause(kind, reason or 0, queue or "", queue_manager or "", messages, first, last)
            )
        return sorted(
            found, key=lambda c: (-c.messages, c.cls, c.reason, c.dest_q_name, c.dest_q_mgr_name)
        )


def count_causes(rows: Iterable[Mapping[str, Any]]) -> Sequence[Cause]:
    """Return the causes of rows that have at least the columns `Cause.COLUMNS`."""
    counted = CauseCounter()
    for row in rows:
        counted.add(row)
    return counted.causes()
