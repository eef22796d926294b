"""Write the parts of a plan, digest its rows by bucket, and derive its hash and counts.

Memory holds one digest for each bucket. `mqdlq.plan.plan_hash` defines the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Final, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqdlq.evaluation.decisions import Decisions, summed
from mqdlq.lake import StepCount
from mqdlq.lake.plans import attempt
from mqdlq.lake.schema import PLAN
from mqdlq.lake.storage import new_file
from mqdlq.model import Disposition
from mqdlq.plan import MESSAGES_TO_A_BUCKET
from mqdlq.rules import RulesTable


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


# Write a part of a plan as a Parquet file, with a receipt of its content.
#
# The code runs in Spark's workers, or in the driver for few messages. Spark may run it several
# times for the same messages, even at once (retries, speculation, lost executors). Every attempt
# therefore writes a separate file, which appears only when it is complete. The driver gets one
# receipt for each task, and only the files that receipts name become parts of the plan.

SCHEMA: Final = pa.schema([("receipt", pa.string())])

_REPEATED: Final = [
    "queue_manager",
    "queue",
    "disposition",
    "winning_rule",
    "nearest_rule",
    *(f"steps.list.element.{field.name}" for field in PLAN.field("steps").type.value_type),
]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The file that an attempt wrote ("" for none), and its counts.

    `first` is the first browse number. `read` counts all messages that the attempt read, including
    messages that the plan does not cover.
    """

    file: str
    read: int
    rows: int
    first: int
    buckets: tuple[BucketDigest, ...]
    dispositions: dict[str, int]
    counts: tuple[StepCount, ...]

    def to_json(self) -> str:
        """Return the receipt as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """Parse the output of `to_json`."""
        values = json.loads(text)
        values["buckets"] = tuple(BucketDigest(**each) for each in values["buckets"])
        values["counts"] = tuple(StepCount(**each) for each in values["counts"])
        return cls(**values)


@dataclass(frozen=True)
class PlanPart:
    """Writer of parts by one table for one plan; without a plan, rows are only hashed.

    The plan covers the messages whose keys are `named`, or all messages if it is empty. See
    `SnapshotManifest` for `has_given_action`.
    """

    table: RulesTable
    plan: str | None = None
    nul_as_blank: bool = False
    explain: bool = False
    named: frozenset[bytes] = frozenset()
    has_given_action: bool = False
    sorted: bool = False
    remembered: int = 65_536

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a part in one of Spark's tasks, and yield the receipt."""
        yield pa.RecordBatch.from_pydict({"receipt": [self.write(batches).to_json()]}, SCHEMA)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Receipt:
        """Decide about the messages, write the decisions, and return the receipt."""
        decisions = Decisions(
            self.table,
            nul_as_blank=self.nul_as_blank,
            explain=self.explain,
            has_given_action=self.has_given_action,
            remembered=self.remembered,
        )
        buckets = Buckets(sorted=self.sorted)
        read, rows, first = 0, 0, 0
        with _File(self.plan) as file:
            for whole in batches:
                read += whole.num_rows
                batch = self._select_named(whole)
                if not batch.num_rows:
                    continue
                first = first if rows else batch.column("browse_seq")[0].as_py()
                rows += batch.num_rows
                treated = decisions.treatments.rows(decisions.numbers(batch))
                buckets.add(
                    batch.column("browse_seq"), row_contents(batch, treated.column("digest"))
                )
                file.write(batch, treated)
        return Receipt(
            file.name,
            read,
            rows,
            first,
            tuple(buckets.digests()),
            decisions.treatments.dispositions(),
            tuple(decisions.treatments.step_counts()),
        )

    def _select_named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.named:
            return batch
        keys = pa.array(sorted(self.named), pa.binary())
        return batch.filter(pc.is_in(batch.column("message_key"), value_set=keys))


class _File:
    """The file of one attempt: created with the first rows, and visible only after success."""

    def __init__(self, plan: str | None) -> None:
        self.name = ""
        self._plan = plan
        self._open = ExitStack()
        self._parquet: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._open.__exit__(*failure)  # type: ignore[arg-type]

    def write(self, batch: pa.RecordBatch, treated: pa.RecordBatch) -> None:
        """Write the rows of a batch with their treatments as a row group."""
        if self._plan is None:
            return
        held = {**_columns(batch), **_columns(treated)}
        rows = pa.Table.from_arrays([held[name] for name in PLAN.names], names=PLAN.names)
        if self._parquet is None:
            self.name = f"{uuid4()}.parquet"
            file = self._open.enter_context(new_file(attempt(self._plan, self.name)))
            # Dictionaries for all columns except keys. Arrow's own schema is omitted, so that
            # readers see plain texts rather than dictionaries.
            writer = pq.ParquetWriter(
                file, rows.schema, use_dictionary=_REPEATED, store_schema=False
            )
            self._parquet = self._open.enter_context(writer)
        self._parquet.write_table(rows)


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


# Derive a plan's hash and counts from the receipts of its parts.


def buckets_are_complete(receipts: Iterable[Receipt]) -> bool:
    """Whether every bucket was in one task, in order, so that its digest is valid for the plan."""
    buckets = [bucket for receipt in receipts for bucket in receipt.buckets]
    in_order = all(bucket.digest is not None for bucket in buckets)
    return in_order and len({bucket.bucket for bucket in buckets}) == len(buckets)


def hash_of(receipts: Iterable[Receipt]) -> str:
    """Return the plan's hash, which equals `mqdlq.plan.plan_hash` of all rows."""
    buckets = [bucket for receipt in receipts for bucket in receipt.buckets]
    whole = sha256()
    for bucket in sorted(buckets, key=lambda bucket: bucket.bucket):
        whole.update(str(bucket.digest).encode())
    return whole.hexdigest()


def dispositions_of(receipts: Iterable[Receipt]) -> dict[str, int]:
    """Count the messages by disposition."""
    found = {disposition.value: 0 for disposition in Disposition}
    for receipt in receipts:
        for name, count in receipt.dispositions.items():
            found[name] += count
    return found


def counts_of(receipts: Iterable[Receipt]) -> tuple[StepCount, ...]:
    """Count the planned messages by first step, in the order of a description."""
    counts = summed(count for receipt in receipts for count in receipt.counts)
    return tuple(sorted(counts, key=lambda count: (count.rule, count.target_q, count.target_q_mgr)))
