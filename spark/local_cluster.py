"""`python spark/local_cluster.py start|stop`: see `mqdlq.local.spark_cluster`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mqdlq.local.spark_cluster import start, stop


def main() -> None:
    """Start or stop the cluster; print the master's URL."""
    parser = argparse.ArgumentParser(
        prog="local_cluster.py",
        description="A Spark master and two workers on this machine.",
        epilog="Example: python spark/local_cluster.py start",
    )
    parser.add_argument("verb", choices=("start", "stop"))
    parser.add_argument("--directory", default="var/cluster", help="for logs and process ids")
    options = parser.parse_args()
    directory = Path(options.directory).resolve()
    if options.verb == "start":
        sys.stdout.write(f"{start(directory).url}\n")
    else:
        stop(directory)


if __name__ == "__main__":
    main()
