"""Run Airflow's command line, or another module, over the Airflow that the environment names.

``mqdlq airflow`` runs it as ``python -m mqdlq.local.airflow_command airflow ARGUMENTS…``. Without
such a name in the environment it is the project's own Airflow.
"""

from __future__ import annotations

import os
import sys

from mqdlq.local.environment import names_airflow, names_metadata, selected_environment
from mqdlq.local.foreground import migrate


def main() -> None:
    """Become the module that this process's first argument names, with the other arguments.

    The process stays the same, so the exit code is the module's and a signal reaches it. Metadata
    that the environment names are not migrated here.
    """
    os.umask(0o077)  # metadata and logs are for their owner alone
    is_own = not (names_airflow() or names_metadata())
    if is_own and not {"-h", "--help", "version", "db"} & set(sys.argv[2:4]):
        migrate()
    # Airflow writes its warnings to standard output, where `--output json` belongs.
    prepared = {**selected_environment(), "PYTHONWARNINGS": "ignore"}
    os.execve(  # noqa: S606 (this very Python, no shell)
        sys.executable, [sys.executable, "-m", *sys.argv[1:]], prepared
    )


if __name__ == "__main__":
    main()
