"""Airflow's side of the workflow: DAGs, hooks, triggers, and operators that pass on arguments.

`handler_dags` is the function for DAG files; importing this package imports no Airflow.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mqdlq.directories import adopt_options

if TYPE_CHECKING:
    from airflow.sdk import DAG

adopt_options()  # all that Airflow imports of mqdlq is below this package


def handler_dags(directory: Path | str | None = None) -> dict[str, DAG]:
    """Return the DAGs of all handlers in a directory, and of history and restoring, by DAG id.

    Call it once, in a DAG file of three lines::

        from mqdlq.airflow import handler_dags  # Airflow parses files that name airflow and dag

        globals().update(handler_dags("/opt/airflow/handlers"))

    `directory` has the handlers (`*.yaml`) and their tables. It is an absolute path that the
    dag-processor, the workers and the triggerer can read; without one, MQDLQ_RULES_DIR names it for
    each process. `Path(__file__).with_name("handlers")` is a directory beside the DAG file.

    One invalid handler disables only its own DAG. An import error would disable all DAGs of the
    file, so the DAG `mq_dlq_broken_handlers` reports the faults: on its page, and by a run each
    hour that fails until the files are correct.

    Raises HandlerError if the path is not an absolute path of a directory, or if the provider for
    Spark is not installed.
    """
    from mqdlq.airflow.dags import build_all  # noqa: PLC0415 (imports Airflow: slow)

    return build_all(directory)
