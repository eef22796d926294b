"""Read the keys of captured payload from the Airflow connection that holds them."""

from __future__ import annotations

from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from mqdlq.errors import ConnectionSettingsError
from mqdlq.stages.snapshot.snapshot_options import read_all_keys


def payload_keys(conn_id: str | None) -> dict[str, bytes]:
    """Return the keys of a connection of this Airflow by their names; none without a connection.

    It reads secrets and the metadata database itself, so it is for processes that are not tasks.
    Raises ConnectionSettingsError if the connection is missing or has no key.
    """
    if conn_id is None:
        return {}
    try:
        found = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        raise ConnectionSettingsError(
            "MQDLQ-124",
            f"connection {conn_id!r} is not defined in this Airflow, neither in the environment"
            " nor in its metadata database; define it, or run the command where it is defined",
        ) from None
    return read_all_keys(conn_id, found.password, found.extra_dejson)
