"""Pass the messages of snapshots to the code that decides about them.

With any strategy, that code gets batches with the requested columns and `queue_manager`, `queue`
and `snapshot_id`, and runs once for each task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from mqdlq.evaluation.reading.row_groups import Stretch, stretch_rows, stretches
from mqdlq.evaluation.reading.snapshot_rows import names_of, read_headers
from mqdlq.evaluation.reading.strategies import Bounds, Choice, Strategy, choose, rows_to_a_task
from mqdlq.evaluation.workers import run_on_workers
from mqdlq.lake import Snapshot
from mqdlq.lake.files import verify
from mqdlq.plan import MESSAGES_TO_A_BUCKET

Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""The type of functions for Spark's `mapInArrow`."""


@dataclass(frozen=True)
class Messages:
    """The messages of snapshots, if `whole` with settled ones, and the columns to read."""

    spark: SparkSession
    snapshots: Sequence[Snapshot]
    columns: Sequence[str]
    bounds: Bounds = field(default_factory=Bounds)
    whole: bool = False

    @property
    def number(self) -> int:
        """The number of messages by the manifests; a message counts in each of its snapshots."""
        manifests = [snapshot.manifest for snapshot in self.snapshots]
        return sum(each.messages if self.whole else each.counts.full for each in manifests)

    def strategy(self) -> Choice:
        """Choose a strategy."""
        settled = self.whole and any(each.manifest.settled for each in self.snapshots)
        return choose(
            self.snapshots, messages=self.number, with_settled=settled, bounds=self.bounds
        )

    def rows(self) -> DataFrame:
        """Return the messages as Spark reads them; with several snapshots, each newest row."""
        return read_headers(self.spark, self.snapshots, self.columns, whole=self.whole)

    def process(self, work: Work, schema: pa.Schema, choice: Choice) -> pa.Table:
        """Return the results of `work`, a picklable function, for all messages.

        One task gets all messages of a bucket of the plan's hash, in browse order if the snapshot
        is in browse order. `Strategy.ROWS` always sorts them.
        """
        match choice.strategy:
            case Strategy.DRIVER:
                rows = self.rows()
                ordered = rows.sort(*_order()) if len(self.snapshots) > 1 else rows
                return pa.Table.from_batches(work(_batches(ordered)), schema)
            case Strategy.ROW_GROUPS:
                return self._process_stretches(work, schema, choice)
            case Strategy.ROWS:
                return _process_on_workers(partitioned_by_bucket(self.rows()), work, schema)

    def _process_stretches(self, work: Work, schema: pa.Schema, choice: Choice) -> pa.Table:
        cores = self.spark.sparkContext.defaultParallelism
        size = rows_to_a_task(self.number, cores, self.bounds)
        reading = _Reading(
            tuple(stretches(choice.groups, size)),
            tuple(self.columns),
            names_of(self.snapshots[0]),
            work,
        )
        tasks = len(reading.stretches)
        numbers = self.spark.range(0, tasks, 1, max(tasks, 1))
        try:
            return _process_on_workers(numbers, reading, schema)
        except PySparkException:
            verify(self.snapshots[0].headers)  # to name the file that a worker refused
            raise


@dataclass(frozen=True)
class _Reading:
    """Work on ranges of a snapshot: a task gets numbers of ranges in place of messages."""

    stretches: tuple[Stretch, ...]
    columns: tuple[str, ...]
    constants: dict[str, str]
    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.work(
                    stretch_rows(self.stretches[number], self.columns, self.constants)
                )


def partitioned_by_bucket(rows: DataFrame) -> DataFrame:
    """Collect the messages of each bucket in one partition, in the order of the plan's hash."""
    bucket = F.floor(F.col("browse_seq") / MESSAGES_TO_A_BUCKET)
    return rows.repartition(bucket).sortWithinPartitions(*_order())


def _order() -> list[Column]:
    """Sort rows by their contents: see `mqdlq.plan.row_content`.

    If rows with the same browse number differ, their contents differ before the treatment.
    """
    names = [F.concat(F.length(name).cast("string"), F.lit(":"), name) for name in _QUEUE]
    length = F.concat(F.length("message_key").cast("string"), F.lit(":"))
    content = F.concat(length.cast("binary"), "message_key", F.concat(*names).cast("binary"))
    return [F.col("browse_seq"), content]


_QUEUE = ("queue_manager", "queue")


def _process_on_workers(rows: DataFrame, work: Work, schema: pa.Schema) -> pa.Table:
    return run_on_workers(rows, work, schema).toArrow()


def _batches(rows: DataFrame) -> list[pa.RecordBatch]:
    """Collect rows in the driver, in browse order."""
    held: Any = rows.toArrow().combine_chunks()
    if held.num_rows and (np.diff(held["browse_seq"].to_numpy()) < 0).any():
        held = held.sort_by("browse_seq")
    batches: list[pa.RecordBatch] = held.to_batches()
    return batches
