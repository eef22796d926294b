"""Snapshots: rows and a manifest in, a directory that exists once it is complete, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from hashlib import sha256
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.errors import LakeError
from mqdlq.lake import storage
from mqdlq.lake.descriptions import SnapshotManifest
from mqdlq.lake.locations import snapshot_directory, snapshot_pattern
from mqdlq.lake.schema import HEADERS

MANIFEST: Final = "_MANIFEST.json"
_CONTENTS: Final = ("headers", "payload", "_", ".")
_ROWS_TO_A_GROUP: Final = 8192


class SnapshotWriter:
    """Write one snapshot; used in a `with` block, it exists only after `publish`.

    What an unfinished writing left under the same id is removed; a finished snapshot of that id
    is a `LakeError`.
    """

    def __init__(self, root: str, queue_manager: str, queue: str, snapshot_id: str) -> None:
        self.directory = snapshot_directory(root, queue_manager, queue, snapshot_id)
        self._queue_manager, self._queue, self._snapshot_id = queue_manager, queue, snapshot_id
        self._rows: list[Mapping[str, Any]] = []
        self._messages = 0
        self._bytes = 0
        self._keys = sha256()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if storage.exists(f"{self.directory}/{MANIFEST}"):
            raise LakeError(f"{self.directory} is a finished snapshot; a new one needs a new id")
        storage.make_empty_directory(self.directory, _CONTENTS)
        storage.make_empty_directory(f"{self.directory}/headers", ())
        file = self._open.enter_context(
            storage.new_file(f"{self.directory}/headers/part-00000.parquet")
        )
        self._parquet = self._open.enter_context(pq.ParquetWriter(file, HEADERS))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, traceback)

    def write(self, row: Mapping[str, Any]) -> None:
        """Add a message, a row as `mqdlq.headers.header_row` makes it, in browse order."""
        self._rows.append(row)
        self._messages += 1
        self._bytes += row["total_length"]
        self._keys.update(row["message_key"])
        if len(self._rows) == _ROWS_TO_A_GROUP:
            self._flush()

    def publish(
        self,
        *,
        taken_at: datetime,
        taken_by: str,
        rules_digest: str,
        rules_text: str,
        nul_as_blank: bool = False,
        imported_from: tuple[str, ...] = (),
    ) -> SnapshotManifest:
        """Close the data and write the manifest: from now on the snapshot exists."""
        self._flush()
        self._open.close()
        manifest = SnapshotManifest(
            snapshot_id=self._snapshot_id,
            queue_manager=self._queue_manager,
            queue=self._queue,
            taken_at=taken_at,
            taken_by=taken_by,
            messages=self._messages,
            bytes=self._bytes,
            digest=self._keys.hexdigest(),
            rules_digest=rules_digest,
            rules_text=rules_text,
            nul_as_blank=nul_as_blank,
            imported_from=imported_from,
        )
        storage.write_text(f"{self.directory}/{MANIFEST}", manifest.to_json())
        return manifest

    def _flush(self) -> None:
        self._parquet.write_table(pa.Table.from_pylist(self._rows, schema=HEADERS))
        self._rows.clear()


def find_snapshot(root: str, snapshot_id: str) -> str:
    """Return where a finished snapshot stands, known by its id alone; raise `LakeError` if none."""
    found = storage.matching(root, f"{snapshot_pattern(snapshot_id)}/{MANIFEST}")
    if not found:
        raise LakeError(f"{root} holds no finished snapshot {snapshot_id}")
    return found[0].removesuffix(f"/{MANIFEST}")


def read_manifest(directory: str) -> SnapshotManifest:
    """Return the manifest of a snapshot; raise `LakeError` where it was never finished."""
    place = f"{directory}/{MANIFEST}"
    text = storage.read_text(place)
    if text is None:
        raise LakeError(
            f"{directory} is no snapshot: it has no {MANIFEST}, which is written last; "
            "take a new snapshot"
        )
    return SnapshotManifest.from_json(text, place)


def snapshot_rows(directory: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a finished snapshot in browse order, all columns or those named."""
    read_manifest(directory)
    headers = f"{directory}/headers"
    for name in storage.file_names(headers, ".parquet"):
        files, path = storage.filesystem(f"{headers}/{name}")
        with files.open(path, "rb") as file:
            for batch in pq.ParquetFile(file).iter_batches(columns=columns and list(columns)):
                yield from batch.to_pylist()
