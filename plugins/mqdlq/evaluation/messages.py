"""Read the messages of snapshots, and pass them to the code that decides about them.

Strategies differ in where messages are read and decided, not in their result: with any of them,
that code gets batches with the requested columns and `queue_manager`, `queue` and `snapshot_id`,
and runs once for each task. The stored bytes of bodies are never read.

Spark starts as little as the strategy needs: a session with Spark SQL takes longer to start than
the evaluation of a small snapshot.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, partial
from itertools import groupby, pairwise
from typing import Any, Final, TypeVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark import Broadcast, SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.evaluation.workers import run_on_workers, ship_code
from mqdlq.lake import Snapshot
from mqdlq.lake.arrow import keep_pandas_out
from mqdlq.lake.files import Files, open_parquet, read_batches, verify
from mqdlq.lake.schema import HEADERS, SETTLED, FileDigest
from mqdlq.lake.storage import is_local
from mqdlq.model import QueueKind
from mqdlq.plan import MESSAGES_TO_A_BUCKET
from mqdlq.rules import RulesError, RulesTable, parse

Result = TypeVar("Result")
Work = Callable[[Iterable[pa.RecordBatch]], Result]
"""What a task does with all its messages; workers get it, and return its result, by pickle."""

_RESULT: Final = pa.schema([("result", pa.binary())])

# What the snapshots of an evaluation must have in common: rules, the kind of queue, NULs.


def frozen_rules(snapshots: Sequence[Snapshot]) -> RulesTable:
    """Return the common table of all snapshots; raise `LakeError` if their tables differ."""
    digests = {snapshot.manifest.rules_digest for snapshot in snapshots}
    if len(digests) > 1:
        raise LakeError(
            "MQDLQ-401",
            f"the snapshots were taken with {len(digests)} different rules tables; name one with"
            " --rules",
        )
    directory, manifest = snapshots[0].directory, snapshots[0].manifest
    name = f"the rules of {directory}"
    table = _parsed(manifest.rules_text, name, manifest.queue_kind, frozen=True)
    if table.digest != manifest.rules_digest:
        raise LakeError(
            "MQDLQ-402",
            f"{directory}: its rules have the digest {table.digest}, its manifest says"
            f" {manifest.rules_digest}; take a new snapshot",
        )
    return table


def rules_of_file(place: str, queue_kind: QueueKind, *, frozen: bool = False) -> RulesTable:
    """Return the table in a file; a `frozen` one, which mqdlq has written, may have extensions."""
    text = lake.read_text(place)
    if text is None:
        raise LakeError("MQDLQ-403", f"{place}: no such rules table")
    return _parsed(text, place, queue_kind, frozen=frozen)


def _parsed(text: str, name: str, queue_kind: QueueKind, *, frozen: bool) -> RulesTable:
    try:
        return parse(text, name, queue_kind, frozen=frozen)
    except RulesError as error:
        raise LakeError("MQDLQ-404", error.text) from error


def queue_kind(snapshots: Sequence[Snapshot]) -> QueueKind:
    """Return the kind of the snapshots' queues; raise `LakeError` if there are several."""
    kinds = {snapshot.manifest.queue_kind for snapshot in snapshots}
    if len(kinds) > 1:
        raise LakeError(
            "MQDLQ-437",
            "some snapshots are of backout queues (queue_kind), others are not; name snapshots of"
            " one kind of queue",
        )
    return kinds.pop()


def nul_as_blank(snapshots: Sequence[Snapshot]) -> bool:
    """Return whether the snapshots' rules compare NULs as blanks; raise `LakeError` if mixed."""
    ways = {snapshot.manifest.nul_as_blank for snapshot in snapshots}
    if len(ways) > 1:
        raise LakeError(
            "MQDLQ-407",
            "some snapshots compare NULs as blanks (nul_as_blank), others do not; name snapshots"
            " with the same setting",
        )
    return ways.pop()


# Choose a strategy, and process the messages by it.

_ROWS_ARE_WORTH_A_TASK: Final = 131_072
"""Fewer rows make one task, which takes longer to start a worker than the driver to decide."""


class Strategy(StrEnum):
    """Where an evaluation reads messages and decides about them."""

    DRIVER = "driver"
    """The driver reads few messages and decides; no worker starts."""
    ROW_GROUPS = "row groups"
    """Each of Spark's tasks reads its stretch of the snapshot; no rows are exchanged."""
    ROWS = "rows"
    """Spark reads, finds the newest row of each message, and sorts the rows for its workers."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits that hold for any number of messages.

    The driver takes at most `in_driver` messages, and a task at most `rows_to_a_task` rows of a
    stretch. A worker caches `remembered` values of each column, and as many treatments. A
    `strategy` given here is used without a choice.
    """

    in_driver: int = _ROWS_ARE_WORTH_A_TASK
    rows_to_a_task: int = 524_288
    remembered: int = 65_536
    strategy: Strategy | None = None


@dataclass(frozen=True)
class Messages:
    """The messages of snapshots, if `whole` with settled ones, and the columns to read.

    `application` is the name that Spark shows.
    """

    application: str
    snapshots: Sequence[Snapshot]
    columns: Sequence[str]
    bounds: Bounds = field(default_factory=Bounds)
    whole: bool = False

    @property
    def number(self) -> int:
        """The number of messages by the manifests; a message counts in each of its snapshots."""
        manifests = [snapshot.manifest for snapshot in self.snapshots]
        return sum(each.messages if self.whole else each.full for each in manifests)

    @cached_property
    def spark(self) -> SparkSession:
        return SparkSession.builder.appName(self.application).getOrCreate()

    @cached_property
    def context(self) -> SparkContext:
        return SparkContext.getOrCreate(SparkConf().setAppName(self.application))

    @cached_property
    def groups(self) -> list[Group] | None:
        """The row groups of the first snapshot, None if they are not in browse order."""
        return groups_in_order(self.snapshots[0].headers)

    def strategy(self) -> tuple[Strategy, str]:
        """Choose by the number of messages, and whether one snapshot has all of them in order.

        The reason for it comes with the strategy.
        """
        asked, snapshots = self.bounds.strategy, self.snapshots
        few = self.number <= self.bounds.in_driver
        if asked is Strategy.DRIVER or (few and asked is None):
            return Strategy.DRIVER, f"{self.number} messages are few"
        if len(snapshots) > 1:
            return Strategy.ROWS, f"{len(snapshots)} snapshots have messages in common"
        if not self._are_in_one_snapshot:
            return Strategy.ROWS, "other snapshots hold the rows of its settled messages"
        if asked is Strategy.ROWS:
            return Strategy.ROWS, "as was asked for"
        if self.groups is None:
            return Strategy.ROWS, "the snapshot's row groups are not in order"
        return (
            Strategy.ROW_GROUPS,
            f"{self.number} messages in {len(self.groups)} row groups in order",
        )

    @property
    def _are_in_one_snapshot(self) -> bool:
        return len(self.snapshots) == 1 and not (self.whole and self.snapshots[0].manifest.settled)

    def rows(self) -> DataFrame:
        """Return the rows of the messages, with `queue_manager`, `queue` and `snapshot_id`.

        If several snapshots of a queue have a message, its row is that of the newest. Settled
        messages require the columns `browse_seq` and `message_key`. Raises `LakeError` if a
        snapshot lacks a full row.
        """
        names = ("queue_manager", "queue", "snapshot_id")
        if self._are_in_one_snapshot:
            values = _names_of(self.snapshots[0])
            rows = _read(self.spark, self.snapshots, self.columns)
            return rows.select(*self.columns, *(F.lit(values[name]).alias(name) for name in names))
        rows = read_all_headers(self.spark, self.snapshots, self.columns, whole=self.whole)
        same = Window.partitionBy("queue_manager", "queue", "message_key")
        rows = rows.withColumn("newest", F.max("snapshot").over(same)).where("snapshot = newest")
        return rows.select(*self.columns, *names)

    def process(self, work: Work[Result], strategy: Strategy) -> list[Result]:
        """Return the results of `work` for all messages, one for each task.

        One task gets all messages of a bucket of the plan's hash, in browse order if the snapshot
        is in browse order. `Strategy.ROWS` always sorts them.
        """
        match strategy:
            case Strategy.DRIVER if self._are_in_one_snapshot and self.groups is not None:
                # An evaluation is an application of Spark, however few its messages: it is in the
                # event log, and a cluster counts one without a context as failed.
                _ = self.context
                constants = _names_of(self.snapshots[0])
                found = stretches(self.groups, self.number + 1)
                return [work(_rows_of(found, self.columns, constants))]
            case Strategy.DRIVER:
                rows = self.rows()
                ordered = rows.sort(*_order()) if len(self.snapshots) > 1 else rows
                return [work(_batches(ordered))]
            case Strategy.ROW_GROUPS:
                return self._process_stretches(work)
            case Strategy.ROWS:
                return _results(partitioned_by_bucket(self.rows()), work)

    def _process_stretches(self, work: Work[Result]) -> list[Result]:
        # Two tasks for a core, if they are worth the start.
        cores = self.context.defaultParallelism
        wanted = max(self.number // (2 * cores), _ROWS_ARE_WORTH_A_TASK)
        found = stretches(self.groups or (), min(wanted, self.bounds.rows_to_a_task))
        ship_code(self.context)
        tasks = self.context.parallelize(found, max(len(found), 1))
        # Each worker unpickles the work once for all of its tasks.
        shared = self.context.broadcast(work)
        constants = _names_of(self.snapshots[0])
        try:
            return tasks.mapPartitions(
                partial(_on_stretches, shared, self.columns, constants)
            ).collect()
        except (PySparkException, Py4JError):
            verify(self.snapshots[0].headers)  # to name the file that a worker refused
            raise


def _results(rows: DataFrame, work: Work[Result]) -> list[Result]:
    found = run_on_workers(rows, partial(_pickled, work), _RESULT).toArrow()
    return [pickle.loads(each) for each in found["result"].to_pylist()]  # noqa: S301 (our workers)


def _pickled(work: Work[Any], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(work(batches))]}, _RESULT)


def _on_stretches(
    work: Broadcast[Work[Result]],
    columns: Sequence[str],
    constants: dict[str, str],
    stretches: Iterable[Stretch],
) -> Iterator[Result]:
    """Work on the stretches that a task gets in place of messages."""
    keep_pandas_out()
    yield work.value(_rows_of(stretches, columns, constants))


def _rows_of(
    stretches: Iterable[Stretch], columns: Sequence[str], constants: dict[str, str]
) -> Iterator[pa.RecordBatch]:
    for stretch in stretches:
        yield from stretch_rows(stretch, columns, constants)


def partitioned_by_bucket(rows: DataFrame) -> DataFrame:
    """Collect the messages of each bucket in one partition, in the order of the plan's hash."""
    bucket = F.floor(F.col("browse_seq") / MESSAGES_TO_A_BUCKET)
    return rows.repartition(bucket).sortWithinPartitions(*_order())


def _order() -> list[Column]:
    """Sort rows by their contents: see `mqdlq.lake.plans.row_contents`.

    If rows with the same browse number differ, their contents differ before the treatment.
    """
    queue = ("queue_manager", "queue")
    names = [F.concat(F.length(name).cast("string"), F.lit(":"), name) for name in queue]
    length = F.concat(F.length("message_key").cast("string"), F.lit(":"))
    content = F.concat(length.cast("binary"), "message_key", F.concat(*names).cast("binary"))
    return [F.col("browse_seq"), content]


def _batches(rows: DataFrame) -> list[pa.RecordBatch]:
    """Collect rows in the driver, in browse order."""
    held: Any = rows.toArrow().combine_chunks()
    if held.num_rows and (np.diff(held["browse_seq"].to_numpy()) < 0).any():
        held = held.sort_by("browse_seq")
    batches: list[pa.RecordBatch] = held.to_batches()
    return batches


# Read the header rows of snapshots as one DataFrame.

_SPARK_TYPES: Final = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.list_(pa.string()): "array<string>",
}


def read_all_headers(
    spark: SparkSession, snapshots: Sequence[Snapshot], columns: Sequence[str], *, whole: bool
) -> DataFrame:
    """Return these columns of all rows of all snapshots, a message once for each snapshot.

    With `whole`, settled messages are included as in `lake.whole_rows`. `taken_at` is the
    snapshot's time, `snapshot` its number in order of time, and `place_in_queue` its number among
    the `snapshots_of_queue` of its queue.
    """
    rows = _with_their_snapshots(spark, _read(spark, snapshots, columns), snapshots)
    if not whole or not any(snapshot.manifest.settled for snapshot in snapshots):
        return rows
    return rows.unionByName(_settled(spark, snapshots, columns).select(*rows.columns))


def _names_of(snapshot: Snapshot) -> dict[str, str]:
    """Return the values that all messages of a snapshot share: its queue and its id."""
    queue_manager, queue = snapshot.queue
    snapshot_id = snapshot.manifest.snapshot_id
    return {"queue_manager": queue_manager, "queue": queue, "snapshot_id": snapshot_id}


def _read(spark: SparkSession, snapshots: Sequence[Snapshot], columns: Sequence[str]) -> DataFrame:
    schema = pa.schema([HEADERS.field(name) for name in columns])
    return read_files(spark, [snapshot.headers for snapshot in snapshots], schema)


def read_files(spark: SparkSession, given: Sequence[Files], schema: pa.Schema) -> DataFrame:
    """Return the rows of files, which `_metadata.file_path` names, percent-encoded.

    Spark itself reads what is on a disk, which is verified before. Its workers read an object
    store as they write to it, and verify what they read: Spark would need Hadoop's file system.
    """
    files = {location: digest for some in given for location, digest in some.items()}
    if not files:
        return spark.createDataFrame(schema.append(_METADATA).empty_table())
    if all(map(is_local, files)):
        verify(files)
        names = ", ".join(f"`{field.name}` {_SPARK_TYPES[field.type]}" for field in schema)
        return spark.read.schema(names).parquet(*map(lake.uri, files))
    places = spark.createDataFrame(pa.table({"file": list(files)})).repartition(len(files))
    with_file = schema.append(_METADATA)
    return run_on_workers(places, partial(_rows_of_files, files, with_file), with_file)


_METADATA: Final = pa.field("_metadata", pa.struct([("file_path", pa.string())]))
"""As in Spark's own rows of files."""


def _rows_of_files(
    files: Files, schema: pa.Schema, places: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for location in (one for batch in places for one in batch.column("file").to_pylist()):
        for rows in read_batches({location: files[location]}, schema.names, rows=ROWS_AT_ONCE):
            named = pa.array([{"file_path": quote(location)}] * rows.num_rows, _METADATA.type)
            found = dict(zip(rows.schema.names, rows.columns, strict=True)) | {"_metadata": named}
            # A column that an older snapshot lacks is null, as where Spark reads.
            columns = [
                found[field.name].cast(field.type)
                if field.name in found
                else pa.nulls(rows.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _settled(
    spark: SparkSession, snapshots: Sequence[Snapshot], columns: Sequence[str]
) -> DataFrame:
    """Return the settled messages of all snapshots with their full rows.

    Raises `LakeError` if a full row is missing. Equal messages have equal rows, so any full row
    fits all positions of its message. `browsed_at` is the time of the snapshot.
    """
    compact = [each.settled for each in snapshots]
    places = {
        f"{snapshot.directory.rsplit('/', 1)[0]}/{snapshot_id}"
        for snapshot in snapshots
        for snapshot_id in snapshot.manifest.refers_to
    }
    referred = [Snapshot.at(place) for place in sorted(places)]
    read = ("browse_seq", "message_key", "snapshot_id")
    rows = read_files(spark, compact, pa.schema([SETTLED.field(name) for name in read]))
    held_by = F.col("snapshot_id").alias("held_by")
    rows = rows.select("browse_seq", "message_key", held_by, "_metadata")
    settled = _with_their_snapshots(spark, rows, snapshots)
    settled = settled.withColumn("browsed_at", F.col("taken_at"))
    of_settled = {"browse_seq", "message_key", "browsed_at"}
    own = [name for name in columns if name not in of_settled]
    key = ["queue_manager", "queue", "held_by", "message_key"]
    full = _with_their_snapshots(spark, _read(spark, referred, columns), referred)
    full = full.withColumn("held_by", F.col("snapshot_id")).select(*key, *own).dropDuplicates(key)
    lacking = settled.join(full, key, "left_anti").groupBy("held_by", "snapshot_id").count()
    for snapshot_id, says, missing in lacking.limit(1).collect():
        raise LakeError(
            "MQDLQ-405",
            f"{snapshot_id} lacks {missing} messages that snapshot {says} refers to; take a full"
            " snapshot",
        )
    return settled.join(full, key)


def _with_their_snapshots(
    spark: SparkSession, rows: DataFrame, snapshots: Sequence[Snapshot]
) -> DataFrame:
    """Add `snapshot`, the number of the snapshot in order of time, and the names of its queue."""
    oldest_first = sorted(snapshots, key=lambda snapshot: snapshot.manifest.taken_at)
    queues = [each.queue for each in oldest_first]
    taken = [
        {
            # The last parts of its location: queue manager, queue and snapshot id.
            "place": "/".join(lake.uri(snapshot.directory).split("/")[-3:]),
            "snapshot": number,
            **_names_of(snapshot),
            "taken_at": snapshot.manifest.taken_at,
            "place_in_queue": queues[: number + 1].count(queues[number]),
            "snapshots_of_queue": queues.count(queues[number]),
        }
        for number, snapshot in enumerate(oldest_first)
    ]
    known = spark.createDataFrame(pa.Table.from_pylist(taken))
    # The names are percent-encoded, where a plus stands for itself.
    path = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    place = F.regexp_extract(path, r"([^/]+/[^/]+/[^/]+)/(?:headers|settled)/[^/]+\z", 1)
    return rows.withColumn("place", place).drop("_metadata").join(F.broadcast(known), "place")


# Divide a snapshot's row groups into tasks, and read the rows of a task.
#
# A stretch is a range of browse numbers that starts and ends between buckets of the plan's hash.
# Every bucket is then in one task, in order, so no rows are sorted or exchanged.

ROWS_AT_ONCE: Final = 65_536
"""The approximate number of rows in a batch, which fits the processor's cache."""

_FILES: Final = 256
"""The most files whose footers the driver reads; with more files, it reads no footers."""


@dataclass(frozen=True, slots=True)
class Group:
    """A row group of a file, with its number of rows and its range of browse numbers."""

    file: str
    digest: FileDigest | None
    number: int
    rows: int
    first: int
    last: int


Stretch = tuple[int, int, Sequence[Group]]
"""A range of browse numbers, whose end is not included, and the groups with rows in it."""


def groups_in_order(headers: Files) -> list[Group] | None:
    """Return the row groups of these files in browse order, from the files' footers.

    Returns None if they overlap, as in files written by other programs, or have no statistics.
    """
    if len(headers) > _FILES:
        return None
    groups = []
    for location, digest in headers.items():
        with open_parquet(location, digest) as file:
            metadata = file.metadata
        place = metadata.schema.to_arrow_schema().names.index("browse_seq")
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            known = group.column(place).statistics
            if not group.num_rows:
                continue
            if known is None or not known.has_min_max:
                return None
            groups.append(Group(location, digest, number, group.num_rows, known.min, known.max))
    groups.sort(key=lambda group: group.first)
    ascend = all(one.last < other.first for one, other in pairwise(groups))
    return groups if ascend else None


def stretches(groups: Sequence[Group], rows: int) -> list[Stretch]:
    """Divide a snapshot into stretches of about this number of rows."""
    if not groups:
        return []
    bounds = [groups[0].first]
    waiting = 0
    for group in groups:
        cut = group.first // MESSAGES_TO_A_BUCKET * MESSAGES_TO_A_BUCKET
        if waiting >= rows and cut > bounds[-1]:
            bounds.append(cut)
            waiting = 0
        waiting += group.rows
    bounds.append(groups[-1].last + 1)
    return [
        (start, end, [one for one in groups if one.last >= start and one.first < end])
        for start, end in pairwise(bounds)
    ]


def stretch_rows(
    stretch: Stretch, columns: Sequence[str], constants: dict[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stretch: these columns, and constant columns.

    Texts are Parquet's own dictionaries if available. No other column is read.
    """
    start, end, groups = stretch
    browse_seq = pc.field("browse_seq")
    texts = [each for each in columns if pa.types.is_string(HEADERS.field(each).type)]
    by_file = groupby(groups, key=lambda group: (group.file, group.digest))
    for (location, digest), of_file in by_file:
        with open_parquet(location, digest, read_dictionary=texts, pre_buffer=True) as file:
            for some in _batched(of_file):
                rows = file.read_row_groups(
                    [group.number for group in some], columns=list(columns), use_threads=False
                )
                if some[0].first < start or some[-1].last >= end:
                    rows = rows.filter((browse_seq >= start) & (browse_seq < end))
                for column, value in constants.items():
                    first = pa.array(np.zeros(rows.num_rows, np.int32))
                    repeated = pa.DictionaryArray.from_arrays(first, [value])
                    rows = rows.append_column(column, repeated)
                yield from rows.unify_dictionaries().combine_chunks().to_batches()


def _batched(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """Yield lists of adjacent groups that together fit one batch."""
    some: list[Group] = []
    for group in groups:
        if some and sum(each.rows for each in some) + group.rows > ROWS_AT_ONCE:
            yield some
            some = []
        some.append(group)
    yield some
