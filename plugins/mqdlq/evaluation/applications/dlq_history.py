"""Write the history of all snapshots in Spark: see `mqdlq.evaluation.history`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mqdlq.evaluation.applications import FAILURE, exit_code
from mqdlq.evaluation.history import write_history


def main(arguments: Sequence[str]) -> int:
    """Write the history; return the exit code, 1 with one line on stderr for bad input."""
    parser = argparse.ArgumentParser(
        prog="dlq_history.py", description="Write the history of all snapshots and outcomes."
    )
    parser.add_argument("--lake", required=True, help="the lake's directory")
    parser.add_argument("--history", required=True, help="the directory to write to")
    parser.add_argument("--failure", help=FAILURE)
    options = parser.parse_args(arguments)
    root, history = options.lake.rstrip("/"), options.history.rstrip("/")
    return exit_code("dlq_history", lambda: write_history(root, history), options.failure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
