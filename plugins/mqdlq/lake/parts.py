"""Write one Parquet file of a snapshot row by row, in row groups of limited size."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.lake import storage
from mqdlq.lake.descriptions import FileDigest
from mqdlq.lake.files import DigestedFile

PART: Final = "part-00000.parquet"
"""The name of the only file in the directory of a part."""

ROWS_TO_A_GROUP: Final = 8192
_BYTES_TO_A_GROUP: Final = 8 << 20
"""A row group is written when it reaches either limit; a longer value has its own group."""


class Part:
    """A Parquet file in a directory; both are created with the first row.

    The file appears under its name when the stack `opened` is closed without an exception.
    """

    def __init__(self, directory: str, schema: pa.Schema, opened: ExitStack) -> None:
        self._directory, self._schema, self._opened = directory, schema, opened
        self._rows: list[Mapping[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: DigestedFile | None = None
        self._parquet: pq.ParquetWriter | None = None

    @property
    def digest(self) -> FileDigest | None:
        """The digest of the file, complete when `opened` is closed; None if there is no file."""
        return self._file.digest if self._file else None

    def add(self, row: Mapping[str, Any], size: int = 0) -> None:
        """Add a row; `size` is the length of its longest value in bytes, if it may be large."""
        if self._bytes + size > _BYTES_TO_A_GROUP:
            self.flush()
        self._rows.append(row)
        self._bytes += size
        if len(self._rows) == ROWS_TO_A_GROUP:
            self.flush()

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows as columns, to a part that has only such rows."""
        self._batches.append(batch)
        if sum(len(held) for held in self._batches) >= ROWS_TO_A_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows."""
        if self._rows:
            self._batches.append(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
        if self._batches:
            self.begin().write_table(pa.Table.from_batches(self._batches))
        self._rows, self._batches, self._bytes = [], [], 0

    def begin(self) -> pq.ParquetWriter:
        """Return the open file; create it first if necessary."""
        if self._parquet is None:
            storage.make_directory(self._directory)
            place = f"{self._directory}/{PART}"
            self._file = DigestedFile(self._opened.enter_context(storage.new_file(place)))
            bodies = [field.name for field in self._schema if field.name == "payload"]
            self._parquet = self._opened.enter_context(
                pq.ParquetWriter(
                    self._file,
                    self._schema,
                    # Bodies do not repeat and are never searched: no dictionary, no statistics in
                    # the footer.
                    use_dictionary=not bodies,
                    write_statistics=not bodies,
                )
            )
        return self._parquet
