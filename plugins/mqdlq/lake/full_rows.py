"""Read full rows of all messages of snapshots, parked messages included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mqdlq.errors import LakeError
from mqdlq.lake.snapshots import Snapshot, parked_rows, read_manifest, snapshot_rows

_COMPACT = ["browse_seq", "message_key", "snapshot_id"]


def whole_rows(directory: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield these columns of every message of a finished snapshot, parked ones included and last.

    Raises `LakeError` as `rows_of_parked` does.
    """
    yield from snapshot_rows(directory, columns)
    yield from rows_of_parked(directory, columns)


def newest_rows(
    snapshots: Iterable[Snapshot], columns: Sequence[str]
) -> Iterator[tuple[Snapshot, dict[str, Any]]]:
    """Yield these columns, `message_key` among them, of the messages of several snapshots.

    A message that is in several snapshots of a queue is given as the newest has it.
    """
    seen: set[tuple[str, str, bytes]] = set()
    for snapshot in sorted(snapshots, key=lambda each: each.manifest.taken_at, reverse=True):
        here = set()
        for row in whole_rows(snapshot.directory, columns):
            key = *snapshot.queue, row["message_key"]
            if key not in seen:
                here.add(key)
                yield snapshot, row
        seen |= here


def rows_of_parked(directory: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield these columns of the parked messages of a finished snapshot.

    Each comes as the snapshot has it that holds its full row, but with the `browse_seq` it has in
    this one. Raises `LakeError` where a full row is not to be found, which pruning never leads to.
    """
    waiting: dict[str, dict[bytes, list[int]]] = defaultdict(lambda: defaultdict(list))
    for batch in parked_rows(directory, _COMPACT):
        for row in batch.to_pylist():
            waiting[row["snapshot_id"]][row["message_key"]].append(row["browse_seq"])
    siblings = directory.rstrip("/").rsplit("/", 1)[0]
    for snapshot_id, places in sorted(waiting.items()):
        wanted = sorted({"message_key", *columns})
        for row in snapshot_rows(f"{siblings}/{snapshot_id}", wanted):
            # Equal messages have equal rows, so any of them will do for any place.
            if here := places.get(row["message_key"]):
                row["browse_seq"] = here.pop(0)
                yield {name: row[name] for name in columns if name in row}
        missing = sum(map(len, places.values()))
        if missing:
            raise LakeError(
                f"{siblings}/{snapshot_id} lacks {missing} messages that snapshot"
                f" {read_manifest(directory).snapshot_id} says it holds; take a full snapshot"
            )
