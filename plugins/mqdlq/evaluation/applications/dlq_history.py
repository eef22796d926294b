"""Write the history of all snapshots in Spark: see `mqdlq.evaluation.history`."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from mqdlq.evaluation.applications import FAILURE, run
from mqdlq.evaluation.history import write_history


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(
        "dlq_history.py", description="Write the history of all snapshots and outcomes."
    )
    parser.add_argument("--lake", dest="root", required=True, help="the lake's directory")
    parser.add_argument(
        "--history", dest="directory", required=True, help="the directory to write to"
    )
    parser.add_argument("--failure", help=FAILURE)
    return run(parser, write_history, arguments, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
