"""Write the parts of a plan, and derive its hash and counts from their receipts."""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.evaluation.decisions import Decisions, summed
from mqdlq.lake import StepCount
from mqdlq.lake.plans import Buckets, attempt, hash_of_buckets, row_contents
from mqdlq.lake.schema import PLAN
from mqdlq.lake.selected import Chosen
from mqdlq.lake.storage import new_file
from mqdlq.model import Disposition
from mqdlq.rules import RulesTable

# Write a part of a plan as a Parquet file, with a receipt of its content.
#
# The code runs in Spark's workers, or in the driver for few messages. Spark may run it several
# times for the same messages, even at once (retries, speculation, lost executors). Every attempt
# therefore writes a separate file, which appears only when it is complete. The driver gets one
# receipt for each task, and only the files that receipts name become parts of the plan.

_REPEATED: Final = [name for name in PLAN.names if name not in {"browse_seq", "message_key"}]

_WRITTEN: Final[dict[str, Any]] = {
    "use_dictionary": _REPEATED,
    # Keys are random bytes: to compress them, or to find their extremes, costs more than the rest.
    "compression": {**dict.fromkeys(PLAN.names, "SNAPPY"), "message_key": "NONE"},
    "write_statistics": ["browse_seq"],
    "column_encoding": {"browse_seq": "DELTA_BINARY_PACKED"},
    # Readers see plain texts rather than dictionaries, because Arrow's own schema is not stored.
    "store_schema": False,
}
"""How Parquet stores the columns of a plan."""


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
    buckets: dict[int, str | None]
    dispositions: dict[str, int]
    counts: list[StepCount]


@dataclass(frozen=True)
class PlanPart:
    """Writer of parts by one table for one plan; without a plan, rows are only hashed.

    The plan covers the `chosen` messages, or all. See `SnapshotManifest` for `has_given_action`.
    """

    table: RulesTable
    plan: str | None = None
    nul_as_blank: bool = False
    explain: bool = False
    chosen: Chosen | None = None
    has_given_action: bool = False
    sorted: bool = False
    remembered: int = 65_536

    @cached_property
    def _decisions(self) -> Decisions:
        """What a worker knows from one task to the next."""
        return Decisions(
            self.table,
            nul_as_blank=self.nul_as_blank,
            explain=self.explain,
            has_given_action=self.has_given_action,
            remembered=self.remembered,
        )

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Receipt:
        """Decide about the messages, write the decisions, and return the receipt."""
        decisions, buckets = self._decisions, Buckets(sorted=self.sorted)
        treatments = decisions.treatments
        treatments.counted()  # an attempt that failed here may have counted some
        name, read, rows, first = "", 0, 0, 0
        with ExitStack() as opened:
            parquet: pq.ParquetWriter | None = None
            for whole in batches:
                read += whole.num_rows
                batch = whole if self.chosen is None else self.chosen.rows(whole)
                if not batch.num_rows:
                    continue
                first = first if rows else batch.column("browse_seq")[0].as_py()
                rows += batch.num_rows
                treated = treatments.rows(decisions.numbers(batch))
                content = row_contents(batch, treated.column("digest"))
                buckets.add(batch.column("browse_seq"), content)
                if self.plan is None:
                    continue
                held = {**_columns(batch), **_columns(treated)}
                table = pa.Table.from_arrays([held[name] for name in PLAN.names], PLAN.names)
                if parquet is None:
                    name = f"{uuid4()}.parquet"
                    file = opened.enter_context(new_file(attempt(self.plan, name)))
                    writer = pq.ParquetWriter(file, table.schema, **_WRITTEN)
                    parquet = opened.enter_context(writer)
                parquet.write_table(table)
        dispositions, counts = treatments.counted()
        return Receipt(name, read, rows, first, buckets.digests(), dispositions, counts)


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


# Derive a plan's hash and counts from the receipts of its parts.


def buckets_are_complete(receipts: Iterable[Receipt]) -> bool:
    """Whether every bucket was in one task, in order, so that its digest is valid for the plan."""
    buckets = [bucket for receipt in receipts for bucket in receipt.buckets.items()]
    return None not in dict(buckets).values() and len(dict(buckets)) == len(buckets)


def hash_of(receipts: Iterable[Receipt]) -> str:
    """Return the plan's hash, which equals that of all rows (see `mqdlq.lake.plans`)."""
    return hash_of_buckets(dict(bucket for one in receipts for bucket in one.buckets.items()))


def dispositions_of(receipts: Iterable[Receipt]) -> dict[str, int]:
    """Count the messages by disposition."""
    found = Counter({disposition.value: 0 for disposition in Disposition})
    for receipt in receipts:
        found.update(receipt.dispositions)
    return dict(found)


def counts_of(receipts: Iterable[Receipt]) -> tuple[StepCount, ...]:
    """Count the planned messages by first step, in the order of a description."""
    counts = summed(count for receipt in receipts for count in receipt.counts)
    return tuple(sorted(counts, key=lambda count: (count.rule, count.target_q, count.target_q_mgr)))
