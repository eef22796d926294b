"""Read full rows of all messages of snapshots, including settled messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mqdlq.errors import LakeError
from mqdlq.lake.snapshots import Snapshot, read_manifest, settled_rows, snapshot_rows

_COMPACT = ["browse_seq", "message_key", "snapshot_id"]


def whole_rows(directory: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield these columns of every message of a finished snapshot, settled messages last.

    Raises `LakeError` like `full_rows_of_settled`.
    """
    yield from snapshot_rows(directory, columns)
    yield from full_rows_of_settled(directory, columns)


def newest_rows(
    snapshots: Iterable[Snapshot], columns: Sequence[str]
) -> Iterator[tuple[Snapshot, dict[str, Any]]]:
    """Yield these columns, which must include `message_key`, of the messages of several snapshots.

    If several snapshots of a queue have a message, its row is that of the newest.
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


def full_rows_of_settled(directory: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield these columns of the settled messages of a finished snapshot.

    The values are those of the snapshot with the full row, but `browse_seq` is that of this one.
    `browsed_at` is when this snapshot was taken. Raises `LakeError` if a full row is missing;
    pruning never removes it.
    """
    manifest = read_manifest(directory)
    waiting: dict[str, dict[bytes, list[int]]] = defaultdict(lambda: defaultdict(list))
    for batch in settled_rows(directory, _COMPACT):
        for row in batch.to_pylist():
            waiting[row["snapshot_id"]][row["message_key"]].append(row["browse_seq"])
    siblings = directory.rstrip("/").rsplit("/", 1)[0]
    for snapshot_id, places in sorted(waiting.items()):
        wanted = sorted({"message_key", *columns})
        for row in snapshot_rows(f"{siblings}/{snapshot_id}", wanted):
            # Equal messages have equal rows, so any row fits any position.
            if here := places.get(row["message_key"]):
                row["browse_seq"] = here.pop(0)
                row["browsed_at"] = manifest.taken_at
                yield {name: row[name] for name in columns if name in row}
        missing = sum(map(len, places.values()))
        if missing:
            raise LakeError(
                "MQDLQ-405",
                f"{siblings}/{snapshot_id} lacks {missing} messages that snapshot"
                f" {manifest.snapshot_id} refers to; take a full snapshot",
            )
