"""Connect to the queue manager that an Airflow connection describes."""

from datetime import datetime, timedelta
from typing import Final

from airflow.sdk import BaseHook, Connection

from mqdlq.errors import ClientNotFoundError, ConnectionSettingsError
from mqdlq.handlers import Handler
from mqdlq.mqi import permissions
from mqdlq.mqi.airflow_connections import CONNECTION_TYPE, SHARED_TYPE, AirflowConnection
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect

STATE_QUEUE = str(Handler.model_fields["state_queue"].default)


class MqHook(BaseHook):
    """Reach the queue manager of an Airflow connection of type `mqdlq` or `ibmmq`.

    The form of the connection is in `provider`. Airflow's own provider for IBM MQ can use the same
    connections; its hook and trigger get messages outside syncpoint, and can lose them.

    The hook keeps nothing open and changes nothing. The password comes from the connection only,
    and only the call that connects receives it.

    :param conn_id: id of the Airflow connection
    """

    conn_name_attr = "conn_id"
    default_conn_name = "mq_default"
    conn_type = CONNECTION_TYPE
    hook_name = "IBM MQ (mqdlq)"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.conn_id = conn_id

    def settings(self) -> ConnectionSettings:
        return settings_of(self.get_connection(self.conn_id))

    def get_conn(self) -> QueueManager:
        """Connect; the caller disconnects, or uses the result as a context manager."""
        return connect(self.settings())

    def test_connection(self) -> tuple[bool, str]:
        """Report what the connection's user may do; succeed if sensing would succeed.

        Nothing is browsed, got or put. Called by Airflow's Test button and
        `airflow connections test`, where `[core] test_connection` allows them.
        """
        try:
            return permissions.check_connection(self.settings(), STATE_QUEUE)
        except (ConnectionSettingsError, ClientNotFoundError) as error:
            return False, str(error)


class SharedTypeHook(MqHook):
    """The same hook for the type `ibmmq`, where Airflow's own provider does not have it."""

    conn_type = SHARED_TYPE
    hook_name = "IBM MQ"


READ_AGAIN: Final = timedelta(minutes=1)
"""How long the triggers of a process share the settings of a connection.

In a triggerer Airflow reports every secret it reads to another process, three times for each
connection: for a thousand triggers that takes far longer than all that they do themselves.
"""

_read: dict[str, tuple[datetime, ConnectionSettings]] = {}


def shared_settings(conn_id: str, now: datetime) -> ConnectionSettings:
    """Return the settings of a connection, read by any trigger within READ_AGAIN."""
    read_at, settings = _read.get(conn_id, (None, None))
    if read_at is None or settings is None or now - read_at > READ_AGAIN:
        settings = MqHook(conn_id).settings()
        _read[conn_id] = (now, settings)
    return settings


def forget_settings(conn_id: str) -> None:
    """Let the next trigger read the connection again, because it may have changed."""
    _read.pop(conn_id, None)


def settings_of(connection: Connection) -> ConnectionSettings:
    return plain(connection).settings()


def plain(connection: Connection) -> AirflowConnection:
    """Return a connection without what only Airflow knows of it."""
    return AirflowConnection(
        connection.conn_id,
        str(connection.conn_type),
        connection.extra_dejson,
        host=connection.host or "",
        port=connection.port or 0,
        login=connection.login or "",
        password=connection.password or "",
    )
