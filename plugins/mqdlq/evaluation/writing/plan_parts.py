"""Write a part of a plan as a Parquet file, with a receipt of its content.

The code runs in Spark's workers, or in the driver for few messages. Spark may run it several times
for the same messages, even at once (retries, speculation, lost executors). Every attempt therefore
writes a separate file, which appears only when it is complete. The driver gets one receipt for each
task, and only the files that receipts name become parts of the plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqdlq.evaluation.deciding.decisions import Decisions
from mqdlq.evaluation.writing.bucket_digests import BucketDigest, Buckets, row_contents
from mqdlq.lake import StepCount
from mqdlq.lake.plans import attempt
from mqdlq.lake.schema import PLAN
from mqdlq.lake.storage import new_file
from mqdlq.rules import RulesTable

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
            self._parquet = self._open.enter_context(_writer(file, rows.schema))
        self._parquet.write_table(rows)


def _writer(file: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """Return a writer of a plan, with dictionaries for all columns except keys.

    Arrow's own schema is omitted, so that readers see plain texts rather than dictionaries.
    """
    return pq.ParquetWriter(file, schema, use_dictionary=_REPEATED, store_schema=False)


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))
