"""Write and read the Parquet files of the lake, and notice a file that was altered or damaged.

A file of a snapshot has a digest for each block of its bytes, which the manifest holds. A reader
verifies the blocks that it reads, wherever it runs, so nothing that was altered is ever parsed.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from hashlib import sha256
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.errors import LakeError
from mqdlq.lake import storage
from mqdlq.lake.schema import FileDigest

BLOCK: Final = 4 << 20
"""The length of a block in bytes; a reader has at most two blocks of a file in memory."""

REMEDIES: Final = {
    "snapshots": "put the file back from a backup of the lake, or start a new run, which takes a"
    " new snapshot",
    "plans": "start a new run, which makes a new plan",
    "archive": "put the file back from a backup of the lake; its messages cannot be restored"
    " without it",
}
"""What to do about an unreadable file, by the directory of the lake that it is in."""


class MissingFileError(LakeError):
    """A file of the lake is not there."""


class DigestedFile(io.RawIOBase):
    """A file that is written from its beginning to its end, and digested block by block."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._length = 0
        self._blocks: list[Any] = []

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._length

    def write(self, data: Any) -> int:
        self._file.write(data)
        rest = memoryview(data).cast("B")
        written = len(rest)
        while rest:
            room = BLOCK - self._length % BLOCK
            if room == BLOCK:
                self._blocks.append(sha256())
            self._blocks[-1].update(rest[:room])
            self._length += len(rest[:room])
            rest = rest[room:]
        return written

    @property
    def digest(self) -> FileDigest:
        return FileDigest(self._length, tuple(block.hexdigest() for block in self._blocks))


class _VerifiedFile(io.RawIOBase):
    """An open file whose blocks are compared with their digests before their bytes are returned."""

    def __init__(self, file: IO[bytes], location: str, digest: FileDigest) -> None:
        self._file, self._location, self._digest = file, location, digest
        self._at = 0
        self._block = lru_cache(maxsize=2)(self._read_block)
        if file.seek(0, io.SEEK_END) != digest.length:
            raise _altered(location, f"it has {file.tell()} bytes instead of {digest.length}")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._digest.length}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        end = self._digest.length
        if size is not None and size >= 0:
            end = min(end, self._at + size)
        parts = []
        while self._at < end:
            number, skipped = divmod(self._at, BLOCK)
            part = self._block(number)[skipped : skipped + end - self._at]
            parts.append(part)
            self._at += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_block(self, number: int) -> bytes:
        start = number * BLOCK
        self._file.seek(start)
        data = self._file.read(BLOCK)
        if sha256(data).hexdigest() != self._digest.blocks[number]:
            where = f"its bytes {start} to {start + len(data)} were changed"
            raise _altered(self._location, where)
        return data


Files = Mapping[str, FileDigest | None]
"""Locations of files, each with its digest, None for a file that is not verified."""


@contextmanager
def open_parquet(
    location: str, digest: FileDigest | None = None, **options: Any
) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; `options` are those of `ParquetFile`.

    With a `digest`, what is read is verified. Raises LakeError, which names the file and the
    remedy, for a file that is missing, altered or damaged, also while the block reads it.
    """
    try:
        with _opened(location, digest) as source, pq.ParquetFile(source, **options) as file:
            yield file
    finally:
        # Arrow would keep what reading took, some ten megabytes, for what it reads next.
        pa.default_memory_pool().release_unused()


@contextmanager
def _opened(location: str, digest: FileDigest | None) -> Iterator[Any]:
    try:
        files, path = storage.filesystem(location)
        with files.open(path, "rb") as opened:
            yield opened if digest is None else _VerifiedFile(opened, location, digest)
    except FileNotFoundError as error:
        raise MissingFileError(
            "MQDLQ-472", f"{location} is missing; {_remedy(location)}"
        ) from error
    except (OSError, pa.ArrowException) as error:
        first = str(error).strip().partition("\n")[0]
        raise LakeError(
            "MQDLQ-471", f"{location} cannot be read: {first}; {_remedy(location)}"
        ) from error


def read_batches(
    files: Files, columns: Sequence[str] | None = None, *, rows: int = 8192
) -> Iterator[pa.RecordBatch]:
    """Yield columns of files in batches of so many rows."""
    for location, digest in files.items():
        with open_parquet(location, digest) as file:
            yield from file.iter_batches(batch_size=rows, columns=columns)


def find_row(files: Files, column: str, value: object) -> dict[str, Any] | None:
    """Return the row that has this value in a column, None without it; only its group is read."""
    for location, digest in files.items():
        with open_parquet(location, digest) as file:
            for group in range(file.num_row_groups):
                values = file.read_row_group(group, [column]).column(0).to_pylist()
                if value in values:
                    rows = file.read_row_group(group).slice(values.index(value), 1)
                    return dict(rows.to_pylist()[0])
    return None


def verify(files: Files) -> None:
    """Read whole files, for a reader that does not verify them; raise LakeError."""
    for location, digest in files.items():
        with _opened(location, digest) as file:
            while digest is not None and file.read(BLOCK):
                pass


def _altered(location: str, what: str) -> LakeError:
    return LakeError("MQDLQ-470", f"{location} was altered or damaged: {what}; {_remedy(location)}")


def _remedy(location: str) -> str:
    """Return what to do; the innermost directory that is known counts."""
    parts = [part for part in location.split("/") if part in REMEDIES]
    return REMEDIES[parts[-1] if parts else "snapshots"]


# Write one Parquet file row by row, in row groups of limited size.

ROWS_TO_A_GROUP: Final = 8192
_BYTES_TO_A_GROUP: Final = 8 << 20
"""A row group is written when it reaches either limit; a longer value has its own group."""

_BODIES: Final = frozenset({"payload", "body"})
"""Columns that do not repeat and are never searched: no dictionary, no statistics in the footer."""


class Part:
    """A Parquet file, which is created with its directory and the first row.

    It appears under its name when the stack `opened` is closed without an exception.
    """

    def __init__(
        self, location: str, schema: pa.Schema, opened: ExitStack, rows: int = ROWS_TO_A_GROUP
    ) -> None:
        self._location, self._schema, self._opened = location, schema, opened
        self._rows_to_a_group = rows
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
        if len(self._rows) == self._rows_to_a_group:
            self.flush()

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows as columns, to a part that has only such rows."""
        self._batches.append(batch)
        if sum(len(held) for held in self._batches) >= self._rows_to_a_group:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._batches.append(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
        if self._batches:
            self.begin().write_table(pa.Table.from_batches(self._batches))
        self._rows, self._batches, self._bytes = [], [], 0

    def begin(self) -> pq.ParquetWriter:
        if self._parquet is None:
            storage.make_directory(self._location.rsplit("/", 1)[0])
            self._file = DigestedFile(self._opened.enter_context(storage.new_file(self._location)))
            plain = not _BODIES.isdisjoint(self._schema.names)
            writer = pq.ParquetWriter(
                self._file, self._schema, use_dictionary=not plain, write_statistics=not plain
            )
            self._parquet = self._opened.enter_context(writer)
        return self._parquet
