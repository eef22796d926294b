"""The messages of a run's snapshot that need no row in the ledger.

A run does nothing with a message that earlier runs have settled, nor, if it is for named messages,
with one that it does not name. These messages belong to the run's snapshot, so each has an outcome
in the run, recorded by count. A settled message keeps its earlier outcome if a browse meets it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.controls.work import WorkItem
from mqdlq.lake import settled_rows, snapshot_rows
from mqdlq.lake.schema import SETTLED
from mqdlq.ledger import Ledger
from mqdlq.ledger.messages import BrowseOrderReader
from mqdlq.ledger.tables import Ending, OutcomeFact, Run
from mqdlq.model import Action, Disposition, Outcome

_BATCH_SIZE = 500


@dataclass(frozen=True, slots=True)
class VanishedMessage:
    """A settled message that the last browse did not meet, by its id in the ledger."""

    message_id: int
    browse_seq: int
    expires_at: datetime | None
    settled: Ending


class UntouchedMessages:
    """Messages of a run's snapshot with which the run does nothing.

    These are the messages with compact rows, which earlier runs have settled. In a run for named
    messages they are all others: other runs may move these in the meantime, so a browse need not
    meet them. A browse recognises the messages by their keys. Messages with equal keys are counted,
    since they are indistinguishable.
    """

    def __init__(self, location: str, named: Collection[bytes] = ()) -> None:
        self._rows: pa.Table | None = None  # None for messages that a run does not name
        if named:
            self._keys = [key for key in read_all_keys(location) if key not in named]
        else:
            batches = list(settled_rows(location))
            self._rows = pa.Table.from_batches(batches) if batches else SETTLED.empty_table()
            self._keys = self._rows["message_key"].to_pylist()
        self._not_yet_seen: Counter[bytes] = Counter()
        self.start_browse()

    def start_browse(self) -> None:
        self._not_yet_seen = Counter(self._keys)

    def recognize(self, key: bytes) -> bool:
        """Return whether a browsed message is one of these, and count it as seen."""
        if self._not_yet_seen.get(key, 0) <= 0:
            return False
        self._not_yet_seen[key] -= 1
        return True

    def mark_all_seen(self) -> None:
        self._not_yet_seen.clear()

    @property
    def is_complete(self) -> bool:
        """Whether the last browse met all messages that it had to meet."""
        return self._rows is None or not +self._not_yet_seen

    def count_settled(self) -> Counter[Ending]:
        if self._rows is None:
            return Counter({Ending(0, "", "", "", Outcome.NOT_SELECTED): len(self._keys)})
        names = ["outcome", "rule", "action", "target_q", "target_q_mgr"]
        counted = self._rows.select(names).group_by(names).aggregate([([], "count_all")])
        return Counter({_read_settled(row): row["count_all"] for row in counted.to_pylist()})

    def find_missing(self, run: Run, ledger: Ledger) -> list[VanishedMessage]:
        """Return the messages that the last browse had to meet and did not."""
        if self._rows is None or self.is_complete:
            return []
        waiting = +self._not_yet_seen
        keys = list(waiting)
        wanted = pc.is_in(self._rows["message_key"], pa.array(keys, pa.binary()))
        ids: dict[tuple[bytes, int], int] = {}
        for start in range(0, len(keys), _BATCH_SIZE):
            ids |= ledger.messages.ids(run, keys[start : start + _BATCH_SIZE])
        found = []
        for row in reversed(self._rows.filter(wanted).to_pylist()):
            key = row["message_key"]
            if waiting[key] > 0:  # of equal messages, the last are missing
                waiting[key] -= 1
                id_ = ids[key, row["occurrence"]]
                seq, expires_at = row["browse_seq"], row["expires_at"]
                found.append(VanishedMessage(id_, seq, expires_at, _read_settled(row)))
        return found


def newly_settled(
    items: Iterable[WorkItem], outcomes: BrowseOrderReader[OutcomeFact | None], run: Run
) -> Iterator[tuple[int, bool, Ending]]:
    """Yield the messages that later runs may skip while the rules stay the same.

    They are (message_id, whether only for runs that carry attempts on, ending).

    A message may have been tried before it reached an IGNORE or exhausted its rules. A run that
    counts attempts from zero tries such a message again.
    """
    for item in items:
        fact = next(iter(outcomes.rows_for(item.message.browse_seq)), None)
        if fact is None or item.is_in_doubt:
            continue
        needs_carry = fact.outcome is Outcome.EXHAUSTED
        if fact.outcome is Outcome.LEFT_BY_RULE:
            needs_carry = item.steps[0].action is not Action.IGNORE
        elif fact.outcome.disposition is Disposition.PLANNED and not needs_carry:
            continue
        if run.carry_attempts or not needs_carry:
            settled = Ending(fact.rule, fact.action, fact.target_q, fact.target_q_mgr, fact.outcome)
            yield item.message.message_id, needs_carry, settled


def read_message_keys(location: str) -> Iterator[bytes]:
    """Yield the message keys of a snapshot's full rows, in browse order."""
    return (row["message_key"] for row in snapshot_rows(location, ["message_key"]))


def read_all_keys(location: str) -> Iterator[bytes]:
    """Yield the message keys of a snapshot's full rows, then those of its compact rows."""
    yield from read_message_keys(location)
    for batch in settled_rows(location, ["message_key"]):
        yield from batch.column("message_key").to_pylist()


def _read_settled(row: dict[str, Any]) -> Ending:
    return Ending(
        row["rule"], row["action"], row["target_q"], row["target_q_mgr"], Outcome(row["outcome"])
    )
