"""The command `mqdlq airflow`: Airflow's own command line."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click


def airflow() -> None:
    """Implement `mqdlq airflow`.

    It uses the Airflow that AIRFLOW_HOME or AIRFLOW__DATABASE__SQL_ALCHEMY_CONN names; without
    them, that of `make up`. All arguments go to Airflow, --help too, and Airflow's exit code comes
    back.

    For example:
      mqdlq airflow dags list
    """
    become("-m", "mqdlq.local.airflow_command", "airflow", *click.get_current_context().args)


def become(*arguments: str) -> NoReturn:
    """Become this very Python with other arguments.

    The command line does not import Airflow's side of the project: it becomes that side. So a
    signal to this process reaches the one that minds the run.
    """
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 (no shell)
