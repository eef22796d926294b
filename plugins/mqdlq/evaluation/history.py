"""Build the history from all snapshots, plans and outcomes.

The history's directory has `causes`, `arrivals` and `rules` as Parquet. The inputs
`outcomes.parquet` and `pruned.parquet` are in the same directory. The pages of a handler read the
ledger's own history (`mqdlq.ledger.reading.history`).
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from mqdlq import lake
from mqdlq.causes import find_cause
from mqdlq.errors import LakeError
from mqdlq.evaluation.messages import read_all_headers, read_files
from mqdlq.evaluation.workers import run_on_workers
from mqdlq.lake import Snapshot, storage
from mqdlq.lake.schema import PLAN
from mqdlq.model import DEPARTED, MessageClass, Outcome, Trait
from mqdlq.rules import parse
from mqdlq.rules.comparing import rule_text

CAUSE: Final = ("cause_id", "reason", "dest_q_name", "dest_q_mgr_name", "put_appl_name")
_WRITTEN: Final = ("reason", "queue_name", "queue_manager_name")
_CAUSES: Final = pa.schema(
    {"reason": pa.int32(), **dict.fromkeys((*_WRITTEN[1:], *CAUSE[2:4], "cause_id"), pa.string())}
)
_QUEUE: Final = ("queue_manager", "queue")
_COLUMNS: Final = (
    *("browse_seq", "message_key", "class", "dlh_reason", "dlh_dest_q_name"),
    *("dlh_dest_q_mgr_name", "put_appl_name", "dead_lettered_at"),
)


def write_history(root: str, directory: str) -> None:
    """Write the history of a lake; raise `LakeError`."""
    history = directory.rstrip("/")
    # Snapshots that backfills merged repeat messages of their source snapshots.
    stored = lake.finished_snapshots(root)
    snapshots = [one for one in stored if not one.manifest.put_together_from]
    if not snapshots:
        raise LakeError("MQDLQ-413", f"{root} holds no finished snapshot")
    spark = SparkSession.builder.appName("mqdlq history").getOrCreate()
    sightings = _sightings(read_all_headers(spark, snapshots, _COLUMNS, whole=True))
    messages = sightings.groupBy(*_QUEUE, "message_key").agg(
        *(F.max_by(name, "snapshot").alias(name) for name in CAUSE),
        F.min("first_seen").alias("first_seen"),
        F.max("last_seen").alias("last_seen"),
    )
    outcomes = _exported(spark, f"{history}/outcomes.parquet", _OUTCOMES)
    pruned = _exported(spark, f"{history}/pruned.parquet", _PRUNED)
    tables = {
        "causes": _causes(sightings, messages, outcomes),
        "arrivals": _arrivals(messages),
        "rules": _rules(spark, root, snapshots, outcomes, pruned),
    }
    # The driver writes the few rows of a table: into an object store, too, without Hadoop's part.
    written = {name: table.toArrow() for name, table in tables.items()}
    for name, rows in written.items():
        storage.remove_directory(f"{history}/{name}")
        storage.make_directory(f"{history}/{name}")
        with storage.new_file(f"{history}/{name}/part-00000.parquet") as file:
            pq.write_table(rows, file)
    sys.stdout.write(
        f"dlq_history: {len(snapshots)} snapshots, {messages.count()} messages,"
        f" {written['causes'].num_rows} causes\n"
    )


def _sightings(rows: DataFrame) -> DataFrame:
    """Return a row for every dead letter in every snapshot, with its cause.

    Queues with generated names are one destination, such as ``AMQ.*``. The cause of each reason
    and destination is found once.
    """
    at = F.coalesce("dead_lettered_at", "taken_at")
    letters = rows.where(F.col("class") == MessageClass.DEAD_LETTER.value)
    letters = letters.withColumns(
        {
            "reason": F.coalesce("dlh_reason", F.lit(0)),
            "queue_name": F.coalesce("dlh_dest_q_name", F.lit("")),
            "queue_manager_name": F.coalesce("dlh_dest_q_mgr_name", F.lit("")),
        }
    )
    causes = run_on_workers(letters.select(*_WRITTEN).distinct(), _find_causes, _CAUSES)
    return letters.join(causes, [*_WRITTEN]).select(
        *_QUEUE,
        "message_key",
        "snapshot",
        *CAUSE[:4],
        F.rtrim(F.coalesce("put_appl_name", F.lit(""))).alias("put_appl_name"),
        F.least(at, "taken_at").alias("first_seen"),
        F.col("taken_at").alias("last_seen"),
        "place_in_queue",
        "snapshots_of_queue",
    )


def _find_causes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put beside each reason and destination their cause."""
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            cause = find_cause(MessageClass.DEAD_LETTER, *row.values())
            found = {name: getattr(cause, name) for name in CAUSE[:4]}
            rows.append({**row, **found})
        yield pa.RecordBatch.from_pylist(rows, schema=_CAUSES)


# The outcomes of messages, and those of pruned runs by number.
_OF_RUN: Final = dict.fromkeys(("run_id", *_QUEUE, "rules_digest"), pa.string())
_OF_RULE: Final = {"dry_run": pa.bool_(), "rule": pa.int32(), "outcome": pa.string()}
_OUTCOMES: Final = pa.schema(
    {"message_key": pa.binary(), **_OF_RUN, **_OF_RULE, "at": pa.timestamp("us", tz="UTC")}
)
_PRUNED: Final = pa.schema({**_OF_RUN, **_OF_RULE, "messages": pa.int64()})


def _exported(spark: SparkSession, place: str, schema: pa.Schema) -> DataFrame:
    """Return what the ledger exported without dry runs; empty if there is no such file."""
    files = [{place: None}] if storage.exists(place) else []
    return read_files(spark, files, schema).where("not dry_run")


def _causes(sightings: DataFrame, messages: DataFrame, outcomes: DataFrame) -> DataFrame:
    """Count messages by cause, with new and returned causes and their resolution.

    A new cause is only in the latest snapshot of a queue. A returned cause is in the latest and an
    earlier snapshot, but not in the one before the latest. Ages and times are in seconds.
    """
    latest = F.col("place_in_queue") == F.col("snapshots_of_queue")
    before = F.col("place_in_queue") == F.col("snapshots_of_queue") - 1
    earlier = F.col("place_in_queue") < F.col("snapshots_of_queue") - 1
    seen = sightings.groupBy(*_QUEUE, *CAUSE).agg(
        F.max(latest).alias("is_there"),
        F.max(before).alias("was_there"),
        F.max(earlier).alias("was_earlier"),
        F.sum(F.when(latest, 1).otherwise(0)).alias("messages_now"),
        F.max(F.when(latest, _seconds("first_seen", "last_seen"))).alias("oldest_s"),
    )
    departed = outcomes.where(F.col("outcome").isin([outcome.value for outcome in DEPARTED]))
    resolved = departed.groupBy(*_QUEUE, "message_key").agg(F.max("at").alias("resolved_at"))
    counted = (
        messages.join(resolved, [*_QUEUE, "message_key"], "left")
        .withColumn("resolution_s", _seconds("first_seen", "resolved_at"))
        .groupBy(*_QUEUE, *CAUSE)
        .agg(
            F.count(F.lit(1)).alias("messages"),
            F.min("first_seen").alias("first_seen"),
            F.max("last_seen").alias("last_seen"),
            F.count("resolved_at").alias("resolved"),
            F.expr("percentile_approx(resolution_s, 0.5)").alias("resolution_median_s"),
            F.expr("percentile_approx(resolution_s, 0.9)").alias("resolution_p90_s"),
        )
    )
    state = (
        F.when(~F.col("is_there"), "gone")
        .when(~F.col("was_there") & ~F.col("was_earlier"), "new")
        .when(~F.col("was_there"), "returned")
        .otherwise("known")
    )
    both = counted.join(seen, [*_QUEUE, *CAUSE]).withColumn("state", state)
    return both.drop("is_there", "was_there", "was_earlier").orderBy(F.desc("messages"), *CAUSE)


def _arrivals(messages: DataFrame) -> DataFrame:
    """Count how many messages arrived in each hour, the latest first."""
    hour = F.date_trunc("hour", "first_seen").alias("hour")
    counted = messages.groupBy(*_QUEUE, hour).agg(F.count(F.lit(1)).alias("messages"))
    return counted.orderBy(F.desc("hour"), *_QUEUE)


def _rules(
    spark: SparkSession,
    root: str,
    snapshots: Sequence[Snapshot],
    outcomes: DataFrame,
    pruned: DataFrame,
) -> DataFrame:
    """Count for every rule of every table the messages that match it, and those it settled.

    The outcomes of pruned runs count, too; how many different messages they had is not known.
    """
    tables = {s.manifest.rules_digest: s.manifest for s in snapshots}
    rules = [
        {"rules_digest": digest, "rule": rule.ordinal, "line": rule.line, "text": rule_text(rule)}
        for digest, manifest in tables.items()
        for rule in parse(
            manifest.rules_text, "the rules of a snapshot", manifest.queue_kind, frozen=True
        ).rules
    ]
    texts = {name: pa.string() for name in ("rules_digest", "text")}
    schema = pa.schema({**texts, "rule": pa.int32(), "line": pa.int32()})
    known = spark.createDataFrame(pa.Table.from_pylist(rules, schema=schema))
    columns = ("rules_digest", "rule", "outcome")
    each = outcomes.select(*columns, F.lit(1).alias("number"))
    both = each.union(pruned.select(*columns, F.col("messages").alias("number")))
    key = ["rules_digest", "rule"]
    told = (
        both.where("rule > 0")
        .groupBy(key)
        .agg(_counted(Trait.SUCCEEDED, "succeeded"), _counted(Trait.FAILED, "failed"))
    )
    joined = known.join(_met(spark, root), key, "left").join(told, key, "left")
    tried = F.col("succeeded") + F.col("failed")
    return joined.select(
        *key,
        "line",
        "text",
        F.coalesce("met", F.lit(0)).alias("met"),
        F.col("met").isNull().alias("never_matched"),
        F.coalesce("succeeded", F.lit(0)).alias("succeeded"),
        F.coalesce("failed", F.lit(0)).alias("failed"),
        F.when(tried > 0, F.col("succeeded") / tried).alias("success_rate"),
    ).orderBy(*key)


def _met(spark: SparkSession, root: str) -> DataFrame:
    """Count the messages whose steps, in any finished plan, have a rule among them."""
    plans = [
        {"plan": description.plan_id, "rules_digest": description.rules_digest}
        for description in lake.finished_plans(root)
    ]
    if not plans:
        return spark.createDataFrame([], "rules_digest string, rule int, met bigint")
    known = spark.createDataFrame(pa.Table.from_pylist(plans))
    places = [lake.plan_directory(root, plan["plan"]) for plan in plans]
    files = [
        {f"{place}/{name}": None for name in storage.file_names(place, ".parquet")}
        for place in places
    ]
    rows = read_files(spark, files, pa.schema([PLAN.field("message_key"), PLAN.field("steps")]))
    plan = F.regexp_extract("_metadata.file_path", r"([^/]+)/[^/]+\z", 1)
    rule = F.explode(F.from_json("steps", "array<struct<rule int>>")["rule"])
    rules = rows.select(plan.alias("plan"), "message_key", rule.alias("rule"))
    return (
        rules.join(F.broadcast(known), "plan")
        .groupBy("rules_digest", "rule")
        .agg(F.countDistinct("message_key").alias("met"))
    )


def _counted(trait: Trait, name: str) -> Column:
    has_trait = F.col("outcome").isin([outcome.value for outcome in Outcome.having(trait)])
    return F.sum(F.when(has_trait, F.col("number")).otherwise(0)).alias(name)


def _seconds(start: str, end: str) -> Column:
    return F.col(end).cast("long") - F.col(start).cast("long")
