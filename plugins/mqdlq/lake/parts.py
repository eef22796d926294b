"""One Parquet file of a snapshot: rows one by one in, row groups of bounded size out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.lake import storage

_ROWS_TO_A_GROUP: Final = 8192
_BYTES_TO_A_GROUP: Final = 8 << 20
"""A row group is written as soon as it has come to either; a longer value makes one of its own."""


class Part:
    """A Parquet file in a directory; both are made when the first row comes.

    It appears under its name when the `opened` stack is closed without an exception.
    """

    def __init__(self, directory: str, schema: pa.Schema, opened: ExitStack) -> None:
        self._directory, self._schema, self._opened = directory, schema, opened
        self._rows: list[Mapping[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._parquet: pq.ParquetWriter | None = None

    def add(self, row: Mapping[str, Any], size: int = 0) -> None:
        """Add a row; `size` is what its longest value takes, where that matters."""
        if self._bytes + size > _BYTES_TO_A_GROUP:
            self.flush()
        self._rows.append(row)
        self._bytes += size
        if len(self._rows) == _ROWS_TO_A_GROUP:
            self.flush()

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows as columns, in a part that gets no other ones."""
        self._batches.append(batch)
        if sum(len(held) for held in self._batches) >= _ROWS_TO_A_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write the rows that have waited."""
        if self._rows:
            self._batches.append(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
        if self._batches:
            self.begin().write_table(pa.Table.from_batches(self._batches))
        self._rows, self._batches, self._bytes = [], [], 0

    def begin(self) -> pq.ParquetWriter:
        """Return the open file, made if there is none yet."""
        if self._parquet is None:
            storage.make_directory(self._directory)
            place = f"{self._directory}/part-00000.parquet"
            file = self._opened.enter_context(storage.new_file(place))
            bodies = [field.name for field in self._schema if field.name == "payload"]
            self._parquet = self._opened.enter_context(
                pq.ParquetWriter(
                    file,
                    self._schema,
                    # Bodies neither repeat nor are looked for: no dictionary, no minimum in the
                    # footer.
                    use_dictionary=not bodies,
                    write_statistics=not bodies,
                )
            )
        return self._parquet
