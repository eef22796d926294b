"""Run Airflow's `dags test` under the user's name, until its parent ends.

Run as ``python -m mqdlq.local.dags_test HANDLER CONF``. `foreground` follows what it writes. It
first checks everything that can be known before the run. If the run is refused, the last line says
why, and the exit code is REFUSED.
"""

import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from mqdlq import directories
from mqdlq.airflow import params
from mqdlq.errors import MqDlqError
from mqdlq.handlers import load_handler
from mqdlq.local import parent_watch
from mqdlq.local.environment import read_settings, wait_for_turn
from mqdlq.reading.page_paths import dag_of

PLACE: Final = ("base_log_folder", "log_filename_template")
"""Airflow's options in section `logging` that say where the log of an attempt is."""
POOL: Final = "mqdlq run"
"""No pool has this name, which tasks of a run in the foreground have for their pool."""
REFUSED: Final = os.EX_USAGE
"""The exit code for a run that could not begin; Airflow ends with 0, 1 or 2."""


def main() -> None:
    """Check what can be known, say where Airflow keeps task logs, then run the DAG."""
    parent_watch.end_with_parent()
    name, given = sys.argv[1:]
    try:
        _check(name, json.loads(given))
    except MqDlqError as error:
        sys.stdout.write(f"mqdlq: {error}\n")
        sys.exit(REFUSED)
    from airflow import settings  # noqa: PLC0415 (slow: the watch comes first)
    from airflow.__main__ import main as airflow  # noqa: PLC0415 (the same)
    from airflow.configuration import conf  # noqa: PLC0415 (the same)
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 (the same)
    from airflow.sdk.definitions._internal import dag_parsing_context  # noqa: PLC0415 (the same)
    from sqlalchemy import event  # noqa: PLC0415 (the same)

    options = {key: conf.get("logging", key) for key in PLACE}
    sys.stdout.write(f"{json.dumps(options)}\n")
    turn = wait_for_turn()  # to store the DAGs, which Airflow does before it creates the run
    event.listen(DagRun, "before_insert", _name_the_user)
    event.listen(DagRun, "before_insert", lambda *_: turn.close())
    settings.get_policy_plugin_manager().register(_mutation_hook())
    settings.task_instance_mutation_hook.is_noop = False  # type: ignore[attr-defined]
    sys.argv = ["airflow", "dags", "test", dag_of(name), "--conf", given]
    # Airflow parses all files twice: neither time those of other handlers.
    with dag_parsing_context._airflow_parsing_context_manager(dag_id=dag_of(name)):  # noqa: SLF001 (there is no other)
        airflow()


def _check(name: str, conf: Mapping[str, Any]) -> None:
    """Raise MqDlqError for a connection that is not defined, or a restoration of nothing."""
    is_restoration = name == "restore"
    handler = load_handler(str(conf["handler"]) if is_restoration else name)
    read_settings(handler.connection)
    if not is_restoration:
        return
    from mqdlq.airflow.hooks.connections import open_ledger  # noqa: PLC0415 (imports Airflow)
    from mqdlq.stages.restore.selection import select  # noqa: PLC0415 (imports Arrow)

    now = datetime.now(UTC)  # noqa: TID251 (an entry point)
    with open_ledger(create=False) as ledger:
        select(params.request(conf, handler, "", "", now), handler, ledger=ledger)


def _mutation_hook() -> object:
    """Return a cluster policy that keeps a running scheduler away from the tasks of this process.

    To a scheduler over the same metadata these are tasks of a running DAG run: it would start them,
    too, and fail them here. It starts none whose pool does not exist; ``dags test`` needs no pool.
    """
    from airflow.policies import hookimpl  # noqa: PLC0415 (imports Airflow)

    class KeptPolicy:
        @hookimpl
        def task_instance_mutation_hook(self, task_instance: Any) -> None:
            task_instance.pool = POOL

    return KeptPolicy()


def _name_the_user(_mapper: Any, _connection: Any, dag_run: Any) -> None:
    """Replace `dag_test`, Airflow's name for the user of the command, with the user's name."""
    dag_run.triggering_user_name = directories.account()


if __name__ == "__main__":
    main()
