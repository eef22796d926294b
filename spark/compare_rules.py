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
from typing import Any

from evaluate_rules import rules_of_file
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mqdlq import lake
from mqdlq.errors import MqDlqError
from mqdlq.evaluation.comparison import SCHEMA, Cell, Comparison, put_together
from mqdlq.evaluation.decisions import columns_needed
from mqdlq.evaluation.messages import Messages
from mqdlq.evaluation.snapshot_rows import Snapshot, nul_as_blank
from mqdlq.evaluation.strategies import Bounds
from mqdlq.rules import RulesTable


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
    messages = Messages(spark, snapshots, columns, bounds or Bounds(), whole=True)
    choice = messages.strategy()
    work = Comparison(old, new, nul_as_blank=nul_as_blank(snapshots))
    found = [
        Cell.from_json(text) for text in messages.through(work, SCHEMA, choice)["cell"].to_pylist()
    ]
    cells = put_together(found)
    met = {"old": {0}, "new": {0}}
    for cell in cells:
        met["old"].update(cell.old)
        met["new"].update(cell.new)
    differ = [cell for cell in cells if cell.differ]
    return {
        "messages": sum(cell.messages for cell in cells),
        "cells": [
            cell.shown()
            for cell in sorted(differ, key=lambda cell: (-cell.messages, cell.old, cell.new))
        ],
        "never_matched": {"old": _never(old, met["old"]), "new": _never(new, met["new"])},
    }


def _never(table: RulesTable, met: Iterable[int]) -> list[int]:
    known = set(met)
    return [rule.ordinal for rule in table.rules if rule.ordinal not in known]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
