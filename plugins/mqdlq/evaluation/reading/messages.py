"""Bring the messages of snapshots to the code that decides about them.

Whatever the strategy, the code gets batches with the columns asked for and `queue_manager`, `queue`
and `snapshot_id`, and is run once for each task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from mqdlq.evaluation.reading.row_groups import Stretch, rows_of, stretches
from mqdlq.evaluation.reading.snapshot_rows import must_have, names_of, read_headers
from mqdlq.evaluation.reading.strategies import Bounds, Choice, Strategy, choose, rows_to_a_task
from mqdlq.evaluation.workers import asked_of_workers
from mqdlq.lake import Snapshot
from mqdlq.plan import MESSAGES_TO_A_BUCKET

Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What Spark's `mapInArrow` takes."""


@dataclass(frozen=True)
class Messages:
    """The messages of snapshots, `whole` with what is parked, and which columns of them to read."""

    spark: SparkSession
    snapshots: Sequence[Snapshot]
    columns: Sequence[str]
    bounds: Bounds = field(default_factory=Bounds)
    whole: bool = False

    @property
    def number(self) -> int:
        """How many there are by the manifests; a message counts for each snapshot it is in."""
        manifests = [snapshot.manifest for snapshot in self.snapshots]
        return sum(each.messages if self.whole else each.counts.full for each in manifests)

    def strategy(self) -> Choice:
        """Choose how to go about it."""
        parked = self.whole and any(each.manifest.parked for each in self.snapshots)
        return choose(self.snapshots, messages=self.number, with_parked=parked, bounds=self.bounds)

    def rows(self) -> DataFrame:
        """Return them as Spark reads them: of a message in several snapshots, the newest row."""
        return read_headers(self.spark, self.snapshots, self.columns, whole=self.whole)

    def through(self, work: Work, schema: pa.Schema, choice: Choice) -> pa.Table:
        """Return what `work`, a function that can be pickled, yields of all messages.

        Those of one bucket of a plan's hash come to it in one task, in the order of browsing, as
        far as the snapshot has them in that order; `Strategy.ROWS` sees to it in any case.
        """
        match choice.strategy:
            case Strategy.DRIVER:
                rows = self.rows()
                ordered = rows.sort(*_order()) if len(self.snapshots) > 1 else rows
                return pa.Table.from_batches(work(_batches(ordered)), schema)
            case Strategy.ROW_GROUPS:
                return self._through_stretches(work, schema, choice)
            case Strategy.ROWS:
                return _through_workers(brought_together(self.rows()), work, schema)

    def _through_stretches(self, work: Work, schema: pa.Schema, choice: Choice) -> pa.Table:
        must_have(self.snapshots[0], self.columns)
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
        return _through_workers(numbers, reading, schema)


@dataclass(frozen=True)
class _Reading:
    """Work on stretches of a snapshot: their numbers come in the place of their messages."""

    stretches: tuple[Stretch, ...]
    columns: tuple[str, ...]
    constants: dict[str, str]
    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.work(rows_of(self.stretches[number], self.columns, self.constants))


def brought_together(rows: DataFrame) -> DataFrame:
    """Bring the messages of each bucket into one partition, in the order of the plan's hash."""
    bucket = F.floor(F.col("browse_seq") / MESSAGES_TO_A_BUCKET)
    return rows.repartition(bucket).sortWithinPartitions(*_order())


def _order() -> list[Column]:
    """Order rows as their contents are: see `mqdlq.plan.row_content`.

    In it, rows of one browse number differ in what is before the treatment, if they differ.
    """
    names = [F.concat(F.length(name).cast("string"), F.lit(":"), name) for name in _QUEUE]
    length = F.concat(F.length("message_key").cast("string"), F.lit(":"))
    content = F.concat(length.cast("binary"), "message_key", F.concat(*names).cast("binary"))
    return [F.col("browse_seq"), content]


_QUEUE = ("queue_manager", "queue")


def _through_workers(rows: DataFrame, work: Work, schema: pa.Schema) -> pa.Table:
    return asked_of_workers(rows, work, schema).toArrow()


def _batches(rows: DataFrame) -> list[pa.RecordBatch]:
    """Bring rows to the driver, in the order of browsing."""
    held: Any = rows.toArrow().combine_chunks()
    if held.num_rows and (np.diff(held["browse_seq"].to_numpy()) < 0).any():
        held = held.sort_by("browse_seq")
    batches: list[pa.RecordBatch] = held.to_batches()
    return batches
