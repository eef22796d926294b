"""An evaluation of rows that stand in no snapshot: rows and a table in, plan rows out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from decisions import Question, decide
from mqdlq.lake.schema import HEADERS
from mqdlq.rules import RulesTable
from plan_transforms import columns_needed, planned
from strategies import Bounds


def plan_of_rows(
    spark: SparkSession,
    headers: DataFrame,
    rows: list[dict[str, Any]],
    table: RulesTable,
    bounds: Bounds | None = None,
) -> DataFrame:
    """Return the plan's rows of messages on QM1's DLQ."""
    within = bounds or Bounds()
    nullable = pa.schema([field.with_nullable(True) for field in HEADERS])
    is_all = len(rows) <= within.sample
    asked = Question(
        table,
        pa.Table.from_pylist(rows[: within.sample], schema=nullable),
        messages=len(rows),
        is_all=is_all,
        bounds=within,
    )
    messages = headers.select(
        *columns_needed(table),
        F.lit("QM1").alias("queue_manager"),
        F.lit("DLQ").alias("queue"),
    )
    return planned(spark, decide(spark, messages, asked), table)
