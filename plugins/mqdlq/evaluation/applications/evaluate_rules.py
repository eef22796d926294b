"""Evaluate rules over snapshots in Spark: see `mqdlq.evaluation.evaluate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mqdlq.evaluation.applications import FAILURE, exit_code
from mqdlq.evaluation.evaluate import evaluate

SNAPSHOT = "the directory of a finished snapshot; with several, each message's newest row counts"
PLAN = "the directory of the plan"
RULES = "a file with a rules table, in place of the snapshot's own table"
EXPLAIN = "add to each message its winning rule, or the nearest rule if none matches"


def main(arguments: Sequence[str]) -> int:
    """Evaluate snapshots; return the exit code, 2 for bad input, 1 for an error of Spark's."""
    parser = argparse.ArgumentParser(
        prog="evaluate_rules.py",
        description="Evaluate rules over snapshots into a plan.",
        epilog="Example: spark-submit evaluate_rules.py --snapshot lake/snapshots/…/s1"
        " --plan lake/plans/s1-abc",
    )
    parser.add_argument("--snapshot", required=True, action="append", help=SNAPSHOT)
    parser.add_argument("--plan", required=True, help=PLAN)
    parser.add_argument("--rules", help=RULES)
    parser.add_argument("--explain", action="store_true", help=EXPLAIN)
    parser.add_argument("--failure", help=FAILURE)
    options = vars(parser.parse_args(arguments))
    snapshots = options.pop("snapshot")
    failure = options.pop("failure")
    return exit_code(
        "evaluate_rules", lambda: evaluate(*snapshots, **options), failure, bad_input=2
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
