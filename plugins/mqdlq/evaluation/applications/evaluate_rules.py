"""Evaluate rules over snapshots in Spark: see `mqdlq.evaluation.evaluate`."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from mqdlq.evaluation.applications import FAILURE, run
from mqdlq.evaluation.evaluate import evaluate
from mqdlq.lake.arrow import keep_pandas_out

SNAPSHOT = "the directory of a finished snapshot; with several, each message's newest row counts"
EXPLAIN = "add to each message its winning rule, or the nearest rule if none matches"


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(
        "evaluate_rules.py",
        description="Evaluate rules over snapshots into a plan.",
        epilog="Example: spark-submit evaluate_rules.py --snapshot lake/snapshots/…/s1"
        " --plan lake/plans/s1-abc",
    )
    parser.add_argument("--snapshot", required=True, action="append", help=SNAPSHOT)
    parser.add_argument("--plan", required=True, help="the directory of the plan")
    parser.add_argument(
        "--rules", help="a file with a rules table, in place of the snapshot's own table"
    )
    parser.add_argument("--explain", action="store_true", help=EXPLAIN)
    parser.add_argument("--failure", help=FAILURE)
    return run(parser, _evaluate, arguments, 2)


def _evaluate(snapshot: list[str], **options: Any) -> None:
    evaluate(*snapshot, **options)


if __name__ == "__main__":
    keep_pandas_out()
    sys.exit(main(sys.argv[1:]))
