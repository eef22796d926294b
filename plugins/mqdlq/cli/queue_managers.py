"""Find out how to reach a queue manager that a command line names, and connect to it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final

from mqdlq import directories
from mqdlq.cli.parameters import Option
from mqdlq.constants import MQRC
from mqdlq.errors import ClientNotFoundError, ConnectionSettingsError, QueueManagerError
from mqdlq.mqi import transports
from mqdlq.mqi.airflow_connections import AirflowConnection, environment_connections
from mqdlq.mqi.connect import QueueManager, connect
from mqdlq.mqi.connection_settings import ConnectionSettings

PASSWORD: Final = "MQDLQ_PASSWORD"  # noqa: S105 (the variable's name)
_NOT_THERE: Final = (MQRC["MQRC_Q_MGR_NAME_ERROR"], MQRC["MQRC_Q_MGR_NOT_AVAILABLE"])


class Transport(StrEnum):
    """How a queue manager is reached."""

    CLIENT = "client"
    BINDINGS = "bindings"
    EMBEDDED = "embedded"


TransportOption = Annotated[
    Transport | None,
    Option(
        help="How to connect. Without it: client with --host or --ccdt-url; else an embedded queue"
        " manager of that name; else an Airflow connection in the environment (AIRFLOW_CONN_*)"
        " that names it; else bindings, which also uses MQSERVER or a CCDT in the environment.",
        show_default=False,
    ),
]
HostOption = Annotated[str, Option(help="Its address.", show_default=False)]
PortOption = Annotated[int, Option(help="The listener's port.")]
ChannelOption = Annotated[str, Option(help="The channel.", show_default=False)]
CcdtOption = Annotated[
    str, Option(help="The URL of a channel definition table.", show_default=False)
]
UserOption = Annotated[
    str, Option(help=f"A user id; its password is read from {PASSWORD}.", show_default=False)
]
ClientOption = Annotated[str | None, Option(help="pymqi or ibmmq.", show_default=False)]


@dataclass(frozen=True, slots=True)
class Address:
    """A command's options for reaching a queue manager."""

    transport: Transport | None = None
    host: str = ""
    port: int = 1414
    channel: str = ""
    ccdt_url: str = ""
    user: str = ""
    client: str | None = None


def connect_to(name: str, address: Address) -> QueueManager:
    """Connect to a queue manager by name, as `--transport` describes.

    Raises ConnectionSettingsError where the options contradict each other, or where nothing says
    how to reach the queue manager and it is not one of this machine.
    """
    settings = settings_for(name, address)
    is_guess = address.transport is None and settings.transport == Transport.BINDINGS
    try:
        return connect(settings)
    except ClientNotFoundError as error:
        if is_guess:
            raise ConnectionSettingsError("MQDLQ-125", _unknown(name, error)) from None
        raise
    except QueueManagerError as error:
        if is_guess and error.reason in _NOT_THERE:
            raise ConnectionSettingsError("MQDLQ-125", _unknown(name, error)) from None
        raise


def is_known(name: str, address: Address) -> bool:
    """Whether options, an embedded queue manager or a connection say how to reach it."""
    return address != Address() or _is_embedded(name) or name in _connections()


def known() -> str:
    """Name the queue managers that are known here, for an error."""
    connections = [f"{queue_manager} ({c.conn_id})" for queue_manager, c in _connections().items()]
    return f"embedded: {_embedded_names()}; AIRFLOW_CONN_*: {', '.join(connections) or 'none'}"


def settings_for(name: str, address: Address) -> ConnectionSettings:
    """Return the settings for a queue manager; raises ConnectionSettingsError."""
    password = os.environ.get(PASSWORD, "") if address.user else ""
    transport = address.transport
    if transport is None and (address.host or address.ccdt_url):
        transport = Transport.CLIENT
    if transport is None and _is_embedded(name):
        transport = Transport.EMBEDDED
    if transport is None and (found := _connections().get(name)):
        settings = found.settings()
        settings = replace(settings, client=address.client or settings.client)
        return replace(settings, user=address.user, password=password) if address.user else settings
    return ConnectionSettings(
        queue_manager=name,
        transport=transport or Transport.BINDINGS,
        client=address.client,
        host=address.host,
        port=address.port,
        channel=address.channel,
        ccdt_url=address.ccdt_url,
        user=address.user,
        password=password,
    )


def _is_embedded(name: str) -> bool:
    directories.queue_managers()  # HomeError, before the provider meets an unusable MQDLQ_HOME
    embedded = transports.find_provider()
    return embedded is not None and embedded.exists(name)


def _embedded_names() -> str:
    embedded = transports.find_provider()
    return ", ".join(embedded.names() if embedded else ()) or "none"


def _connections() -> dict[str, AirflowConnection]:
    """Return the Airflow connections in the environment, by the queue managers they name."""
    found = environment_connections(os.environ)
    return {str(connection.extra.get("queue_manager")): connection for connection in found}


def _unknown(name: str, error: Exception) -> str:
    connections = [f"{queue_manager} ({c.conn_id})" for queue_manager, c in _connections().items()]
    example = {
        "conn_type": "ibmmq",
        "host": "mq.example.com",
        "extra": {"queue_manager": name, "channel": "DEV.APP.SVRCONN"},
    }
    return (
        f"queue manager {name} is not known here\n"
        f"  embedded queue managers in {directories.shown(directories.queue_managers())}:"
        f" {_embedded_names()}\n"
        "  Airflow connections of type ibmmq in the environment (AIRFLOW_CONN_*):"
        f" {', '.join(connections) or 'none'}\n"
        f"  without a connection, this machine was tried: {error}\n"
        "Give --host and --channel, or --ccdt-url; or define a connection, such as\n"
        f"  AIRFLOW_CONN_MQ='{json.dumps(example)}'\n"
        f"or create an embedded queue manager: mqdlq qm create {name}"
    )
