"""Transforms of the evaluation: decided messages in; plan rows, their counts and hash out.

All that is done per message are joins and expressions of Spark's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from hashlib import sha256
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from bucket_digests import SCHEMA as DIGESTS
from bucket_digests import digests_if_sorted, digests_of_sorted
from decisions import DEAD, Decided
from mqdlq.lake import StepCount
from mqdlq.lake.schema import STEP
from mqdlq.model import Disposition
from mqdlq.plan import MESSAGES_TO_A_BUCKET, STEP_FIELDS, TARGET_COLUMNS, resolve, steps_of
from mqdlq.rules import RulesTable
from treatments import OPEN, in_order, open_targets, targets_needed
from value_masks import BITS
from workers import asked_of_workers

BUCKETS_APART: Final = 64
"""Up to so many buckets are read again by their browse numbers; for more, everything is."""
_ROW = ("browse_seq", "message_key", "queue_manager", "queue")


def columns_needed(table: RulesTable) -> list[str]:
    """Name the columns of `headers` an evaluation reads, each once."""
    read = {"browse_seq", "message_key", "class", *table.columns, *targets_needed(table)}
    return sorted(read)


def planned(spark: SparkSession, decided: Decided, table: RulesTable) -> DataFrame:
    """Return the rows of a plan, in no order, with the `digest` of what is done."""
    rows = with_steps(spark, decided, table)
    return rows.select(*_ROW, "disposition", "steps", "winning_rule", "nearest_rule", "digest")


def with_steps(spark: SparkSession, decided: Decided, table: RulesTable) -> DataFrame:
    """Add to decided messages what is done with them.

    Steps whose targets only the message's own row knows are completed from it.
    """
    messages = decided.messages
    if decided.treatments is None:
        rows, is_open = _of_bits(spark, messages, table), True
    else:
        known = spark.createDataFrame(decided.treatments.to_arrow())
        if decided.has_nearest:
            known = known.drop("nearest_rule")
        rows = messages.join(F.broadcast(known), "treatment")
        is_open = decided.treatments.is_open
    if not is_open:
        return rows
    columns = [name for name in TARGET_COLUMNS if name in targets_needed(table)]
    filled = F.zip_with("steps", "open", lambda step, name: _filled(step, name, columns))
    whole = F.col("open").isNull()
    completed = rows.withColumn("steps", F.when(whole, F.col("steps")).otherwise(filled))
    digest = F.when(whole, F.col("digest")).otherwise(_treatment_digest())
    return completed.withColumn("digest", digest)


def plan_hash(rows: DataFrame, *, in_order: bool = True) -> tuple[str, int]:
    """Return what `mqdlq.plan.plan_hash` returns of the same rows, and their number.

    Workers digest buckets of 4096 messages, the driver gets one digest of each. Rows that mostly
    stand `in_order` of browsing are digested where they are, and only the buckets that are spread
    over partitions are brought together and sorted.
    """
    names = F.concat(_measured("queue_manager"), _measured("queue"))
    start = F.concat("browse_seq", F.lit(":"), F.length("message_key").cast("string"), F.lit(":"))
    content = F.concat(start.cast("binary"), "message_key", names.cast("binary"), F.unhex("digest"))
    contents = rows.select("browse_seq", content.alias("content"))
    digests: dict[int, str] = {}
    found: Counter[int] = Counter()
    spread: set[int] | None = None
    if in_order:
        spread = set()
        for row in asked_of_workers(contents, digests_if_sorted, DIGESTS).collect():
            if row["bucket"] in found or row["digest"] is None:
                spread.add(row["bucket"])
            digests[row["bucket"]] = row["digest"]
            found[row["bucket"]] += row["rows"]
    if spread is None or spread:
        some = _of_buckets(contents, spread or set())
        bucket = F.floor(F.col("browse_seq") / MESSAGES_TO_A_BUCKET)
        together = some.repartition(bucket).sortWithinPartitions("browse_seq", "content")
        for row in asked_of_workers(together, digests_of_sorted, DIGESTS).collect():
            digests[row["bucket"]] = row["digest"]
            found[row["bucket"]] = row["rows"]
    whole = sha256()
    for _, digest in sorted(digests.items()):
        whole.update(digest.encode())
    return whole.hexdigest(), found.total()


def _of_buckets(contents: DataFrame, buckets: set[int]) -> DataFrame:
    """Return the rows of these buckets, or all where there are many buckets or none are named."""
    if not buckets or len(buckets) > BUCKETS_APART:
        return contents
    browse_seq = F.col("browse_seq")
    ranges = [
        (browse_seq >= bucket * MESSAGES_TO_A_BUCKET)
        & (browse_seq < (bucket + 1) * MESSAGES_TO_A_BUCKET)
        for bucket in sorted(buckets)
    ]
    return contents.where(reduce(Column.__or__, ranges))


def plan_counts(plan: DataFrame) -> tuple[dict[str, int], tuple[StepCount, ...]]:
    """Count the messages by disposition, and the planned ones by their first step."""
    first = F.get("steps", F.lit(0))
    what = ("rule", "rule_line", "action", "target_q", "target_q_mgr")
    rows = plan.groupBy("disposition", *(first[name].alias(name) for name in what)).count()
    dispositions = {disposition.value: 0 for disposition in Disposition}
    counts = []
    for row in rows.collect():
        dispositions[row["disposition"]] += row["count"]
        if row["disposition"] == Disposition.PLANNED.value:
            counts.append(StepCount(*row[1:]))
    return dispositions, in_order(counts)


def _of_bits(spark: SparkSession, messages: DataFrame, table: RulesTable) -> DataFrame:
    """Take each message's steps out of those of all rules, by the bits of the rules it meets."""
    templates = [step for rule in table.rules for step in steps_of([rule])]
    blank = dict.fromkeys(TARGET_COLUMNS, "")
    steps = [
        {name: getattr(step, name) for name in STEP_FIELDS}
        for step in (resolve(template, blank) for template in templates)
    ]
    every = [
        {"step": step, "open": name}
        for step, name in zip(steps, open_targets(templates, {}), strict=True)
    ]
    both = pa.struct([("step", STEP), ("open", OPEN)])
    known = spark.createDataFrame(
        pa.Table.from_pylist([{"every": every}], schema=pa.schema([("every", pa.list_(both))]))
    )
    words = F.array(*(name for name in messages.columns if name.startswith("word_")))

    def meets(one: Column) -> Column:
        place = one["step"]["rule"] - 1
        word = F.get(words, F.floor(place / BITS).cast("int"))
        return F.getbit(word, place % BITS) == 1

    met = messages.join(F.broadcast(known)).withColumn("met", F.filter("every", meets))
    planned_or_not = F.when(F.size("met") > 0, Disposition.PLANNED.value).otherwise(
        Disposition.NO_RULE.value
    )
    nearest = "nearest_rule" in messages.columns
    winning = F.get("met", F.lit(0))["step"]["rule"] if nearest else F.lit(None).cast("int")
    return met.select(
        *(name for name in messages.columns if not name.startswith("word_")),
        F.when(~F.col(DEAD), Disposition.UNPROCESSABLE.value)
        .otherwise(planned_or_not)
        .alias("disposition"),
        F.col("met.step").alias("steps"),
        F.col("met.open").alias("open"),
        F.lit(None).cast("string").alias("digest"),
        winning.alias("winning_rule"),
        *([] if nearest else [F.lit(None).cast("int").alias("nearest_rule")]),
    )


def _filled(step: Column, name: Column, columns: Sequence[str]) -> Column:
    """Complete one step from the message's row, as `mqdlq.plan.resolve` does."""
    return F.struct(
        *(
            (
                _name(step[field], name[field], columns) if field in OPEN.names else step[field]
            ).alias(field)
            for field in STEP_FIELDS
        )
    )


def _name(known: Column, column: Column, columns: Sequence[str]) -> Column:
    """Take the name from the message's column where the target names one; MQ ends it at a NUL."""
    for name in columns:
        held = F.rtrim(F.substring_index(F.col(name), "\0", 1))
        known = F.when(column == name, held).otherwise(known)
    return known


def _treatment_digest() -> Column:
    """Digest what is done with a message, as `mqdlq.plan.treatment_digest` does."""
    steps = F.transform(
        "steps", lambda step: F.concat(*(_measured(step[name]) for name in STEP_FIELDS))
    )
    start = F.concat(_measured("disposition"), _measured(F.size("steps")))
    return F.sha2(F.concat(start, F.array_join(steps, "")), 256)


def _measured(value: Column | str) -> Column:
    text = (F.col(value) if isinstance(value, str) else value).cast("string")
    return F.concat(F.length(text).cast("string"), F.lit(":"), text)
