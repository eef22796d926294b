"""Looking things up for every message: rows and a small table in, rows with its columns out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from mqdlq.model import MessageClass
from value_masks import as_compared

MARK = "mark"


def keyed(messages: DataFrame, dead: str, columns: Sequence[str]) -> DataFrame:
    """Return messages with these columns as the matcher takes them, and whether they are letters.

    An absent value is blank or 0, and so is every value of what is no dead letter.
    """
    is_dead = F.col("class") == MessageClass.DEAD_LETTER.value
    kinds = dict(messages.dtypes)
    blank = {
        name: F.lit("" if kinds[name] == "string" else 0).cast(kinds[name]) for name in columns
    }
    return messages.select(
        *(name for name in messages.columns if name not in {dead, *columns}),
        is_dead.alias(dead),
        *(F.coalesce(F.when(is_dead, F.col(name)), blank[name]).alias(name) for name in columns),
    )


def distinct_rows(sample: pa.Table, dead: str, key: Sequence[str]) -> pa.Table:
    """Return the distinct keys of rows that are all here with their counts, as `keyed` has them."""
    is_dead = pc.equal(sample["class"], MessageClass.DEAD_LETTER.value)
    columns = {dead: is_dead}
    for name in key:
        if name != dead:
            held = pc.if_else(is_dead, sample[name], pa.scalar(None, sample[name].type))
            columns[name] = as_compared(held)
    rows = pa.table(columns).append_column("messages", pa.repeat(1, sample.num_rows))
    found = rows.group_by(list(key), use_threads=False).aggregate([("messages", "sum")])
    return found.rename_columns([*key, "messages"])


def counted(rows: DataFrame, key: Sequence[str], at_most: int) -> pa.Table | None:
    """Bring the distinct keys of rows to the driver with their counts; None if there are more.

    `mark` is what `joined` finds them by: one number in the place of all columns of the key.
    """
    found = rows.groupBy(*key).agg(F.count(F.lit(1)).alias("messages"))
    marked = found.select(*key, "messages", fingerprint(key).alias(MARK))
    seen = marked.limit(at_most + 1).toArrow()
    return None if seen.num_rows > at_most else seen


def joined(
    spark: SparkSession,
    rows: DataFrame,
    table: pa.Table,
    key: Sequence[str],
    added: Sequence[str],
) -> DataFrame:
    """Add columns of a table that has every key there is; it is sent to every executor.

    Where no two keys have the same mark, they are found by it, else by all their columns.
    """
    by_mark = MARK in table.column_names and pc.count_distinct(table[MARK]).as_py() == len(table)
    on = [MARK] if by_mark else list(key)
    known = F.broadcast(spark.createDataFrame(table.select([*on, *added])))
    marked = rows.withColumn(MARK, fingerprint(key)) if by_mark else rows
    return marked.join(known, on).select(*rows.columns, *added)


def fingerprint(key: Sequence[str]) -> Column:
    """Return a number for the values of these columns, none of which is null."""
    return F.xxhash64(*key)
