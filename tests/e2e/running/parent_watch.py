"""Run Airflow's command line until the process that started it ends.

Run as ``python -m tests.e2e.running.parent_watch ARGUMENTS…`` with standard input a pipe that the
parent holds open.
"""

from __future__ import annotations

import sys

from mqdlq.local.parent_watch import end_with_parent


def main() -> None:
    """Run the command `airflow` with this process's arguments."""
    end_with_parent()
    from airflow.__main__ import main as airflow  # noqa: PLC0415 (slow: the watch comes first)

    sys.argv[0] = "airflow"
    airflow()


if __name__ == "__main__":
    main()
