"""Select an Airflow, prepare the metadata of the project's own, read and store connections.

It is the Airflow that the environment names, else that of ``mqdlq run``. Airflow reads its settings
from the environment when it is imported: nothing here imports it before.
"""

import fcntl
import importlib.metadata
import json
import os
import sqlite3
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import IO

import click

from mqdlq import directories
from mqdlq.errors import ConnectionSettingsError, HomeError, MqDlqError
from mqdlq.mqi.airflow_connections import AirflowConnection, environment_connections
from mqdlq.mqi.connection_settings import ConnectionSettings

_CONNECTIONS = {
    "mq_demo": {"conn_type": "mqdlq", "extra": {"queue_manager": "QM1", "transport": "embedded"}},
    "spark_default": {"conn_type": "spark", "host": "local[*]", "extra": {"deploy-mode": "client"}},
}

_METADATA = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
_NAMES_METADATA = (_METADATA, f"{_METADATA}_CMD", f"{_METADATA}_SECRET")
_NAMES_AIRFLOW = ("AIRFLOW_HOME", "AIRFLOW_CONFIG")

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


def names_airflow(base: Mapping[str, str] = os.environ) -> bool:
    """Return whether `base` names an Airflow by its directory or its airflow.cfg."""
    return any(base.get(name) for name in _NAMES_AIRFLOW)


def names_metadata(base: Mapping[str, str] = os.environ) -> bool:
    """Return whether `base` names the metadata database of an Airflow."""
    return any(base.get(name) for name in _NAMES_METADATA)


def selected_environment(base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of the Airflow that `base` names, else of the project's own.

    `base` stays as it is if it names an Airflow. If it names a metadata database only, that is the
    one which the project's own Airflow uses, as in `make up`.
    """
    return dict(base) if names_airflow(base) else environment(base, own_metadata=False)


def wait_for_turn() -> IO[str]:
    """Wait until no other process prepares this Airflow; the turn ends when the file is closed.

    Airflow's migration, and the first time that its database gets a DAG, fail if two do it at once.
    """
    directories.make_private_directory(airflow_home())
    turn = (airflow_home() / ".turn").open("w")
    fcntl.flock(turn, fcntl.LOCK_EX)
    return turn


def environment(
    base: Mapping[str, str] = os.environ, *, own_metadata: bool = True
) -> dict[str, str]:
    """Return `base` with the project's own Airflow in it.

    Connections and the like stay as `base` sets them; where Airflow's directories are, and which
    Python and which Spark run, is not left to the caller's shell. The metadata are in SQLite in
    Airflow's directory; without `own_metadata` they are where `base` has them, if it says so.
    """
    connections = {
        f"AIRFLOW_CONN_{name.upper()}": json.dumps(keys) for name, keys in _CONNECTIONS.items()
    }
    own = {
        "AIRFLOW_HOME": str(airflow_home()),
        **_dags_and_plugins(),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "MQDLQ_HOME": str(directories.home().resolve()),
        # spark-submit is looked for on PATH only.
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), base.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    led_astray = {"SPARK_HOME", "AIRFLOW_CONFIG"}
    if own_metadata or not names_metadata(base):
        own[_METADATA] = f"sqlite:///{airflow_home() / 'airflow.db'}"
        # Airflow also connects to the database of SQL_ALCHEMY_CONN_ASYNC, and runs the command of
        # SQL_ALCHEMY_CONN_ASYNC_CMD for it: in a container they name the services' database.
        led_astray |= {name for name in base if name.startswith(f"{_METADATA}_")}
    prepared = {**_DEFAULTS, **connections, **base, **own}
    if prepared.get(_METADATA, "").startswith("postgresql+psycopg:"):
        # Else Airflow uses asyncpg, which is not among the project's packages.
        prepared.setdefault(f"{_METADATA}_ASYNC", prepared[_METADATA])
    return {name: value for name, value in prepared.items() if name not in led_astray}


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


def migrate(more: Mapping[str, str] | None = None) -> None:
    """Bring Airflow's metadata up to date, once for each version; `more` names another database.

    Ends this process with a sentence if the metadata, or the place it is in, cannot be used.
    """
    is_own = more is None or not names_metadata(more)
    done = airflow_home() / f".migrated-{importlib.metadata.version('apache-airflow-core')}"
    try:
        with wait_for_turn():
            if not more:
                _check_metadata(airflow_home() / "airflow.db")
            if is_own and done.exists():
                return
            click.echo("Preparing Airflow's metadata, this once", err=True)
            migrated = subprocess.run(
                [sys.executable, "-m", "airflow", "db", "migrate"],
                env=environment({**os.environ, **(more or {})}, own_metadata=is_own),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if migrated.returncode:
                log = airflow_home() / "migration.log"
                log.write_text(migrated.stdout, encoding="utf-8")
                raise HomeError("MQDLQ-810", f"airflow db migrate failed; {log} has its output")
            if is_own:
                done.touch()
    except MqDlqError as error:
        sys.exit(f"mqdlq: {error}")
    except OSError as error:
        sys.exit(f"mqdlq: {directories.explain(error)}")


def _check_metadata(file: Path) -> None:
    """Raise HomeError if Airflow's database is there and SQLite cannot read it."""
    if not file.exists():
        return
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True)) as connection:
            connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error as error:
        raise HomeError(
            "MQDLQ-811",
            f"Airflow's metadata {file} cannot be read ({error}); restore a backup, or remove"
            f" {file.parent} to start without earlier runs and connections",
        ) from None


def quieten_airflow() -> None:
    """Keep Airflow's own remarks from where a command's answer goes; call it before its import."""
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "ERROR"
    warnings.simplefilter("ignore")


def select_airflow() -> None:
    """Let this process use the Airflow that its environment names, else the project's own.

    Airflow reads its settings when it is imported: call this before.
    """
    if not (names_airflow() or names_metadata()):
        migrate()
    selected = selected_environment()
    for led_astray in os.environ.keys() - selected.keys():
        del os.environ[led_astray]
    os.environ.update(selected)


def read_connection(conn_id: str) -> AirflowConnection:
    """Return a connection; raises ConnectionSettingsError if it is not defined."""
    select_airflow()
    from mqdlq.airflow.hooks.connections import stored_connection  # noqa: PLC0415 (after select_airflow)
    from mqdlq.airflow.hooks.ibmmq import plain  # noqa: PLC0415 (the same)

    return plain(stored_connection(conn_id))


def read_settings(conn_id: str) -> ConnectionSettings:
    """Return the settings of a connection; raises ConnectionSettingsError if it is not defined."""
    return read_connection(conn_id).settings()


def find_settings(conn_id: str) -> ConnectionSettings:
    """Return the settings of a connection, without Airflow if the environment defines it.

    The demo's connection counts as one of the environment, unless that names another Airflow.
    Raises ConnectionSettingsError if it is not defined.
    """
    for connection in environment_connections(selected_environment()):
        if connection.conn_id == conn_id.lower():
            return connection.settings()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_settings(conn_id)


def store(defined: AirflowConnection, *, replace: bool = False) -> bool:
    """Store a connection in Airflow's metadata database; return whether Airflow encrypts it.

    One transaction. A second call fails unless `replace` is set. Raises ConnectionSettingsError if
    the id is in use, and HomeError if the database cannot be used.
    """
    select_airflow()
    from airflow.models.connection import Connection  # noqa: PLC0415 (after select_airflow)
    from airflow.models.crypto import get_fernet  # noqa: PLC0415 (the same)
    from airflow.sdk.exceptions import AirflowException  # noqa: PLC0415 (the same)
    from airflow.utils.session import create_session  # noqa: PLC0415 (the same)
    from sqlalchemy import select  # noqa: PLC0415 (the same)
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 (the same)

    try:
        with create_session() as session:
            named = select(Connection).where(Connection.conn_id == defined.conn_id)
            existing = session.scalar(named)
            if existing is not None and not replace:
                raise ConnectionSettingsError(
                    "MQDLQ-149",
                    f"connection {defined.conn_id!r} is already defined in this Airflow; choose"
                    " another id, or replace it with --replace",
                )
            if existing is not None:
                session.delete(existing)
                session.flush()
            fields = defined.document()
            session.add(Connection(defined.conn_id, password=defined.password or None, **fields))
            return bool(get_fernet().is_encrypted)
    except SQLAlchemyError as error:
        # Its own text has the values of the row.
        why = str(getattr(error, "orig", None) or type(error).__name__)
        raise unusable(why) from None
    except AirflowException as error:
        raise unusable(str(error)) from None


def unusable(why: str) -> HomeError:
    """Return the error for metadata that cannot be used."""
    return HomeError(
        "MQDLQ-840",
        f"Airflow's metadata database cannot be used ({why}); prepare it by `airflow db migrate`",
    )
