"""Run Airflow's `dags test` under the user's name, until its parent ends.

Run as ``python -m mqdlq.local.dags_test ARGUMENTS…`` with the arguments of ``airflow dags test``.
`foreground` follows what it writes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from mqdlq import directories
from mqdlq.local import parent_watch
from mqdlq.local.task_logs import PLACE


def main() -> None:
    """Say where Airflow keeps task logs, then run the DAG."""
    parent_watch.end_with_parent()
    from airflow.__main__ import main as airflow  # noqa: PLC0415 (slow: the watch comes first)
    from airflow.configuration import conf  # noqa: PLC0415 (the same)
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 (the same)
    from sqlalchemy import event  # noqa: PLC0415 (the same)

    from mqdlq.airflow.older_versions import write_json_logs  # noqa: PLC0415 (the same)

    write_json_logs()
    options = {name: conf.get("logging", name) for name in PLACE}
    sys.stdout.write(f"{json.dumps(options)}\n")
    event.listen(DagRun, "before_insert", _name_the_user)
    sys.argv = ["airflow", "dags", "test", *sys.argv[1:]]
    airflow()


def _name_the_user(_mapper: Any, _connection: Any, dag_run: Any) -> None:
    """Replace `dag_test`, Airflow's name for the user of the command, with the user's name.

    Write the run's id as Airflow does from 3.2 on.
    """
    dag_run.triggering_user_name = directories.account()
    line = {
        "timestamp": f"{dag_run.run_after:%Y-%m-%dT%H:%M:%S.%fZ}",
        "level": "info",
        "event": "creating dag run",
        "run_id": dag_run.run_id,
    }
    sys.stdout.write(f"{json.dumps(line)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
