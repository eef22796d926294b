"""Write, find, read and remove snapshots: rows and a manifest, which is written last."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.errors import LakeError
from mqdlq.lake import storage
from mqdlq.lake.files import Files, Part, find_row, open_parquet, read_batches
from mqdlq.lake.schema import CHOSEN, HEADERS, PAYLOAD, SETTLED, SnapshotManifest
from mqdlq.lake.storage import checked_id, snapshot_directory

MANIFEST: Final = "_MANIFEST.json"
PART: Final = "part-00000.parquet"
"""The name of the only file in each directory of a snapshot."""
_SCHEMAS: Final = {"headers": HEADERS, "settled": SETTLED, "payload": PAYLOAD, "chosen": CHOSEN}
_CONTENTS: Final = (*_SCHEMAS, "_", ".")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A finished snapshot: its directory and its manifest."""

    directory: str
    manifest: SnapshotManifest

    @classmethod
    def at(cls, directory: str) -> Snapshot:
        """Read the manifest; raise `LakeError` if there is none."""
        place = directory.rstrip("/")
        return cls(place, read_manifest(place))

    @classmethod
    def named(cls, root: str, name: str) -> Snapshot:
        """Read the snapshot with this id in a lake, or in this directory; raise `LakeError`."""
        return cls.at(name if "/" in name.rstrip("/") else find_snapshot(root, name.rstrip("/")))

    @property
    def headers(self) -> Files:
        """The files of the full rows."""
        return self._files("headers")

    @property
    def settled(self) -> Files:
        """The files of its compact rows."""
        return self._files("settled") if self.manifest.settled else {}

    @property
    def chosen(self) -> Files:
        """The file of the messages that its run is for; none if it is for all."""
        return self._files("chosen") if f"chosen/{PART}" in self.manifest.files else {}

    @property
    def payload(self) -> Files:
        """The files of the stored bytes of bodies, encrypted if the manifest names a key."""
        is_stored = self.manifest.payload != "none" and storage.exists(f"{self.directory}/payload")
        return self._files("payload") if is_stored else {}

    def _files(self, directory: str) -> Files:
        """Return the files that the manifest has digests of; without any, all of the directory."""
        names = [name for name in self.manifest.files if name.startswith(f"{directory}/")]
        if not self.manifest.files:
            held = storage.file_names(f"{self.directory}/{directory}", ".parquet")
            names = [f"{directory}/{name}" for name in held]
        return {f"{self.directory}/{one}": self.manifest.files.get(one) for one in sorted(names)}

    @property
    def queue(self) -> tuple[str, str]:
        return self.manifest.queue_manager, self.manifest.queue


class SnapshotWriter:
    """Writer of one snapshot, for a `with` block; the snapshot exists only after `finish`.

    Messages are added in browse order. Files of an unfinished snapshot with the same id are
    removed; a finished snapshot with that id raises `LakeError`.
    """

    def __init__(self, root: str, queue_manager: str, queue: str, snapshot_id: str) -> None:
        self.directory = snapshot_directory(root, queue_manager, queue, snapshot_id)
        self.snapshot_id = snapshot_id
        self._queue_manager, self._queue = queue_manager, queue
        self._messages = self._bytes = self._settled_messages = 0
        self._refers_to: set[str] = set()
        self._keys = sha256()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if storage.exists(f"{self.directory}/{MANIFEST}"):
            raise LakeError(
                "MQDLQ-420", f"{self.directory} is a finished snapshot; give the new one another id"
            )
        storage.make_empty_directory(self.directory, _CONTENTS)
        self._parts = {
            name: Part(f"{self.directory}/{name}/{PART}", schema, self._open)
            for name, schema in _SCHEMAS.items()
        }
        self._parts["headers"].begin()  # readers need the directory even if there are no rows
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, traceback)

    def count(self, message_key: bytes, length: int) -> None:
        """Count a message in browse order; its row may be added later."""
        self._messages += 1
        self._bytes += length
        self._keys.update(message_key)

    def write(self, row: Mapping[str, Any]) -> None:
        """Count and add a message: a row of `mqdlq.headers.header_row`, with optional marks."""
        self.count(row["message_key"], row["total_length"])
        self._parts["headers"].add(row)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add counted messages as columns in the schema `HEADERS`."""
        self._parts["headers"].add_batch(batch)

    def write_chosen(self, browse_seqs: pa.Array) -> None:
        """Add messages that the run is for; without a call, it is for all."""
        self._parts["chosen"].begin()
        self._parts["chosen"].add_batch(pa.RecordBatch.from_arrays([browse_seqs], schema=CHOSEN))

    def write_settled(self, batch: pa.RecordBatch) -> None:
        """Add counted settled messages as columns in the schema `SETTLED`."""
        self._parts["settled"].add_batch(batch)
        self._settled_messages += len(batch)
        self._refers_to.update(batch.column("snapshot_id").unique().to_pylist())

    def write_payload(
        self,
        browse_seq: int,
        message_key: bytes,
        length: int,
        payload: bytes,
        properties: bytes | None = None,
    ) -> None:
        """Add stored bytes of a message's body; `length` is its full length in bytes."""
        values = (browse_seq, message_key, length, payload, properties)
        self._parts["payload"].add(dict(zip(PAYLOAD.names, values, strict=True)), len(payload))

    def finish(self, *, taken_at: datetime, **described: Any) -> SnapshotManifest:
        """Close the data files and write the manifest; with it, the snapshot exists.

        `described` are the fields of the manifest that the writer does not count itself.
        """
        for part in self._parts.values():
            part.flush()
        self._open.close()
        digests = {f"{name}/{PART}": part.digest for name, part in self._parts.items()}
        manifest = SnapshotManifest(
            snapshot_id=self.snapshot_id,
            queue_manager=self._queue_manager,
            queue=self._queue,
            taken_at=taken_at,
            messages=self._messages,
            bytes=self._bytes,
            digest=self._keys.hexdigest(),
            settled=self._settled_messages,
            refers_to=tuple(sorted(self._refers_to)),
            files={name: digest for name, digest in digests.items() if digest is not None},
            **described,
        )
        storage.write_text(f"{self.directory}/{MANIFEST}", manifest.to_json())
        return manifest


def find_snapshot(root: str, snapshot_id: str) -> str:
    """Return the directory of the finished snapshot with this id; raise `LakeError` if none."""
    found = _finished(root, checked_id("snapshot", snapshot_id))
    if not found:
        raise LakeError("MQDLQ-419", f"{root} holds no finished snapshot {snapshot_id}")
    return found[0]


def finished_snapshots(root: str) -> list[Snapshot]:
    """Return the finished snapshots of a lake by queue, the newest first; raise `LakeError`."""
    found = [Snapshot.at(place) for place in _finished(root, "*")]
    found.sort(key=lambda one: (one.manifest.taken_at, one.manifest.snapshot_id), reverse=True)
    return sorted(found, key=lambda one: one.queue)


def _finished(root: str, snapshot_id: str) -> list[str]:
    """Return the directories of finished snapshots of any queue; `*` stands for all ids."""
    places = f"/snapshots/queue_manager=*/queue=*/{snapshot_id}/{MANIFEST}"
    return [place.removesuffix(f"/{MANIFEST}") for place in storage.matching(root, places)]


def remove_snapshot(root: str, directory: str, snapshot_id: str) -> None:
    """Remove a snapshot, which at once no longer exists, its plans, and files left by a removal."""
    storage.remove_directory(directory, MANIFEST)
    for plan in storage.matching(root, f"/plans/{checked_id('snapshot', snapshot_id)}-*"):
        storage.remove_directory(plan, "_PLAN.json")


def snapshot_stands(directory: str) -> bool:
    """Whether a directory still has a finished snapshot, which may have been pruned."""
    return storage.exists(f"{directory}/{MANIFEST}")


def read_manifest(directory: str) -> SnapshotManifest:
    """Return the manifest of a snapshot; raise `LakeError` if the snapshot is unfinished."""
    place = f"{directory}/{MANIFEST}"
    text = storage.read_text(place)
    if text is None:
        raise LakeError(
            "MQDLQ-418",
            f"{directory} is not a snapshot, as it has no {MANIFEST}; take a new snapshot",
        )
    return SnapshotManifest.from_json(text, place)


def snapshot_batches(
    directory: str, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the full rows of a finished snapshot in browse order, with all or the named columns."""
    yield from read_batches(Snapshot.at(directory).headers, columns)


def snapshot_rows(directory: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    for batch in snapshot_batches(directory, columns):
        yield from batch.to_pylist()


def settled_rows(directory: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the compact rows of a finished snapshot in browse order, as batches of columns."""
    yield from read_batches(Snapshot.at(directory).settled, columns)


_ENDING: Final = ["rule", "action", "target_q", "target_q_mgr", "outcome"]


def count_settled(directory: str) -> list[dict[str, Any]]:
    """Count the compact rows of a finished snapshot by how their messages ended, in `count_all`."""
    schema = pa.schema([SETTLED.field(name) for name in _ENDING])
    rows = pa.Table.from_batches(settled_rows(directory, _ENDING), schema)
    found: list[dict[str, Any]] = rows.group_by(_ENDING).aggregate([([], "count_all")]).to_pylist()
    return found


def settled_places(
    location: str, keys: Collection[bytes] | pa.ChunkedArray
) -> dict[bytes, set[int]]:
    """Return which occurrences of these keys have compact rows in a snapshot."""
    wanted = keys if isinstance(keys, pa.ChunkedArray) else pa.array(list(keys), pa.binary())
    places: dict[bytes, set[int]] = defaultdict(set)
    for batch in settled_rows(location, ["message_key", "occurrence"]):
        for row in batch.filter(pc.is_in(batch["message_key"], wanted)).to_pylist():
            places[row["message_key"]].add(row["occurrence"])
    return places


def expiring_keys(directory: str, after: datetime, until: datetime) -> Counter[bytes]:
    """Count, by key, the messages of a snapshot that expire after one time and until another."""
    found: Counter[bytes] = Counter()
    for batch in _all_batches(directory, ["message_key", "expires_at"]):
        at = batch.column("expires_at")
        expires = pc.and_(pc.greater(at, after), pc.less_equal(at, until))
        found.update(batch.column("message_key").filter(expires).to_pylist())
    return found


def count_keys(directory: str, keys: Collection[bytes] | None = None) -> Counter[bytes]:
    """Count the messages of a finished snapshot by key, or those that have one of these keys."""
    # Not by pc.is_in, which builds a new table of all keys for each batch.
    wanted, found = frozenset(keys or ()), Counter[bytes]()
    for batch in _all_batches(directory, ["message_key"]):
        held = batch.column("message_key").to_pylist()
        found.update(held if keys is None else (key for key in held if key in wanted))
    return found


def _all_batches(directory: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield these columns of full and of compact rows, which both have them."""
    snapshot = Snapshot.at(directory)
    yield from read_batches({**snapshot.headers, **snapshot.settled}, columns)


def payload_rows(directory: str) -> Iterator[dict[str, Any]]:
    """Yield the stored payload of a finished snapshot, encrypted if the manifest names a key."""
    for batch in read_batches(Snapshot.at(directory).payload, rows=16):
        yield from batch.to_pylist()


def payload_row(directory: str, browse_seq: int) -> dict[str, Any] | None:
    """Return the stored payload of one message, None if there is none; only its group is read."""
    return find_row(Snapshot.at(directory).payload, "browse_seq", browse_seq)


def payload_groups(
    snapshot: Snapshot, columns: Sequence[str], start: int = 0
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield the stored payload of a snapshot by row groups, with columns of the same messages.

    `start` is the number of the first group. A group has some megabytes, or one longer body.
    """
    for location, digest in snapshot.payload.items():
        with open_parquet(location, digest) as file:
            for number in range(start, file.num_row_groups):
                group = file.read_row_group(number)
                ends = pc.min_max(group["browse_seq"]).as_py()
                yield group, rows_of(snapshot, ends["min"], ends["max"], columns)


def rows_of(snapshot: Snapshot, first: int, last: int, columns: Sequence[str]) -> pa.Table:
    """Return these columns of the full rows whose browse_seq is in this range, both ends included.

    The statistics of the column say which groups are read.
    """
    found, is_meant = [], (pc.field("browse_seq") >= first) & (pc.field("browse_seq") <= last)
    for location, digest in snapshot.headers.items():
        with open_parquet(location, digest) as file:
            place = file.schema_arrow.get_field_index("browse_seq")
            for group in range(file.num_row_groups):
                known = file.metadata.row_group(group).column(place).statistics
                if known is None or (known.min <= last and known.max >= first):
                    found.append(file.read_row_group(group, list(columns)).filter(is_meant))
    return pa.concat_tables(found) if found else pa.table([], schema=pa.schema([]))


def whole_rows(directory: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield these columns of every message of a finished snapshot, settled messages last."""
    yield from snapshot_rows(directory, columns)
    yield from full_rows_of_settled(directory, columns)


def newest_rows(
    snapshots: Iterable[Snapshot], columns: Sequence[str]
) -> Iterator[tuple[Snapshot, dict[str, Any]]]:
    """Yield these columns of the messages of several snapshots, each from its newest row."""
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
    for batch in settled_rows(directory, ["browse_seq", "message_key", "snapshot_id"]):
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
