"""The ledger and the keys of payload that Airflow's connections name."""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from mqdlq import directories, ledger
from mqdlq.errors import ConnectionSettingsError
from mqdlq.ledger.access import postgresql_url

CONNECTION = "mqdlq_ledger"
IN_ENVIRONMENT = ("MQDLQ_LEDGER_URL", "MQDLQ_LEDGER_URL_FILE")
"""Variables that name the ledger; then the connection is not read."""

_TYPES = ("postgres", "postgresql")


def open_ledger(*, create: bool = True) -> ledger.Ledger:
    """Open the ledger every task of a DAG run shares, bringing its schema up to date.

    MQDLQ_LEDGER_URL or MQDLQ_LEDGER_URL_FILE names the database, else the connection
    `mqdlq_ledger` of type `postgres` does; without any of them it is the SQLite file in MQDLQ_HOME.
    Without `create` a missing SQLite file is an error. Raises ConnectionSettingsError for a
    connection of another type.
    """
    return ledger.open_ledger(ledger_url(), create=create)


def shared_ledger() -> ledger.Ledger:
    """Return the ledger that all triggers of this process share, with a few connections.

    It stays open. Raises what `open_ledger` raises.
    """
    # By its URL: the environment may name another ledger by the next call.
    return _opened(ledger_url())


@cache
def _opened(url: str) -> ledger.Ledger:
    return ledger.open_ledger(url)


def ledger_url(find: Callable[[str], Any] = BaseHook.get_connection) -> str:
    """Return the URL of the ledger; `find` returns a connection of this process's Airflow."""
    if any(os.environ.get(name) for name in IN_ENVIRONMENT):
        return directories.ledger_url()
    try:
        return url_of(find(CONNECTION))
    except AirflowNotFoundException:
        return directories.ledger_url()


def url_of(connection: Connection) -> str:
    if connection.conn_type not in _TYPES:
        raise ConnectionSettingsError(
            "MQDLQ-201",
            f"connection {connection.conn_id!r} has type {connection.conn_type!r}, expected"
            " 'postgres'; correct its type, or remove the connection to keep the ledger in SQLite",
        )
    return postgresql_url(
        username=connection.login,
        password=connection.password,
        host=connection.host,
        port=connection.port,
        database=connection.schema,
        query=connection.extra_dejson,
    )


def payload_keys(conn_id: str | None) -> dict[str, bytes]:
    """Return the keys of a connection of this Airflow by their names; none without a connection.

    It reads secrets and the metadata database itself, so it is for processes that are not tasks.
    Raises ConnectionSettingsError if the connection is missing or has no key.
    """
    if conn_id is None:
        return {}
    # Tasks import this module, too, and have no use for Arrow.
    from mqdlq.stages.snapshot.capture import read_all_keys  # noqa: PLC0415

    found = stored_connection(conn_id)
    return read_all_keys(conn_id, found.password, found.extra_dejson)


def stored_connection(conn_id: str) -> Any:
    """Return a connection as this Airflow stores it, for processes that are not tasks.

    Raises ConnectionSettingsError if it is not defined.
    """
    from airflow.models.connection import Connection as StoredConnection  # noqa: PLC0415 (as above)

    try:
        return StoredConnection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        raise ConnectionSettingsError(
            "MQDLQ-124",
            f"connection {conn_id!r} is not defined in this Airflow, neither in the environment"
            " nor in its metadata database; define it, or run the command where it is defined",
        ) from None
