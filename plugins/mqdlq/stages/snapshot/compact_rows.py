"""Find the settled messages among the keys that a browse meets: they need no full row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mqdlq.errors import LakeError
from mqdlq.lake import find_snapshot
from mqdlq.ledger import Ledger, Run, SettledLot
from mqdlq.stages.snapshot.snapshot_options import SnapshotOptions

_KEY: Final = 32
_ENTRY: Final = np.dtype(
    [("key", f"V{_KEY}"), ("message_id", "i8"), ("occurrence", "i4"), ("lot", "i4")]
)


class Known:
    """The settled messages of a run's queue, as far as they count for this run.

    They are held as 57 bytes each, sorted by key: a million take as much as one long message.
    """

    def __init__(self, run: Run, options: SnapshotOptions, ledger: Ledger, lake_root: str) -> None:
        self._run, self._ledger, self._lake_root = run, ledger, lake_root
        self._options = options
        self.lots: list[SettledLot] = []
        self._sort(np.empty(0, _ENTRY))

    def begin(self, now: datetime) -> str:
        """Read what is settled; return why that does not count where it could, or ""."""
        since = self._ledger.snapshots.last_complete(self._run)
        if since is None:
            return ""
        if self._options.rescan:
            return "it was asked for"
        if now - since >= self._options.full_every:
            return f"the last one was at {since:%Y-%m-%d %H:%M:%S} UTC"
        lots = self._ledger.settled.lots_for(self._run)
        standing = {name: self._stands(name) for name in {lot.snapshot_id for lot in lots}}
        self.lots = [lot for lot in lots if standing[lot.snapshot_id]]
        parts = list(self._read())
        if parts:
            self._sort(np.concatenate(parts))
        return "" if lots else "nothing was left under the rules of now"

    def among(self, keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """Return for each key, in browse order, the entry it is a sighting of; -1 if of none.

        Of equal messages, as many count as settled as the ledger has.
        """
        found = np.full(len(keys), -1)
        if not len(self._entries):
            return found
        wanted = np.frombuffer(b"".join(keys), ">u8").reshape(len(keys), _KEY // 8)
        starts = np.searchsorted(self._heads, wanted[:, 0])
        inside = np.minimum(starts, len(self._heads) - 1)
        # Nearly all keys are alone of their kind: they are met all at once.
        hits = np.flatnonzero((self._keys[inside] == wanted).all(axis=1) & ~self._met[inside])
        places, first = np.unique(starts[hits], return_index=True)
        found[hits[first]] = places
        self._met[places] = True
        others = (found < 0) & (self._heads[inside] == wanted[:, 0])
        for at in np.flatnonzero(others).tolist():
            found[at] = self._meet(int(starts[at]), wanted[at])
        return found

    def entries(self, places: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        """Return the occurrences and the lots (by their places in `lots`) of entries."""
        chosen = self._entries[places]
        return chosen["occurrence"], chosen["lot"]

    def _meet(self, start: int, key: npt.NDArray[np.uint64]) -> int:
        """Return the first entry from there on that has the key and was not met, -1 if none."""
        for place in range(start, len(self._heads)):
            if self._heads[place] != key[0]:
                break
            if not self._met[place] and (self._keys[place] == key).all():
                self._met[place] = True
                return place
        return -1

    def _read(self) -> Iterator[npt.NDArray[Any]]:
        named = self._run.named  # a run for named messages reads these in full
        for number, lot in enumerate(self.lots):
            for settled in self._ledger.settled.of_lot(lot):
                messages = [one for one in settled if one.message_key not in named]
                if not messages:
                    continue
                part = np.empty(len(messages), _ENTRY)
                joined = b"".join([message.message_key for message in messages])
                part["key"] = np.frombuffer(joined, f"V{_KEY}")
                part["message_id"] = [message.message_id for message in messages]
                part["occurrence"] = [message.occurrence for message in messages]
                part["lot"] = number
                yield part

    def _sort(self, entries: npt.NDArray[Any]) -> None:
        """Sort by key and occurrence; of a message that was settled twice the later time counts."""
        order = np.lexsort((entries["lot"], entries["message_id"]))
        entries = entries[order]
        last = np.append(entries["message_id"][1:] != entries["message_id"][:-1], True)
        entries = entries[last[: len(entries)]]
        heads = _words(entries)[:, 0]
        self._entries = entries[np.lexsort((entries["occurrence"], heads))]
        self._keys = _words(self._entries)
        self._heads = self._keys[:, 0].astype(np.uint64)
        self._met = np.zeros(len(self._entries), bool)

    def _stands(self, snapshot_id: str) -> bool:
        """Whether the snapshot that holds the full rows is still in the lake."""
        try:
            find_snapshot(self._lake_root, snapshot_id)
        except LakeError:
            return False
        return True


def _words(entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the keys of entries as rows of four numbers."""
    return np.frombuffer(entries["key"].tobytes(), ">u8").reshape(len(entries), _KEY // 8)
