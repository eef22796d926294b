"""Read the header rows of snapshots as one DataFrame.

Only the requested columns are read, and never the stored bytes of bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.lake import Snapshot
from mqdlq.lake.files import Files, verify
from mqdlq.lake.schema import HEADERS

_SPARK_TYPES: Final = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.list_(pa.string()): "array<string>",
}


def names_of(snapshot: Snapshot) -> dict[str, str]:
    """Return the values that all messages of a snapshot share: its queue and its id."""
    manifest = snapshot.manifest
    return {
        "queue_manager": manifest.queue_manager,
        "queue": manifest.queue,
        "snapshot_id": manifest.snapshot_id,
    }


def read_headers(
    spark: SparkSession,
    snapshots: Sequence[Snapshot],
    columns: Sequence[str],
    *,
    whole: bool = False,
) -> DataFrame:
    """Return these columns of the snapshots' rows, with `queue_manager`, `queue` and `snapshot_id`.

    If several snapshots of a queue have a message, its row is that of the newest. With `whole`,
    settled messages are included as in `lake.whole_rows`, which requires the columns `browse_seq`
    and `message_key`. Raises `LakeError` if a snapshot lacks a full row.
    """
    if len(snapshots) == 1 and not (whole and snapshots[0].manifest.settled):
        rows = _read(spark, snapshots, columns)
        names = names_of(snapshots[0]).items()
        return rows.select(*columns, *(F.lit(value).alias(name) for name, value in names))
    rows = read_all_headers(spark, snapshots, columns, whole=whole)
    return _newest(rows, "message_key").select(*columns, "queue_manager", "queue", "snapshot_id")


def read_all_headers(
    spark: SparkSession,
    snapshots: Sequence[Snapshot],
    columns: Sequence[str],
    *,
    whole: bool = False,
) -> DataFrame:
    """Return these columns of all rows of all snapshots, a message once for each snapshot.

    `whole` is as in `read_headers`. `taken_at` is the snapshot's time, `snapshot` its number in
    order of time, and `place_in_queue` its number among the `snapshots_of_queue` of its queue.
    """
    rows = _with_their_snapshots(spark, _read(spark, snapshots, columns), snapshots)
    if not whole or not any(snapshot.manifest.settled for snapshot in snapshots):
        return rows
    return rows.unionByName(_settled(spark, snapshots, columns).select(*rows.columns))


def _read(spark: SparkSession, snapshots: Sequence[Snapshot], columns: Sequence[str]) -> DataFrame:
    return _verified(spark, [snapshot.headers for snapshot in snapshots], _schema(columns))


def _verified(spark: SparkSession, files: Sequence[Files], schema: str) -> DataFrame:
    """Return the rows of files that Spark itself reads: they are verified before."""
    for some in files:
        verify(some)
    return spark.read.schema(schema).parquet(*(lake.uri(one) for some in files for one in some))


def _referred(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots with the full rows of these snapshots' settled messages."""
    places = {
        f"{snapshot.directory.rsplit('/', 1)[0]}/{snapshot_id}"
        for snapshot in snapshots
        for snapshot_id in snapshot.manifest.refers_to
    }
    return [Snapshot.at(place) for place in sorted(places)]


def _settled(
    spark: SparkSession, snapshots: Sequence[Snapshot], columns: Sequence[str]
) -> DataFrame:
    """Return the settled messages of all snapshots with their full rows.

    Raises `LakeError` if a full row is missing. Equal messages have equal rows, so any full row
    fits all positions of its message. `browsed_at` is the time of the snapshot.
    """
    compact = [each.settled for each in snapshots]
    referred = _referred(snapshots)
    schema = "browse_seq bigint, message_key binary, snapshot_id string"
    rows = _verified(spark, compact, schema)
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


def _schema(columns: Sequence[str]) -> str:
    return ", ".join(f"`{name}` {_SPARK_TYPES[HEADERS.field(name).type]}" for name in columns)


def _with_their_snapshots(
    spark: SparkSession, rows: DataFrame, snapshots: Sequence[Snapshot]
) -> DataFrame:
    """Add `snapshot`, the number of the snapshot in order of time, and the names of its queue."""
    oldest_first = sorted(snapshots, key=lambda snapshot: snapshot.manifest.taken_at)
    queues = [each.queue for each in oldest_first]
    taken = [
        {
            "place": _place(snapshot.directory),
            "snapshot": number,
            **names_of(snapshot),
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
    return rows.withColumn("place", place).join(F.broadcast(known), "place")


def _place(directory: str) -> str:
    """Return the last parts of a snapshot's location: queue manager, queue and snapshot id."""
    return "/".join(lake.uri(directory).split("/")[-3:])


def _newest(rows: DataFrame, key: str) -> DataFrame:
    same = Window.partitionBy("queue_manager", "queue", key)
    return rows.withColumn("newest", F.max("snapshot").over(same)).where("snapshot = newest")
