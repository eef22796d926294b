"""Compare two rules tables over stored snapshots in Spark.

One job evaluates both tables for the same messages. The result counts how often one treatment
became another, with samples, and lists the rules that never matched.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from mqdlq import lake
from mqdlq.evaluation.deciding.comparison import SCHEMA, Comparison, compared
from mqdlq.evaluation.deciding.decisions import columns_needed
from mqdlq.evaluation.reading.messages import Messages
from mqdlq.evaluation.reading.snapshot_rows import nul_as_blank
from mqdlq.evaluation.reading.strategies import Bounds
from mqdlq.evaluation.reading.tables import queue_kind, rules_of_file
from mqdlq.lake import Snapshot
from mqdlq.rules import RulesTable


def write_comparison(directories: Sequence[str], old: str, new: str, output: str) -> None:
    """Compare the frozen tables in two files over snapshots, and write the result as JSON."""
    snapshots = [Snapshot.at(directory) for directory in directories]
    kind = queue_kind(snapshots)
    tables = rules_of_file(old, kind, frozen=True), rules_of_file(new, kind, frozen=True)
    spark = SparkSession.builder.appName("mqdlq rules diff").getOrCreate()
    found = compare(spark, snapshots, *tables)
    lake.write_text(output, json.dumps(found))


def compare(
    spark: SparkSession,
    snapshots: Sequence[Snapshot],
    old: RulesTable,
    new: RulesTable,
    bounds: Bounds | None = None,
) -> dict[str, Any]:
    """Return the result of `compared` for all messages of snapshots; raise `LakeError`."""
    columns = sorted({*columns_needed(old), *columns_needed(new)})
    messages = Messages(spark, snapshots, columns, bounds or Bounds(), whole=True)
    choice = messages.strategy()
    work = Comparison(old, new, nul_as_blank=nul_as_blank(snapshots))
    return compared(work, messages.process(work, SCHEMA, choice).to_batches())
