"""Digest the rows of a plan by bucket.

Memory holds one digest for each bucket. `mqdlq.plan.plan_hash` defines the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.plan import MESSAGES_TO_A_BUCKET


@dataclass
class _Bucket:
    content: Any = field(default_factory=sha256)
    rows: int = 0
    last: int | None = None
    is_in_order: bool = True


@dataclass(frozen=True, slots=True)
class BucketDigest:
    """A bucket's number, the digest (hex) of its rows, and the number of rows.

    The digest is missing if browse numbers did not ascend.
    """

    bucket: int
    digest: str | None
    rows: int


class Buckets:
    """Digests of the buckets of rows that arrive in batches, in the order of `browse_seq`.

    With `sorted`, rows with the same browse number are in the order of their content. Otherwise
    browse numbers must ascend, and a bucket in which they do not has no digest.
    """

    def __init__(self, *, sorted: bool = False) -> None:  # noqa: A002 (what it is)
        self._sorted = sorted
        self._buckets: dict[int, _Bucket] = {}

    def add(self, browse_seq: pa.Array, content: pa.Array) -> None:
        """Add rows."""
        seqs = browse_seq.to_numpy()
        offsets, contents = _contents(content)
        numbers = seqs // MESSAGES_TO_A_BUCKET
        ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(seqs)]
        start = 0
        for end in ends:
            bucket = self._buckets.setdefault(int(numbers[start]), _Bucket())
            follows = bucket.last is None or seqs[start] > bucket.last
            ascends = self._sorted or (follows and (np.diff(seqs[start:end]) > 0).all())
            bucket.is_in_order = bucket.is_in_order and bool(ascends)
            bucket.content.update(contents[offsets[start] : offsets[end]])
            bucket.rows += end - start
            bucket.last = int(seqs[end - 1])
            start = end

    def digests(self) -> list[BucketDigest]:
        """Return the digests of all buckets so far."""
        return [
            BucketDigest(number, each.content.hexdigest() if each.is_in_order else None, each.rows)
            for number, each in self._buckets.items()
        ]


def row_contents(rows: pa.RecordBatch, digests: pa.Array) -> pa.Array:
    """Return `mqdlq.plan.row_content` of each row; `digests` are those of the treatments."""
    keys = rows.column("message_key")
    numbers = pc.cast(rows.column("browse_seq"), pa.string()).cast(pa.binary())
    lengths = pc.cast(pc.binary_length(keys), pa.string()).cast(pa.binary())
    names = (_measured(rows.column(name)) for name in ("queue_manager", "queue"))
    colon = pa.scalar(b":")
    return pc.binary_join_element_wise(numbers, colon, lengths, colon, keys, *names, digests, b"")


def _measured(names: pa.Array) -> pa.Array:
    """Prefix each of a few names with its length."""
    held = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    measured = [f"{len(name)}:{name}".encode() for name in held.dictionary.to_pylist()]
    return pa.array(measured, pa.binary()).take(held.indices)


def _contents(column: pa.Array) -> tuple[Any, memoryview]:
    """Return the offset of each value in Arrow's buffer of values."""
    _, offsets, contents = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return starts, memoryview(contents)
