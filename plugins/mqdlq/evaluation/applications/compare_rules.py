"""Compare two rules tables over snapshots in Spark: see `mqdlq.evaluation.differences`."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from mqdlq.evaluation.applications import run
from mqdlq.evaluation.differences import write_comparison


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(
        "compare_rules.py", description="Compare two rules tables over snapshots."
    )
    parser.add_argument("--old", required=True, help="a file with the table as it was")
    parser.add_argument("--new", required=True, help="a file with the table as it is")
    parser.add_argument("--snapshot", required=True, action="append", help="a finished snapshot")
    parser.add_argument("--output", required=True, help="the file to write the result to")
    return run(parser, write_comparison, arguments, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
