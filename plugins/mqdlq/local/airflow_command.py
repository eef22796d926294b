"""Airflow's own command line, over the project's own Airflow.

``mqdlq airflow`` runs it as ``python -m mqdlq.local.airflow_command ARGUMENTS…``.
"""

from __future__ import annotations

import os
import sys

from mqdlq.local.environment import environment
from mqdlq.local.foreground import migrate


def main() -> None:
    """Become the command `airflow` with this process's arguments.

    The process stays the same, so the exit code is Airflow's and a signal reaches Airflow.
    """
    os.umask(0o077)  # metadata and logs are for their owner alone
    if not {"-h", "--help", "version", "db"} & set(sys.argv[:3]):
        migrate()
    # Airflow writes its warnings to standard output, where `--output json` belongs.
    prepared = {**environment(), "PYTHONWARNINGS": "ignore"}
    os.execve(  # noqa: S606 (this very Python, no shell)
        sys.executable, [sys.executable, "-m", "airflow", *sys.argv[1:]], prepared
    )


if __name__ == "__main__":
    main()
