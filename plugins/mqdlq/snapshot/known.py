"""Which messages need no full row: browsed keys in, what the ledger has parked of them out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from mqdlq.errors import LakeError
from mqdlq.lake import find_snapshot
from mqdlq.ledger import Ledger, Parked, Run, parking
from mqdlq.snapshot.options import SnapshotOptions

_AT_ONCE = 500  # keys; below every database's limit of bound parameters


class Known:
    """The parked messages of a run's queue, as far as they count for this run.

    They are asked for some hundred at a time, so that a deep queue takes no memory; which were met
    is one bit for each.
    """

    def __init__(self, run: Run, options: SnapshotOptions, ledger: Ledger, lake_root: str) -> None:
        self._run, self._ledger, self._lake_root = run, ledger, lake_root
        self._runs: set[str] = set()
        self._standing: dict[str, bool] = {}
        self._met = bytearray()
        self._options = options

    def begin(self, now: datetime) -> str:
        """Find out whether parked messages count; return why they do not if they could, or ""."""
        since = parking.last_complete_snapshot(self._ledger, self._run)
        if since is None:
            return ""
        if self._options.rescan:
            return "it was asked for"
        if now - since >= self._options.full_every:
            return f"the last one was at {since:%Y-%m-%d %H:%M:%S} UTC"
        self._runs = parking.parking_runs(self._ledger, self._run)
        return "" if self._runs else "the rules are others than they were"

    def among(self, keys: Collection[bytes]) -> list[Parked | None]:
        """Return for each key, in browse order, the parked message it is; None if it is none."""
        if not self._runs:
            return [None] * len(keys)
        return list(self._find(list(keys)))

    def _find(self, keys: list[bytes]) -> Iterator[Parked | None]:
        for start in range(0, len(keys), _AT_ONCE):
            batch = keys[start : start + _AT_ONCE]
            found = parking.parked_messages(self._ledger, self._run, self._runs, set(batch))
            for key in batch:
                yield next((p for p in found.get(key, ()) if self._counts(p)), None)

    def _counts(self, parked: Parked) -> bool:
        """Whether it is there to be met, and was not before; it is met by that."""
        return self._stands(parked.snapshot_id) and self._meet(parked.message_id)

    def _meet(self, number: int) -> bool:
        at, bit = number // 8, 1 << number % 8
        if at >= len(self._met):
            self._met.extend(bytes(at + 1 - len(self._met)))
        was_met = self._met[at] & bit
        self._met[at] |= bit
        return not was_met

    def _stands(self, snapshot_id: str) -> bool:
        """Whether the snapshot that holds the full row is still in the lake."""
        if snapshot_id not in self._standing:
            try:
                find_snapshot(self._lake_root, snapshot_id)
                self._standing[snapshot_id] = True
            except LakeError:
                self._standing[snapshot_id] = False
        return self._standing[snapshot_id]
