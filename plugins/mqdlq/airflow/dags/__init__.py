"""DAGs: one for each handler, and those for the history, for restoring and for broken handlers.

DAG files call these functions: the files of the folder `dags`, and files of users by
`mqdlq.airflow.handler_dags`. No function opens a connection. None registers a DAG by itself:
Airflow finds the DAGs among the global variables of the DAG file.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG

from mqdlq.airflow.dags.handler_runs import build_handler_dag
from mqdlq.airflow.dags.history import build_broken_handlers_dag, build_history_dag
from mqdlq.airflow.dags.restoring import build_restore_dag
from mqdlq.airflow.pools import pools_of
from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler, load_handlers


def build_all(directory: Path | str | None) -> dict[str, DAG]:
    """Return all DAGs of a handlers' directory by id; see `mqdlq.airflow.handler_dags`."""
    place = None if directory is None else _checked(Path(directory))
    handlers, faults = load_handlers(place)
    broken = [build_broken_handlers_dag(faults, place)] if faults else []
    return {
        **build_handler_dags(handlers, place),
        **build_restore_dags(handlers, place),
        **by_id(build_history_dag(place), *broken),
    }


def build_handler_dags(handlers: list[Handler], directory: Path | None = None) -> dict[str, DAG]:
    pools = pools_of(handlers)
    return by_id(*(build_handler_dag(one, pools[one.name], directory) for one in handlers))


def build_restore_dags(handlers: list[Handler], directory: Path | None = None) -> dict[str, DAG]:
    """Return the DAG that restores messages, by id; none without a handler."""
    dags = [build_restore_dag(handlers, pools_of(handlers), directory)] if handlers else []
    return by_id(*dags)


def by_id(*dags: DAG) -> dict[str, DAG]:
    return {dag.dag_id: dag for dag in dags}


def _checked(directory: Path) -> Path:
    if not directory.is_absolute():
        raise HandlerError(
            "MQDLQ-310",
            f"handler_dags: {directory} is not an absolute path, and Airflow runs DAG files in any"
            ' directory; give one, such as Path(__file__).with_name("handlers")',
        )
    if not directory.is_dir():
        raise HandlerError(
            "MQDLQ-311",
            f"handler_dags: there is no directory {directory} on this host; create it, or correct"
            " the path",
        )
    return directory
