"""How commands reach a queue manager that they name; the commands `mqdlq qm …`.

These are the commands of the distribution embedded-mq, under our name.
"""

import json
import os
from dataclasses import asdict, dataclass, replace
from importlib.metadata import entry_points
from typing import Annotated, Any, Final, Literal

import click

from mqdlq import directories
from mqdlq.constants import MQRC
from mqdlq.errors import ClientNotFoundError, ConnectionSettingsError, QueueManagerError
from mqdlq.mqi import transports
from mqdlq.mqi.airflow_connections import AirflowConnection, environment_connections
from mqdlq.mqi.connect import QueueManager, connect
from mqdlq.mqi.connection_settings import ConnectionSettings

PASSWORD: Final = "MQDLQ_PASSWORD"  # noqa: S105 (the variable's name)
_NOT_THERE: Final = (MQRC["MQRC_Q_MGR_NAME_ERROR"], MQRC["MQRC_Q_MGR_NOT_AVAILABLE"])
_PORT: Final = 1414
OURS, THEIRS = "mqdlq qm", "embedded-mq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What a command's options say about reaching a queue manager.

    Each method also raises HomeError if the embedded queue managers cannot be looked for.

    Takes:
      --transport: How to connect. Without it: client with --host or --ccdt-url; else an embedded
        queue manager of that name; else an Airflow connection in the environment (AIRFLOW_CONN_*)
        that names it; else bindings, which also uses MQSERVER or a CCDT in the environment.
      --host: Its address.
      --port: The listener's port.
      --channel: The channel.
      --ccdt-url: The URL of a channel definition table.
      --user: A user id; its password is read from MQDLQ_PASSWORD.
      --client: pymqi or ibmmq.
    """

    transport: Literal["client", "bindings", "embedded"] | None = None
    host: str = ""
    port: int = _PORT
    channel: str = ""
    ccdt_url: str = ""
    user: str = ""
    client: str | None = None

    def connect(self, name: str) -> QueueManager:
        """Connect to a queue manager by name, as `--transport` describes.

        Raises ConnectionSettingsError where the options contradict each other, or where nothing
        says how to reach the queue manager and it is not one of this machine.
        """
        settings = self.settings(name)
        is_guess = self.transport is None and settings.transport == "bindings"
        try:
            return connect(settings)
        except (ClientNotFoundError, QueueManagerError) as error:
            is_there = isinstance(error, QueueManagerError) and error.reason not in _NOT_THERE
            if not is_guess or is_there:
                raise
            raise ConnectionSettingsError("MQDLQ-125", _unknown(name, error)) from None

    def knows(self, name: str) -> bool:
        """Whether options, an embedded queue manager or a connection say how to reach it."""
        is_given = self != Address()
        return is_given or _is_embedded(name) or name in _connections()

    def settings(self, name: str) -> ConnectionSettings:
        """Return the settings for a queue manager; raises ConnectionSettingsError."""
        transport: str | None = self.transport
        password = os.environ.get(PASSWORD, "") if self.user else ""
        if transport is None and (self.host or self.ccdt_url):
            transport = "client"
        if transport is None and _is_embedded(name):
            transport = transports.EMBEDDED
        if transport is None and (found := _connections().get(name)):
            settings = found.settings()
            settings = replace(settings, client=self.client or settings.client)
            return replace(settings, user=self.user, password=password) if self.user else settings
        given = asdict(self) | {"transport": transport or "bindings", "password": password}
        return ConnectionSettings(name, **given)


AddressOptions = Annotated[Address, Address]
"""A parameter with this type stands for all options that say how to reach a queue manager."""


def known() -> str:
    """Name the queue managers that are known here, for an error."""
    return f"embedded: {_embedded_names()}; AIRFLOW_CONN_*: {_connection_names()}"


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


def _connection_names() -> str:
    return ", ".join(f"{name} ({c.conn_id})" for name, c in _connections().items()) or "none"


def _unknown(name: str, error: Exception) -> str:
    example = {
        "conn_type": "mqdlq",
        "host": "mq.example.com",
        "extra": {"queue_manager": name, "channel": "DEV.APP.SVRCONN"},
    }
    return (
        f"queue manager {name} is not known here\n"
        f"  embedded queue managers in {directories.shown(directories.queue_managers())}:"
        f" {_embedded_names()}\n"
        "  Airflow connections to queue managers in the environment (AIRFLOW_CONN_*):"
        f" {_connection_names()}\n"
        f"  without a connection, this machine was tried: {error}\n"
        "Give --host and --channel, or --ccdt-url; or define a connection, such as\n"
        f"  AIRFLOW_CONN_MQ='{json.dumps(example)}'\n"
        f"or create an embedded queue manager: mqdlq qm create {name}"
    )


def qm() -> None:
    """Implement `mqdlq qm`."""
    context = click.get_current_context()
    with transports.embedded(f"`{OURS}`"):
        program()(context.args, prog_name=OURS, terminal_width=context.terminal_width)


def program() -> Any:
    """Return the commands of embedded-mq as typer's group, which lets their errors pass.

    The entry point `qm` of group mqdlq.commands names theirs.
    """
    from typer import core, main  # noqa: PLC0415 (the commands are theirs, and need it)

    (entry_point,) = entry_points(group="mqdlq.commands", name="qm")
    theirs: Any = main.get_command(entry_point.load())
    for command in theirs.commands.values():
        command.help = command.help.replace(THEIRS, OURS)
    group: Any = core.TyperGroup
    settings = {"no_args_is_help": True, "context_settings": theirs.context_settings}
    return group(commands=theirs.commands, help=theirs.help, rich_markup_mode=None, **settings)
