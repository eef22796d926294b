"""The digests of a plan's buckets: batches of rows' contents in, a row per bucket out.

It runs in Spark's workers, a partition at a time, and holds no more than one digest per bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqdlq.plan import MESSAGES_TO_A_BUCKET

SCHEMA: Final = "bucket bigint, digest string, rows bigint"


@dataclass
class _Bucket:
    content: Any = field(default_factory=sha256)
    rows: int = 0
    last: int | None = None
    is_in_order: bool = True


def digests_of_sorted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Digest buckets whose rows come in the order of `browse_seq`, then of `content`."""
    return _digests(batches, trusted=True)


def digests_if_sorted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Digest buckets as far as their browse numbers ascend; null where those of a bucket do not."""
    return _digests(batches, trusted=False)


def _digests(batches: Iterable[pa.RecordBatch], *, trusted: bool) -> Iterator[pa.RecordBatch]:
    buckets: dict[int, _Bucket] = {}
    for batch in batches:
        if not batch.num_rows:
            continue
        browse_seq = batch.column(0).to_numpy()
        offsets, contents = _contents(batch.column(1))
        numbers = browse_seq // MESSAGES_TO_A_BUCKET
        ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
        start = 0
        for end in ends:
            bucket = buckets.setdefault(int(numbers[start]), _Bucket())
            seqs = browse_seq[start:end]
            follows = bucket.last is None or seqs[0] > bucket.last
            if not (trusted or (follows and (np.diff(seqs) > 0).all())):
                bucket.is_in_order = False
            bucket.content.update(contents[offsets[start] : offsets[end]])
            bucket.rows += end - start
            bucket.last = int(seqs[-1])
            start = end
    digests = [each.content.hexdigest() if each.is_in_order else None for each in buckets.values()]
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(buckets, pa.int64()),
            pa.array(digests, pa.string()),
            pa.array([each.rows for each in buckets.values()], pa.int64()),
        ],
        ["bucket", "digest", "rows"],
    )


def _contents(column: pa.Array) -> tuple[list[int], memoryview]:
    """Return where each value starts in the bytes that Arrow keeps them in, one after another."""
    width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    _, offsets, contents = column.buffers()
    starts = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    return starts.tolist(), memoryview(contents)
