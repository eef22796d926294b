"""Write a part of a plan as a Parquet file, with a receipt of its content.

It runs where the messages are: in Spark's workers, or in the driver where there are few. Spark may
run it several times for the same messages, at once even (a task tried again, speculation, a lost
executor). So every attempt writes a file of its own, which appears only when it is whole; the
driver gets one receipt per task, and only the files named in these become parts of the plan.
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
    """What an attempt wrote, "" for no file, and what it found.

    `first` is the first browse number, `read` counts the messages it read, those included that the
    plan does not cover.
    """

    file: str
    read: int
    rows: int
    first: int
    buckets: tuple[BucketDigest, ...]
    dispositions: dict[str, int]
    counts: tuple[StepCount, ...]

    def to_json(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """Return what `to_json` was called on."""
        values = json.loads(text)
        values["buckets"] = tuple(BucketDigest(**each) for each in values["buckets"])
        values["counts"] = tuple(StepCount(**each) for each in values["counts"])
        return cls(**values)


@dataclass(frozen=True)
class PlanPart:
    """How a part is made: by which table, for which plan (none: it is hashed only).

    The plan covers the messages whose keys are `named`, or all where none is; see
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
        """Do it in a task of Spark's: yield the receipt."""
        yield pa.RecordBatch.from_pydict({"receipt": [self.made_of(batches).to_json()]}, SCHEMA)

    def made_of(self, batches: Iterable[pa.RecordBatch]) -> Receipt:
        """Decide about the messages, write what was decided, return the receipt."""
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
                batch = self._of_named(whole)
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

    def _of_named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.named:
            return batch
        keys = pa.array(sorted(self.named), pa.binary())
        return batch.filter(pc.is_in(batch.column("message_key"), value_set=keys))


class _File:
    """A file of one attempt; it is made when the first rows come, and appears when all is well."""

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
        """Write the rows of a batch with their treatments: a row group."""
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
    """Return a writer of a plan. Keys never repeat, and texts are held once to a row group.

    Arrow's own schema is left out: readers are to find texts, not how they were held here.
    """
    return pq.ParquetWriter(file, schema, use_dictionary=_REPEATED, store_schema=False)


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))
