"""`mqdlq airflow`: Airflow's own command line, over the Airflow of `make up` and `mqdlq run`."""

from __future__ import annotations

import os
import sys

import typer


def airflow(context: typer.Context) -> None:
    """Implement `mqdlq airflow`.

    All arguments go to Airflow, --help too, and Airflow's exit code comes back.

    For example:
      mqdlq airflow dags list
    """
    # The command line does not import Airflow's side of the project: it becomes that side.
    sys.stdout.flush()
    os.execv(  # noqa: S606 (this very Python, no shell)
        sys.executable, [sys.executable, "-m", "mqdlq.local.command", *context.args]
    )
