"""Digest the rows of a plan, bucket by bucket.

It holds no more than one digest per bucket. `mqdlq.plan.plan_hash` is the definition.
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
    """A bucket's number, the digest (hex) of its rows, and how many there are.

    There is no digest where they did not ascend.
    """

    bucket: int
    digest: str | None
    rows: int


class Buckets:
    """Digest the buckets of rows that come batch by batch, in the order of `browse_seq`.

    Where they are `sorted`, rows of the same browse number are known to be in the order of their
    content; else browse numbers must ascend, and a bucket in which they do not has no digest.
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
        """Return the digests of all buckets met with."""
        return [
            BucketDigest(number, each.content.hexdigest() if each.is_in_order else None, each.rows)
            for number, each in self._buckets.items()
        ]


def row_contents(rows: pa.RecordBatch, digests: pa.Array) -> pa.Array:
    """Return of each row what `mqdlq.plan.row_content` does; `digests` are their treatments'."""
    keys = rows.column("message_key")
    numbers = pc.cast(rows.column("browse_seq"), pa.string()).cast(pa.binary())
    lengths = pc.cast(pc.binary_length(keys), pa.string()).cast(pa.binary())
    names = (_measured(rows.column(name)) for name in ("queue_manager", "queue"))
    colon = pa.scalar(b":")
    return pc.binary_join_element_wise(numbers, colon, lengths, colon, keys, *names, digests, b"")


def _measured(names: pa.Array) -> pa.Array:
    """Put its length before each name, of which there are few."""
    held = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    measured = [f"{len(name)}:{name}".encode() for name in held.dictionary.to_pylist()]
    return pa.array(measured, pa.binary()).take(held.indices)


def _contents(column: pa.Array) -> tuple[Any, memoryview]:
    """Return where each value starts in the bytes that Arrow keeps them in, one after another."""
    _, offsets, contents = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return starts, memoryview(contents)
