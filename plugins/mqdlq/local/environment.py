"""Build the environment of the project's own Airflow.

Imports no Airflow, which reads its settings from the environment when it is imported.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from mqdlq import directories

DEMO_CONNECTION = "mq_demo"

_CONNECTIONS = {
    DEMO_CONNECTION: {
        "conn_type": "ibmmq",
        "extra": {"queue_manager": "QM1", "transport": "embedded"},
    },
    "spark_default": {
        "conn_type": "spark",
        "host": "local[*]",
        "extra": {"deploy-mode": "client"},
    },
}

_METADATA = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"

_DEFAULTS = {
    # After a deferral a worker lingers this long (default 5 s); a task resumed sooner than that
    # is taken for failed by the scheduler.
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    "AIRFLOW__CORE__PARALLELISM": "4",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "SPARK_LOCAL_IP": "127.0.0.1",
}


def airflow_home() -> Path:
    """Return the directory of the project's own Airflow: its metadata and its logs."""
    return directories.home().resolve() / "airflow"


def environment(base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return `base` with the project's own Airflow in it.

    Connections and the like stay as `base` sets them; where Airflow's directories and metadata
    are, and which Python and which Spark run, is not left to the caller's shell.
    """
    connections = {
        f"AIRFLOW_CONN_{name.upper()}": json.dumps(keys) for name, keys in _CONNECTIONS.items()
    }
    own = {
        "AIRFLOW_HOME": str(airflow_home()),
        **_dags_and_plugins(),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        _METADATA: f"sqlite:///{airflow_home() / 'airflow.db'}",
        "MQDLQ_HOME": str(directories.home().resolve()),
        # spark-submit is looked for on PATH only.
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), base.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    prepared = {**_DEFAULTS, **connections, **base, **own}
    return {name: value for name, value in prepared.items() if not _leads_astray(name)}


def _dags_and_plugins() -> dict[str, str]:
    """Return where Airflow finds DAGs and plugins: in the project's folders, or in the package."""
    if not directories.IS_INSTALLED:
        return {
            "AIRFLOW__CORE__DAGS_FOLDER": str(directories.PROJECT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(directories.PROJECT / "plugins"),
        }
    bundle = {"name": "mqdlq", "classpath": "mqdlq.airflow.dags.bundle.HandlerBundle", "kwargs": {}}
    return {
        "AIRFLOW__CORE__DAGS_FOLDER": str(airflow_home() / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(airflow_home() / "plugins"),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(airflow_home() / "dag_bundles"),
    }


def _leads_astray(name: str) -> bool:
    """Whether a variable would select another Spark, or other metadata.

    Airflow also connects to the database of SQL_ALCHEMY_CONN_ASYNC, and runs the command of
    SQL_ALCHEMY_CONN_ASYNC_CMD for it: in a container they name the services' database.
    """
    return name == "SPARK_HOME" or name.startswith(f"{_METADATA}_")
