"""Read and store the connections of an Airflow, for commands that import no Airflow.

It is the Airflow that the environment names, else that of ``mqdlq run``.
"""

from __future__ import annotations

import os
import warnings

from mqdlq.errors import ConnectionSettingsError, HomeError
from mqdlq.local.environment import migrate, names_airflow, names_metadata, selected_environment
from mqdlq.mqi.airflow_connections import AirflowConnection, environment_connections
from mqdlq.mqi.connection_settings import ConnectionSettings


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


def read_settings(conn_id: str) -> ConnectionSettings:
    """Return the settings of a connection; raises ConnectionSettingsError if it is not defined."""
    select_airflow()
    from airflow.models.connection import Connection  # noqa: PLC0415 (after select_airflow)
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415 (the same)

    from mqdlq.airflow.hooks.ibmmq import settings_of  # noqa: PLC0415 (the same)

    try:
        found = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        raise ConnectionSettingsError(
            "MQDLQ-124",
            f"connection {conn_id!r} is not defined in this Airflow, neither in the"
            " environment nor in its metadata database; define it, or run the command where it is"
            " defined",
        ) from None
    return settings_of(found)


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
