"""Reading snapshots: directories in, the rows of their headers as one DataFrame out.

Only the columns asked for are read; what was captured of the messages' bodies never is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.lake import SnapshotManifest
from mqdlq.lake.schema import HEADERS
from mqdlq.lake.storage import file_names, filesystem

_SPARK_TYPES: Final = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A finished snapshot: where it stands, and what it says of itself."""

    directory: str
    manifest: SnapshotManifest

    @classmethod
    def at(cls, directory: str) -> Snapshot:
        """Read the manifest; raises `LakeError` where there is none."""
        place = directory.rstrip("/")
        return cls(place, lake.read_manifest(place))

    @property
    def headers(self) -> str:
        """The directory of its rows."""
        return f"{self.directory}/headers"


def read_headers(
    spark: SparkSession,
    snapshots: Sequence[Snapshot],
    columns: Sequence[str],
    *,
    whole: bool = False,
) -> DataFrame:
    """Return these columns of the snapshots' rows, with `queue_manager`, `queue` and `snapshot_id`.

    A message that is in several snapshots of a queue is given as the newest has it. With `whole`,
    parked messages are among them as `lake.whole_rows` has them; `browse_seq` and `message_key`
    must be asked for then. Raises `LakeError` where a snapshot lacks a column or a full row.
    """
    for snapshot in snapshots:
        _must_have(snapshot, columns)
    if len(snapshots) == 1 and not (whole and snapshots[0].manifest.parked):
        rows = _read(spark, snapshots, columns)
        manifest = snapshots[0].manifest
        return rows.select(
            *columns,
            F.lit(manifest.queue_manager).alias("queue_manager"),
            F.lit(manifest.queue).alias("queue"),
            F.lit(manifest.snapshot_id).alias("snapshot_id"),
        )
    rows = read_all_headers(spark, snapshots, columns, whole=whole)
    return _newest(rows, "message_key").select(*columns, "queue_manager", "queue", "snapshot_id")


def read_all_headers(
    spark: SparkSession,
    snapshots: Sequence[Snapshot],
    columns: Sequence[str],
    *,
    whole: bool = False,
) -> DataFrame:
    """Return these columns of all rows of all snapshots, a message once for each that has it.

    `whole` is that of `read_headers`. `taken_at` is the snapshot's, `snapshot` its number in the
    order of taking, `place_in_queue` its number among the `snapshots_of_queue` of the same queue.
    """
    rows = _with_their_snapshots(spark, _read(spark, snapshots, columns), snapshots)
    if not whole or not any(snapshot.manifest.parked for snapshot in snapshots):
        return rows
    return rows.unionByName(_parked(spark, snapshots, columns).select(*rows.columns))


def sample_headers(
    snapshots: Sequence[Snapshot], columns: Sequence[str], at_most: int, *, whole: bool = False
) -> tuple[pa.Table, bool]:
    """Return some rows from all over the snapshots, and whether they are all there are.

    With `whole`, snapshots with the full rows of parked messages are among those looked into. Row
    groups are read whole, so that there may be a few rows more.
    """
    referred = _referred(snapshots) if whole else []
    chosen = [
        *snapshots[:: max(1, len(snapshots) // 16)],
        *referred[:: max(1, len(referred) // 16)],
    ]
    groups = [
        (snapshot, name, group, rows)
        for snapshot in chosen
        for name in _spread(file_names(snapshot.headers, ".parquet"), 16)
        for group, rows in enumerate(_rows_of_groups(snapshot, name))
        if rows
    ]
    rows = sum(group[3] for group in groups)
    step = max(1, -(-rows // at_most))
    parts = []
    for snapshot, name, group, _ in groups[::step]:
        files, path = filesystem(f"{snapshot.headers}/{name}")
        with files.open(path, "rb") as file:
            parts.append(pq.ParquetFile(file).read_row_group(group, columns=list(columns)))
    empty = pa.schema([HEADERS.field(name) for name in columns]).empty_table()
    found = pa.concat_tables([empty, *parts], promote_options="permissive") if parts else empty
    is_all = len(chosen) == 1 and found.num_rows == snapshots[0].manifest.counts.full
    return found.select(list(columns)), is_all


def _read(spark: SparkSession, snapshots: Sequence[Snapshot], columns: Sequence[str]) -> DataFrame:
    places = [lake.uri(snapshot.headers) for snapshot in snapshots]
    return spark.read.schema(_schema(columns)).parquet(*places)


def _referred(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots that hold the full rows of messages parked in these."""
    places = {
        f"{snapshot.directory.rsplit('/', 1)[0]}/{snapshot_id}"
        for snapshot in snapshots
        for snapshot_id in snapshot.manifest.refers_to
    }
    return [Snapshot.at(place) for place in sorted(places)]


def _parked(
    spark: SparkSession, snapshots: Sequence[Snapshot], columns: Sequence[str]
) -> DataFrame:
    """Return the parked messages of all snapshots with their full rows; `LakeError` if one lacks.

    Equal messages have equal rows, so any full one will do for all places of its message.
    """
    compact = [f"{each.directory}/parked" for each in snapshots if each.manifest.parked]
    referred = _referred(snapshots)
    for snapshot in referred:
        _must_have(snapshot, columns)
    schema = "browse_seq bigint, message_key binary, snapshot_id string"
    rows = spark.read.schema(schema).parquet(*map(lake.uri, compact))
    held_by = F.col("snapshot_id").alias("held_by")
    rows = rows.select("browse_seq", "message_key", held_by, "_metadata")
    parked = _with_their_snapshots(spark, rows, snapshots)
    own = [name for name in columns if name not in {"browse_seq", "message_key"}]
    key = ["queue_manager", "queue", "held_by", "message_key"]
    full = _with_their_snapshots(spark, _read(spark, referred, columns), referred)
    full = full.withColumn("held_by", F.col("snapshot_id")).select(*key, *own).dropDuplicates(key)
    lacking = parked.join(full, key, "left_anti").groupBy("held_by", "snapshot_id").count()
    for snapshot_id, says, missing in lacking.limit(1).collect():
        raise LakeError(
            f"snapshot {snapshot_id} lacks {missing} messages that snapshot {says} says it holds;"
            " take a full snapshot"
        )
    return parked.join(full, key)


def _schema(columns: Sequence[str]) -> str:
    return ", ".join(f"`{name}` {_SPARK_TYPES[HEADERS.field(name).type]}" for name in columns)


def _spread(things: list[str], at_most: int) -> list[str]:
    return things[:: max(1, -(-len(things) // at_most))]


def _rows_of_groups(snapshot: Snapshot, name: str) -> list[int]:
    metadata = _metadata(snapshot, name)
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


def _metadata(snapshot: Snapshot, name: str) -> Any:
    files, path = filesystem(f"{snapshot.headers}/{name}")
    with files.open(path, "rb") as file:
        return pq.read_metadata(file)


def _must_have(snapshot: Snapshot, columns: Sequence[str]) -> None:
    for name in file_names(snapshot.headers, ".parquet")[:1]:
        held = _metadata(snapshot, name).schema.to_arrow_schema().names
        missing = sorted(set(columns) - set(held))
        if missing:
            raise LakeError(
                f"{snapshot.directory}: its headers lack the columns {', '.join(missing)}"
            )


def _with_their_snapshots(
    spark: SparkSession, rows: DataFrame, snapshots: Sequence[Snapshot]
) -> DataFrame:
    """Add `snapshot`, its number in the order of taking, and the names of its queue."""
    oldest_first = sorted(snapshots, key=lambda snapshot: snapshot.manifest.taken_at)
    queues = [(each.manifest.queue_manager, each.manifest.queue) for each in oldest_first]
    taken = [
        {
            "place": _last_segment(snapshot.directory),
            "snapshot": number,
            "queue_manager": snapshot.manifest.queue_manager,
            "queue": snapshot.manifest.queue,
            "snapshot_id": snapshot.manifest.snapshot_id,
            "taken_at": snapshot.manifest.taken_at,
            "place_in_queue": queues[: number + 1].count(queues[number]),
            "snapshots_of_queue": queues.count(queues[number]),
        }
        for number, snapshot in enumerate(oldest_first)
    ]
    known = spark.createDataFrame(pa.Table.from_pylist(taken))
    path = F.col("_metadata.file_path")
    place = F.regexp_extract(path, r"([^/]+)/(?:headers|parked)/[^/]+\z", 1)
    return rows.withColumn("place", place).join(F.broadcast(known), "place")


def _last_segment(directory: str) -> str:
    return directory.rsplit("/", 1)[-1]


def _newest(rows: DataFrame, key: str) -> DataFrame:
    same = Window.partitionBy("queue_manager", "queue", key)
    return rows.withColumn("newest", F.max("snapshot").over(same)).where("snapshot = newest")
