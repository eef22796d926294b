"""DAGs: one for each handler, and those for the history, for restoring and for broken handlers.

DAG files call these functions: the files of the folder `dags`, and files of users by
`mqdlq.airflow.handler_dags`. No function opens a connection. None registers a DAG by itself:
Airflow finds the DAGs among the global variables of the DAG file.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, get_parsing_context

from mqdlq.airflow.copying import Pattern, without_collections
from mqdlq.airflow.dags import history
from mqdlq.airflow.dags.handler_runs import build_handler_dag
from mqdlq.airflow.dags.restoring import build_restore_dag
from mqdlq.airflow.operators.restore import task_id_of
from mqdlq.airflow.pools import pools_of
from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handler
from mqdlq.handlers.kept import Loaded, load_kept
from mqdlq.reading.page_paths import dag_of, handler_of


def build_all(directory: Path | str | None) -> dict[str, DAG]:
    """Return all DAGs of a handlers' directory by id; see `mqdlq.airflow.handler_dags`."""
    place = None if directory is None else _checked(Path(directory))
    load = cache(load_kept)
    dags = build_handler_dags(place, load) | build_restore_dags(place, load)
    if _is_wanted("history"):
        dags |= by_id(history.build_history_dag(place))
    if _is_wanted("broken_handlers") and (faults := load(place).faults):
        dags |= by_id(history.build_broken_handlers_dag(faults, place))
    return dags


def build_handler_dags(
    directory: Path | None = None, load: Callable[[Path | None], Loaded] = load_kept
) -> dict[str, DAG]:
    """Return the DAGs of the valid handlers by id; in the process of a task, the task's DAG only.

    A task reads no file of another handler: its start takes as long beside a thousand handlers as
    alone, and no fault of theirs concerns it.
    """
    wanted, patterns = get_parsing_context(), dict[Any, Pattern]()
    with without_collections():
        if wanted.task_id is None:
            loaded = load(directory)
        else:
            loaded = _load_only(handler_of(wanted.dag_id or ""), directory)
        pools = pools_of(loaded.handlers, loaded.controls)
        return by_id(
            *(
                build_handler_dag(handler, pools[handler.name], directory, patterns)
                for handler in loaded.handlers
                if wanted.dag_id in {None, dag_of(handler.name)}
            )
        )


def build_restore_dags(
    directory: Path | None = None, load: Callable[[Path | None], Loaded] = load_kept
) -> dict[str, DAG]:
    """Return the DAG that restores messages, by id; none without a handler.

    In the process of a task that restores for one handler, the DAG has the tasks of that one only.
    """
    if not _is_wanted("restore"):
        return {}
    _, is_of_one, name = (get_parsing_context().task_id or "").partition(task_id_of(""))
    with without_collections():
        loaded = _load_only(name, directory) if is_of_one else load(directory)
        if not loaded.handlers:
            return {}
        pools = pools_of(loaded.handlers, loaded.controls)
        return by_id(build_restore_dag(loaded.handlers, pools, directory))


def _is_wanted(name: str) -> bool:
    """Whether this process wants the DAG of this name: all DAGs, or the one it runs a task of."""
    return get_parsing_context().dag_id in {None, dag_of(name)}


def _load_only(name: str | None, directory: Path | None) -> Loaded:
    """Return a handler, without control data, because a running task already has its pool.

    Return none if it is not valid, or if there is no such handler.
    """
    try:
        handlers = [load_handler(name, directory)] if name else []
    except HandlerError:
        handlers = []
    return Loaded(handlers, [], {})


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
