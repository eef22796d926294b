"""An Airflow connection in, settings for a queue manager, or a connection to it, out."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook, Connection

from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect

CONNECTION_TYPE = "ibmmq"


class MqHook(BaseHook):
    """Reach the queue manager of an Airflow connection of type `ibmmq`, real or embedded.

    The connection type, with host, port, login, password and the extras `queue_manager` and
    `channel`, is that of Airflow's IBM MQ provider; this project adds the extras `transport`
    ("client", "bindings", "embedded") and `client` ("pymqi", "ibmmq"). Only the type is shared:
    the provider's own hook and trigger get messages outside syncpoint, and lose them.

    The hook holds nothing open and has no effect of its own; the password comes from the
    connection only, and goes nowhere but into the call that connects.

    :param conn_id: id of the Airflow connection
    """

    conn_name_attr = "conn_id"
    default_conn_name = "mq_default"
    conn_type = CONNECTION_TYPE
    hook_name = "IBM MQ"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.conn_id = conn_id

    def settings(self) -> ConnectionSettings:
        """Return the settings the connection describes; raises ConnectionSettingsError."""
        return settings_of(self.get_connection(self.conn_id))

    async def async_settings(self) -> ConnectionSettings:
        """Return the settings, from within a trigger."""
        return settings_of(await self.aget_connection(self.conn_id))

    def get_conn(self) -> QueueManager:
        """Connect; the caller disconnects, or uses the result as a context manager."""
        return connect(self.settings())


def settings_of(connection: Connection) -> ConnectionSettings:
    """Map an Airflow connection to settings; raises ConnectionSettingsError, naming it."""
    name = connection.conn_id
    if connection.conn_type != CONNECTION_TYPE:
        raise ConnectionSettingsError(
            f"connection {name!r} has type {connection.conn_type!r}, expected {CONNECTION_TYPE!r}"
        )
    extra: dict[str, Any] = connection.extra_dejson
    if not extra.get("queue_manager"):
        raise ConnectionSettingsError(
            f"connection {name!r} names no queue manager;"
            ' expected an extra such as {"queue_manager": "QM1", "channel": "DEV.APP.SVRCONN"}'
        )
    try:
        return ConnectionSettings(
            queue_manager=extra["queue_manager"],
            transport=extra.get("transport", "client"),
            client=extra.get("client"),
            host=connection.host or "",
            port=connection.port or 1414,
            channel=extra.get("channel", ""),
            user=connection.login or "",
            password=connection.password or "",
        )
    except ConnectionSettingsError as error:
        raise ConnectionSettingsError(f"connection {name!r}: {error}") from error
