"""Two rules tables over stored snapshots as a Spark application: what they treat differently.

    spark-submit compare_rules.py --old FILE --new FILE --snapshot DIRECTORY… --output FILE

Both tables are evaluated over the same messages in one job. What comes out is JSON: how often one
treatment became another, with samples, and which rules never matched.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from decisions import Decided, Question, decide
from evaluate_rules import nul_as_blank, rules_of_file
from mqdlq import lake
from mqdlq.errors import LakeError, MqDlqError
from mqdlq.plan import STEP_FIELDS
from mqdlq.rules import RulesTable
from plan_transforms import columns_needed, with_steps
from snapshot_rows import Snapshot, read_headers, sample_headers
from strategies import Bounds

SAMPLES: Final = 5
_ACTS: Final = tuple(name for name in STEP_FIELDS if name not in {"rule", "rule_line"})


def main(arguments: Sequence[str]) -> int:
    """Compare; return the exit code, 1 with one line on stderr for bad input."""
    parser = argparse.ArgumentParser(
        prog="compare_rules.py", description="Compare two rules tables over snapshots."
    )
    parser.add_argument("--old", required=True, help="a file with the table as it was")
    parser.add_argument("--new", required=True, help="a file with the table as it is")
    parser.add_argument("--snapshot", required=True, action="append", help="a finished snapshot")
    parser.add_argument("--output", required=True, help="the file to write the result to")
    options = parser.parse_args(arguments)
    try:
        tables = rules_of_file(options.old), rules_of_file(options.new)
        spark = SparkSession.builder.appName("mqdlq rules diff").getOrCreate()
        found = compare(spark, [Snapshot.at(place) for place in options.snapshot], *tables)
        lake.write_text(options.output, json.dumps(found))
    except (MqDlqError, PySparkException) as error:
        sys.stderr.write(f"compare_rules: {str(error).strip().splitlines()[0]}\n")
        return 1
    return 0


def compare(
    spark: SparkSession,
    snapshots: Sequence[Snapshot],
    old: RulesTable,
    new: RulesTable,
    bounds: Bounds | None = None,
) -> dict[str, Any]:
    """Return the number of messages, those treated differently as cells, and rules never met.

    A cell has the ordinals of the rules of the `old` and the `new` steps, the number of
    `messages`, and of a few of them the snapshot and the browse number. Raises `LakeError`.
    """
    columns = sorted({*columns_needed(old), *columns_needed(new)})
    headers = read_headers(spark, snapshots, columns, whole=True)
    looked_at = [name for name in columns if name not in {"browse_seq", "message_key"}]
    within = bounds or Bounds()
    sample, is_all = sample_headers(snapshots, looked_at, within.sample, whole=True)
    messages = sum(snapshot.manifest.messages for snapshot in snapshots)
    before, after = (
        Question(
            table,
            sample,
            messages,
            is_all,
            nul_as_blank=nul_as_blank(snapshots),
            bounds=within,
        )
        for table in (old, new)
    )
    first, _ = _steps(spark, headers, before, "old")
    both, _ = _steps(spark, first, after, "new")
    both = both.select("snapshot_id", "browse_seq", "class", "old", "new")
    cells = _cells(both)
    counted = both.agg(F.count(F.lit(1)), _rules_met("old"), _rules_met("new")).collect()[0]
    return {
        "messages": counted[0],
        "cells": cells,
        "never_matched": {
            "old": _never(old, counted[1]),
            "new": _never(new, counted[2]),
        },
    }


def _steps(
    spark: SparkSession, messages: DataFrame, asked: Question, name: str
) -> tuple[DataFrame, Decided]:
    """Add the steps of each message under this name."""
    decided = decide(spark, messages, asked)
    rows = with_steps(spark, decided, asked.table)
    return rows.select(*messages.columns, F.col("steps").alias(name)), decided


def _cells(both: DataFrame) -> list[dict[str, Any]]:
    """Count the messages treated differently by the rules that say so."""
    different = both.where(_acts("old") != _acts("new")).select(
        "snapshot_id",
        "browse_seq",
        F.col("old.rule").alias("old"),
        F.col("new.rule").alias("new"),
    )
    place = F.row_number().over(
        Window.partitionBy("old", "new").orderBy("snapshot_id", "browse_seq")
    )
    numbered = different.withColumn("place", place)
    sample = F.when(F.col("place") <= SAMPLES, F.struct("snapshot_id", "browse_seq"))
    rows = numbered.groupBy("old", "new").agg(
        F.count(F.lit(1)).alias("messages"),
        F.array_sort(F.collect_list(sample)).alias("samples"),
    )
    found = [row.asDict(recursive=True) for row in rows.limit(MAX_CELLS + 1).collect()]
    if len(found) > MAX_CELLS:
        raise LakeError(
            f"the messages are treated differently in more than {MAX_CELLS} ways; compare fewer"
            " snapshots, or tables that differ less"
        )
    return sorted(found, key=lambda cell: (-cell["messages"], cell["old"], cell["new"]))


MAX_CELLS: Final = 100_000


def _acts(name: str) -> Column:
    """Return what is done, whichever rules say so."""
    return F.transform(name, lambda step: F.struct(*(step[field] for field in _ACTS)))


def _rules_met(name: str) -> Column:
    """Collect the ordinals of the rules any message meets: at most as many as the table has."""
    return F.array_distinct(F.flatten(F.collect_set(F.col(f"{name}.rule"))))


def _never(table: RulesTable, met: Iterable[int]) -> list[int]:
    known = set(met)
    return [rule.ordinal for rule in table.rules if rule.ordinal not in known]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
