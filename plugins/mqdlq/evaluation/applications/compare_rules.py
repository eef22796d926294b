"""Compare two rules tables over snapshots in Spark: see `mqdlq.evaluation.differences`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mqdlq.evaluation.applications import exit_code
from mqdlq.evaluation.differences import write_comparison


def main(arguments: Sequence[str]) -> int:
    """Compare; return the exit code, 1 with one line on stderr for bad input."""
    parser = argparse.ArgumentParser(
        prog="compare_rules.py", description="Compare two rules tables over snapshots."
    )
    parser.add_argument("--old", required=True, help="a file with the table as it was")
    parser.add_argument("--new", required=True, help="a file with the table as it is")
    parser.add_argument("--snapshot", required=True, action="append", help="a finished snapshot")
    parser.add_argument("--output", required=True, help="the file to write the result to")
    options = vars(parser.parse_args(arguments))
    snapshots = options.pop("snapshot")
    return exit_code("compare_rules", lambda: write_comparison(snapshots, **options), None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
