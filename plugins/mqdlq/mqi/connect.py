"""Connection settings in, a connected queue manager out, real or embedded."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import ConnectionSettingsError, QueueManagerError
from mqdlq.mqi import client as clients
from mqdlq.mqi import embedded

TRANSPORTS = ("client", "bindings", "embedded")
MQCC_FAILED = 2
MQCHT_CLNTCONN = 6
MQXPT_TCP = 2
CONNECTION_GONE = (2009, 2018, 2019)  # connection broken, Hconn invalid, Hobj invalid


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach a queue manager.

    `transport` is ``client`` (TCP: host, port and channel needed), ``bindings`` (same machine) or
    ``embedded``, which is only ever chosen explicitly. `client` names the library, or is None for
    the default one.
    """

    queue_manager: str
    transport: str = "client"
    client: str | None = None
    host: str = ""
    port: int = 1414
    channel: str = ""
    user: str = ""
    password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot work before anything is connected."""
        if self.transport not in TRANSPORTS:
            raise ConnectionSettingsError(
                f"unknown transport {self.transport!r}; known are {', '.join(TRANSPORTS)}"
            )
        if self.transport == "client" and not (self.host and self.channel):
            raise ConnectionSettingsError(
                f"a client connection to queue manager {self.queue_manager!r} needs host and"
                ' channel (or "transport": "bindings" or "embedded" in the connection\'s extra)'
            )


class QueueManager:
    """One connection to a queue manager; used by one thread, closed by `disconnect`.

    As a context manager it backs out whatever is uncommitted when the block ends by an exception:
    MQDISC alone would commit it (IBM MQ docs, "MQDISC"). Where backing out fails there is no
    MQDISC at all, not even when the object goes: the queue manager backs out what a process that
    ends has left.
    """

    def __init__(self, client: clients.Client, handle: Any, name: str) -> None:
        """Wrap the client's own connected queue manager object."""
        self.client = client
        self.handle = handle
        self.name = name
        self._may_disconnect = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is not None:
                self.back_out()
            self.disconnect()
        except QueueManagerError:
            if kind is None:
                raise  # else the first error is the one to tell

    def back_out(self) -> None:
        """Undo everything uncommitted (MQBACK); if that fails, never disconnect in good order."""
        try:
            with self.client.calling("MQBACK", self.name):
                self.handle.backout()
        except QueueManagerError:
            self._may_disconnect = False
            raise

    def disconnect(self) -> None:
        """End the connection (MQDISC), which commits; not where something was to be backed out."""
        if not self._may_disconnect:
            return
        with self.client.calling("MQDISC", self.name):
            self.handle.disconnect()

    def inquire(self, selector: int) -> Any:
        """Return one attribute of the queue manager: int, or str with trailing blanks removed."""
        with self.client.calling("MQINQ", f"queue manager {self.name}"):
            return _value(self.handle.inquire(selector))

    def open(self, queue: str, options: int) -> Any:
        """Open a queue by name (MQOPEN); returns the client's own Queue, to be closed."""
        with self.client.calling("MQOPEN", f"queue {queue}"):
            return self.client.module.Queue(self.handle, name_bytes(queue), options)

    def close(self, queue: Any) -> None:
        """Close a queue; on a broken connection there is nothing left to close."""
        try:
            queue.close()
        except self.client.module.MQMIError as error:
            if error.reason not in CONNECTION_GONE:
                reason = error.reason
                raise QueueManagerError(
                    "MQCLOSE", "queue", error.comp, reason, reason_text(reason)
                ) from error

    def inquire_queue(self, queue: str, selector: int) -> Any:
        """Return one attribute of a queue, opened for inquiry only."""
        return self.inquire_attributes(queue, selector)[0]

    def inquire_attributes(self, queue: str, *selectors: int) -> list[Any]:
        """Return attributes of a queue in the order asked, opened for inquiry only."""
        opened = self.open(queue, self.client.CMQC.MQOO_INQUIRE)
        try:
            with self.client.calling("MQINQ", f"queue {queue}"):
                return [_value(opened.inquire(selector)) for selector in selectors]
        finally:
            self.close(opened)

    def dead_letter_q_name(self) -> str:
        """Return DEADQ, the queue manager's dead-letter queue; refuse if there is none."""
        name = self.inquire(self.client.CMQC.MQCA_DEAD_LETTER_Q_NAME)
        if not name:
            raise ConnectionSettingsError(
                f"queue manager {self.name} has no dead-letter queue (DEADQ is blank) and the rules"
                " table names none: define one with ALTER QMGR DEADQ(...), or give INPUTQ"
            )
        return str(name)

    def depth(self, queue: str) -> int:
        """Return the queue's CURDEPTH."""
        return int(self.inquire_queue(queue, self.client.CMQC.MQIA_CURRENT_Q_DEPTH))


def connect(settings: ConnectionSettings) -> QueueManager:
    """Connect as the settings say; raises QueueManagerError or ClientNotFoundError.

    The clients go by names alone. What is asked for embedded is never looked for elsewhere, nor the
    other way round: ConnectionSettingsError where one name would stand for both in this process.
    """
    name, subject = settings.queue_manager, f"queue manager {settings.queue_manager}"
    if settings.transport == "embedded":
        embedded.install()
        if not embedded.exists(name):
            reason = MQRC["MQRC_Q_MGR_NAME_ERROR"]
            raise QueueManagerError("MQCONN", subject, MQCC_FAILED, reason, reason_text(reason))
    elif embedded.is_in_the_way_of(name):
        raise ConnectionSettingsError(
            f"{subject} is embedded in this process and cannot be reached by transport"
            f" {settings.transport!r} as well; give the embedded one another name"
        )
    client = clients.resolve(settings.client)
    # Not at exit: that would commit what could not be backed out.
    handle = client.module.QueueManager(None, disconnect_on_exit=False)
    with client.calling("MQCONN", subject):
        if settings.transport == "client":
            _connect_by_channel(client, handle, settings)
        else:
            # Shared, or a second connection of the same thread would be refused (2002).
            shared = client.CMQC.MQCNO_HANDLE_SHARE_BLOCK
            handle.connect_with_options(name_bytes(name), opts=shared)
    return QueueManager(client, handle, name)


def _connect_by_channel(client: clients.Client, handle: Any, settings: ConnectionSettings) -> None:
    """Connect over TCP; a broken connection stays broken, and bodies stay as they are.

    A client that reconnected by itself would hide that a unit of work was backed out. One that
    applied the policies of Advanced Message Security would open and close what is only to be moved:
    that is switched off for this process, which is the least the C client allows, unless its
    environment decides otherwise (IBM MQ docs, "Disabling Advanced Message Security at the
    client").
    """
    os.environ.setdefault("MQS_DISABLE_ALL_INTERCEPT", "TRUE")
    channel = client.module.CD()
    channel.ChannelName = settings.channel.encode("ascii")
    channel.ConnectionName = f"{settings.host}({settings.port})".encode("ascii")
    channel.ChannelType = MQCHT_CLNTCONN
    channel.TransportType = MQXPT_TCP
    user = {"user": settings.user, "password": settings.password} if settings.user else {}
    options = client.CMQC.MQCNO_RECONNECT_DISABLED
    handle.connect_with_options(settings.queue_manager, opts=options, cd=channel, **user)


def name_bytes(name: str) -> bytes:
    """Return an object's name for the MQI; what no name can hold becomes '?', and is not found."""
    return name.encode("ascii", "replace")


def _value(value: Any) -> Any:
    if isinstance(value, int):
        return value
    return bytes(value).decode("ascii", "replace").rstrip(" \0")
