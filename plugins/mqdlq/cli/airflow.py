"""`mqdlq airflow`: Airflow's own command line, over the Airflow of `make up` and `mqdlq run`."""

from __future__ import annotations

import os
import sys

import typer

PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}

app = typer.Typer(add_completion=False)


@app.command(context_settings=PASSED_ON, add_help_option=False)
def airflow(context: typer.Context) -> None:
    """Run Airflow's own command line over the Airflow that `make up` and `mqdlq run` use.

    All arguments go to Airflow, and Airflow's exit code comes back; --help is Airflow's, too.

    Example: mqdlq airflow dags list
    """
    # The command line does not import Airflow's side of the project: it becomes that side.
    sys.stdout.flush()
    os.execv(  # noqa: S606 (this very Python, no shell)
        sys.executable, [sys.executable, "-m", "mqdlq.airflow.command", *context.args]
    )
