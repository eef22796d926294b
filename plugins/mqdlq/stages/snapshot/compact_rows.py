"""Record in the ledger why the messages of a snapshot are dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mqdlq.causes import COLUMNS, CauseCounter, CountedCause
from mqdlq.errors import LakeError
from mqdlq.lake import find_snapshot, full_rows_of_settled, snapshot_rows
from mqdlq.ledger import Ledger
from mqdlq.ledger.snapshots import SettledLot
from mqdlq.ledger.tables import Run
from mqdlq.rules import treatment_changes
from mqdlq.stages.snapshot.snapshot_options import SnapshotOptions

MOST_CAUSES_RECORDED: Final = 1_000
"""How many causes of a run have their own row in the ledger; the others have one for each reason.

A run with 10,000 destinations would add 10,000 rows to the ledger each time, and a list of so many
causes helps nobody.
"""


def record_causes(run: Run, *, ledger: Ledger) -> None:
    """Record once why the messages of a run are dead letters, those settled by earlier runs too.

    A run for named messages records these only. If the rows of settled messages cannot be read,
    the other messages are recorded without them.
    """
    snapshot = ledger.snapshots.of_run(run.run_id)
    if snapshot is None or ledger.snapshots.causes(run.run_id):
        return
    try:
        found = _count(run, snapshot.location, with_settled=not run.named)
    except (LakeError, OSError):  # the report says what is missing
        found = _count(run, snapshot.location, with_settled=False)
    ledger.snapshots.record_causes(run.run_id, found)


def _count(run: Run, location: str, *, with_settled: bool) -> list[CountedCause]:
    counter = CauseCounter()
    for row in snapshot_rows(location, ("message_key", *COLUMNS)):
        if not run.named or row["message_key"] in run.named:
            counter.add_row(row)
    if with_settled:
        for row in full_rows_of_settled(location, COLUMNS):
            counter.add_row(row, is_settled=True)
    return counter.counted(MOST_CAUSES_RECORDED)


# Find the browsed messages that the ledger knows as settled and that need only a compact row.

_KEY_LENGTH: Final = 32
_ENTRY: Final = np.dtype(
    [("key", f"V{_KEY_LENGTH}"), ("message_id", "i8"), ("occurrence", "i4"), ("lot", "i4")]
)


class SettledMessageIndex:
    """The settled messages of a run's queue that need no full row in this run.

    Each takes 57 bytes, sorted by key: a million messages take as much memory as one long message.
    """

    def __init__(self, run: Run, options: SnapshotOptions, ledger: Ledger, lake_root: str) -> None:
        self._run, self._ledger, self._lake_root = run, ledger, lake_root
        self._options = options
        self.lots: list[SettledLot] = []
        self._sort_entries(np.empty(0, _ENTRY))

    def load(self, now: datetime) -> str:
        """Read the settled messages; return why all messages are read in full instead, or ""."""
        since = self._ledger.snapshots.last_complete(self._run)
        if since is None:
            return ""
        if self._options.rescan:
            return "it was requested"
        if now - since >= self._options.full_every:
            return f"the last one was at {since:%Y-%m-%d %H:%M:%S} UTC"
        if treatment_changes(self._run.rules_text):
            return "the rules compare ages, remaining expiry or attempts"
        lots = self._ledger.settled.lots_for(self._run)
        standing = {name: self._is_in_lake(name) for name in {lot.snapshot_id for lot in lots}}
        self.lots = [lot for lot in lots if standing[lot.snapshot_id]]
        parts = list(self._read_entries())
        if parts:
            self._sort_entries(np.concatenate(parts))
        return "" if lots else "no message is settled under the current rules"

    def match(self, keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """Return for each key, in browse order, its entry, or -1 for an unsettled message.

        Equal messages match as many entries as there are.
        """
        found = np.full(len(keys), -1)
        if not len(self._entries):
            return found
        wanted = np.frombuffer(b"".join(keys), ">u8").reshape(len(keys), _KEY_LENGTH // 8)
        starts = np.searchsorted(self._key_prefixes, wanted[:, 0])
        inside = np.minimum(starts, len(self._key_prefixes) - 1)
        # Nearly all keys are unique and are matched all at once.
        hits = np.flatnonzero(
            (self._keys[inside] == wanted).all(axis=1) & ~self._is_matched[inside]
        )
        places, first = np.unique(starts[hits], return_index=True)
        found[hits[first]] = places
        self._is_matched[places] = True
        others = (found < 0) & (self._key_prefixes[inside] == wanted[:, 0])
        for at in np.flatnonzero(others).tolist():
            found[at] = self._match_one(int(starts[at]), wanted[at])
        return found

    def entries(self, places: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        """Return the occurrences of entries and their lots, as positions in `lots`."""
        chosen = self._entries[places]
        return chosen["occurrence"], chosen["lot"]

    def _match_one(self, start: int, key: npt.NDArray[np.uint64]) -> int:
        """Return the first unmatched entry at or after `start` that has the key, or -1."""
        for place in range(start, len(self._key_prefixes)):
            if self._key_prefixes[place] != key[0]:
                break
            if not self._is_matched[place] and (self._keys[place] == key).all():
                self._is_matched[place] = True
                return place
        return -1

    def _read_entries(self) -> Iterator[npt.NDArray[Any]]:
        named = self._run.named  # a run for named messages reads these in full
        for number, lot in enumerate(self.lots):
            for settled in self._ledger.settled.of_lot(lot):
                messages = [one for one in settled if one.message_key not in named]
                if not messages:
                    continue
                part = np.empty(len(messages), _ENTRY)
                joined = b"".join([message.message_key for message in messages])
                part["key"] = np.frombuffer(joined, f"V{_KEY_LENGTH}")
                part["message_id"] = [message.message_id for message in messages]
                part["occurrence"] = [message.occurrence for message in messages]
                part["lot"] = number
                yield part

    def _sort_entries(self, entries: npt.NDArray[Any]) -> None:
        """Sort by key and occurrence; if a message was settled twice, the later entry counts."""
        order = np.lexsort((entries["lot"], entries["message_id"]))
        entries = entries[order]
        last = np.append(entries["message_id"][1:] != entries["message_id"][:-1], True)
        entries = entries[last[: len(entries)]]
        heads = _split_keys(entries)[:, 0]
        self._entries = entries[np.lexsort((entries["occurrence"], heads))]
        self._keys = _split_keys(self._entries)
        self._key_prefixes = self._keys[:, 0].astype(np.uint64)
        self._is_matched = np.zeros(len(self._entries), bool)

    def _is_in_lake(self, snapshot_id: str) -> bool:
        try:
            find_snapshot(self._lake_root, snapshot_id)
        except LakeError:
            return False
        return True


def _split_keys(entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(entries["key"].tobytes(), ">u8").reshape(len(entries), _KEY_LENGTH // 8)
