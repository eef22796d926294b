"""An Airflow connection in, settings for a queue manager, or a connection to it, out."""

from __future__ import annotations

import difflib
from typing import Any

from airflow.sdk import BaseHook, Connection

from mqdlq.errors import ClientNotFoundError, ConnectionSettingsError, QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.mqi import permissions
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect

CONNECTION_TYPE = "ibmmq"
EXTRAS = (
    "queue_manager",
    "channel",
    "hosts",
    "ccdt_url",
    "tls_cipher_spec",
    "key_repository",
    "certificate_label",
    "client_user_id",
    "reconnect",
    "client",
    "transport",
)
STATE_QUEUE = str(Handler.model_fields["state_queue"].default)
OF_THE_PROVIDER = frozenset({"open_options"})
"""What a connection made for Airflow's IBM MQ provider may hold and this project has no use for."""


class MqHook(BaseHook):
    """Reach the queue manager of an Airflow connection of type `ibmmq`, real or embedded.

    The form of the connection is in `provider`. A connection made for Airflow's own IBM MQ provider
    serves as it is, yet only the type is shared: that provider's hook and trigger get messages
    outside syncpoint, and lose them.

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

    def test_connection(self) -> tuple[bool, str]:
        """Say what the connection's user may do; it has succeeded where sensing would.

        Nothing is browsed, got or put. Called by Airflow's Test button and
        `airflow connections test`, where `[core] test_connection` allows them.
        """
        user = ""
        try:
            settings = self.settings()
            user = settings.user
            with connect(settings) as queue_manager:
                found = permissions.missing(queue_manager, user, STATE_QUEUE)
                where = f"queue manager {queue_manager.name} through {queue_manager.client.name}"
                is_usable = not any(fault.stage == "sense" for fault in found)
                return is_usable, permissions.told(found, where, user)
        except QueueManagerError as error:
            return False, permissions.advice(error, user)
        except (ConnectionSettingsError, ClientNotFoundError) as error:
            return False, str(error)


def settings_of(connection: Connection) -> ConnectionSettings:
    """Map an Airflow connection to settings; raises ConnectionSettingsError, naming it."""
    name = connection.conn_id
    if connection.conn_type != CONNECTION_TYPE:
        raise ConnectionSettingsError(
            f"connection {name!r} has type {connection.conn_type!r}, expected {CONNECTION_TYPE!r}"
        )
    extra = _extras(name, connection.extra_dejson)
    if not extra.get("queue_manager"):
        raise ConnectionSettingsError(
            f"connection {name!r} names no queue manager;"
            ' expected an extra such as {"queue_manager": "QM1", "channel": "DEV.APP.SVRCONN"}'
        )
    try:
        return ConnectionSettings(
            **extra,
            host=connection.host or "",
            port=connection.port or 1414,
            user=connection.login or "",
            password=connection.password or "",
        )
    except ConnectionSettingsError as error:
        raise ConnectionSettingsError(f"connection {name!r}: {error}") from error


def _extras(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the extras that say something; a misspelt one would leave a wish unheard.

    Airflow's form leaves what was not filled in as an empty value.
    """
    extra = {key: value for key, value in given.items() if value not in ("", None, [])}
    for key in extra.keys() - set(EXTRAS) - OF_THE_PROVIDER:
        near = difflib.get_close_matches(key, EXTRAS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(EXTRAS)}"
        raise ConnectionSettingsError(f"connection {name!r} has an unknown extra {key!r}{hint}")
    found = {key: extra[key] for key in EXTRAS if key in extra}
    hosts = found.get("hosts", "")
    if isinstance(hosts, str):
        hosts = hosts.replace(",", " ").split()
    for key, value in found.items():
        if key != "hosts" and not isinstance(value, str):
            raise ConnectionSettingsError(
                f"connection {name!r}: extra {key} is {value!r}, expected text"
            )
    return found | {"hosts": tuple(str(host) for host in hosts)}
