"""Connect to a queue manager, real or embedded, as the connection settings say."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Self

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import ConnectionSettingsError, QueueManagerError
from mqdlq.mqi import client as clients
from mqdlq.mqi import transports
from mqdlq.mqi.client import Client
from mqdlq.mqi.connection_settings import ConnectionSettings

MQCC_FAILED = 2
CONNECTION_GONE_REASONS = tuple(
    MQRC[name] for name in ("MQRC_CONNECTION_BROKEN", "MQRC_HCONN_ERROR", "MQRC_HOBJ_ERROR")
)

__all__ = ["ConnectionSettings", "QueueManager", "connect", "name_bytes"]


class QueueManager:
    """One connection to a queue manager; one thread uses it, `disconnect` closes it.

    As a context manager it backs out uncommitted work if the block ends with an exception, because
    MQDISC alone would commit it (IBM MQ docs, "MQDISC"). If the backout fails, MQDISC is never
    called, not even when Python deletes the object: when the process ends, the queue manager backs
    out its work.
    """

    def __init__(self, client: clients.Client, handle: Any, name: str) -> None:
        self.client = client
        self.handle = handle
        self.name = name
        self._may_disconnect = True
        self._has_ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None:
                self.back_out()
            self.disconnect()
        except QueueManagerError:
            if kind is None:
                raise  # otherwise the first error matters more

    def back_out(self) -> None:
        """Back out uncommitted work (MQBACK); if that fails, `disconnect` does nothing.

        After `disconnect` there is no such work, and ibmmq fails with a TypeError.
        """
        if self._has_ended:
            return
        try:
            with self.client.translating_errors("MQBACK", self.name):
                self.handle.backout()
        except QueueManagerError:
            self._may_disconnect = False
            raise

    def disconnect(self) -> None:
        """End the connection (MQDISC), which commits, unless a backout has failed.

        A broken connection has already ended. A second call does nothing.
        """
        if self._has_ended or not self._may_disconnect:
            return
        self._has_ended = True
        try:
            with self.client.translating_errors("MQDISC", self.name):
                if self.client.name != "pymqi":
                    self.handle.disconnect()
                    return
                # pymqi hides a failed MQDISC.
                completion, reason = self.client.module.pymqe.MQDISC(self.handle.get_handle())
                if completion:
                    raise self.client.module.MQMIError(completion, reason)
        except QueueManagerError as error:
            if error.reason not in CONNECTION_GONE_REASONS:
                raise

    def inquire(self, selector: int) -> Any:
        """Return one attribute of the queue manager: int, or str with trailing blanks removed."""
        with self.client.translating_errors("MQINQ", f"queue manager {self.name}"):
            return _value(self.handle.inquire(selector))

    def open(self, queue: str, options: int) -> Any:
        """Open a queue by name (MQOPEN); return the client's Queue, which the caller closes."""
        with self.client.translating_errors("MQOPEN", f"queue {queue}"):
            return self.client.module.Queue(self.handle, name_bytes(queue), options)

    def resolve(
        self, name: str, q_mgr_name: str, options: int, user: bytes = b""
    ) -> tuple[str, str]:
        """Return the queue and the queue manager at which messages for a queue arrive.

        The queue manager itself resolves aliases of queues and of queue managers when the queue is
        opened for output or browse (IBM MQ docs, "MQOD", ResolvedQName). With a `user`, its
        authority counts, as in PUTAUT(CTX). A queue of this queue manager has the blank name "".
        Raises QueueManagerError.
        """
        constants = self.client.CMQC
        target = self.client.packed.OD(
            Version=constants.MQOD_VERSION_3,  # the first that returns the names
            ObjectName=name_bytes(name),
            ObjectQMgrName=name_bytes(q_mgr_name),
        )
        if user:
            target.AlternateUserId = user
            options |= constants.MQOO_ALTERNATE_USER_AUTHORITY
        queue = self.client.module.Queue(self.handle)
        with self.client.translating_errors("MQOPEN", f"queue {name}"):
            queue.open(target, options | constants.MQOO_FAIL_IF_QUIESCING)
        self.close(queue)
        found, place = _value(target.ResolvedQName), _value(target.ResolvedQMgrName)
        return found, "" if place == self.name else place

    def close(self, queue: Any) -> None:
        """Close a queue; on a broken connection do nothing."""
        try:
            with self.client.translating_errors("MQCLOSE", "queue"):
                queue.close()
        except QueueManagerError as error:
            if error.reason not in CONNECTION_GONE_REASONS:
                raise

    @contextmanager
    def opened(self, queue: str, options: int) -> Iterator[Any]:
        opened = self.open(queue, options | self.client.CMQC.MQOO_FAIL_IF_QUIESCING)
        try:
            yield opened
        finally:
            self.close(opened)

    def browsing(self, queue: str) -> AbstractContextManager[Any]:
        """Open a queue for browsing only, and close it when the block ends."""
        return self.opened(queue, self.client.CMQC.MQOO_BROWSE)

    def inquire_queue(self, queue: str, selector: int) -> Any:
        return self.inquire_attributes(queue, selector)[0]

    def inquire_attributes(self, queue: str, *selectors: int) -> list[Any]:
        """Return attributes of a queue in the order of `selectors`; open it for inquiry only."""
        with (
            self.opened(queue, self.client.CMQC.MQOO_INQUIRE) as opened,
            self.client.translating_errors("MQINQ", f"queue {queue}"),
        ):
            return [_value(opened.inquire(selector)) for selector in selectors]

    def dead_letter_q_name(self) -> str:
        """Return DEADQ, the queue manager's dead-letter queue, or raise ConnectionSettingsError."""
        name = self.inquire(self.client.CMQC.MQCA_DEAD_LETTER_Q_NAME)
        if not name:
            raise ConnectionSettingsError(
                "MQDLQ-112",
                f"queue manager {self.name} has no dead-letter queue (DEADQ is blank), and the"
                " rules table does not name a queue; define one with ALTER QMGR DEADQ(...), or"
                " give INPUTQ",
            )
        return str(name)

    def depth(self, queue: str) -> int:
        return int(self.inquire_queue(queue, self.client.CMQC.MQIA_CURRENT_Q_DEPTH))

    def depth_and_limit(self, queue: str) -> tuple[int, int]:
        constants = self.client.CMQC
        selectors = constants.MQIA_CURRENT_Q_DEPTH, constants.MQIA_MAX_Q_DEPTH
        depth, limit = self.inquire_attributes(queue, *selectors)
        return int(depth), int(limit)


def connect(settings: ConnectionSettings, *, may_reconnect: bool = False) -> QueueManager:
    """Connect as the settings say; raise QueueManagerError or ClientNotFoundError.

    The client reconnects automatically only if `may_reconnect` is set as well as the settings'
    `reconnect`. A caller sets it for a connection with neither a unit of work nor a browse cursor.

    Client libraries know queue managers by name only. Transport `embedded` never reaches a real
    queue manager, and other transports never reach an embedded one: if a name would mean both in
    this process, ConnectionSettingsError is raised.
    """
    name, subject = settings.queue_manager, f"queue manager {settings.queue_manager}"
    with ExitStack() as place:
        if settings.transport == transports.EMBEDDED:
            queue_managers = place.enter_context(transports.embedded("transport 'embedded'"))
            if settings.directory:
                place.enter_context(queue_managers.in_directory(settings.directory))
            queue_managers.install()
            if not queue_managers.exists(name):
                reason = MQRC["MQRC_Q_MGR_NAME_ERROR"]
                raise QueueManagerError("MQCONN", subject, MQCC_FAILED, reason, reason_text(reason))
        elif (embedded := transports.find_provider()) and embedded.shadows(name):
            raise ConnectionSettingsError(
                "MQDLQ-107",
                f"{subject} is embedded in this process, so transport {settings.transport!r} cannot"
                " reach another queue manager of that name; rename the embedded one",
            )
        elif settings.transport == "client":
            # Client-side Advanced Message Security is off unless the environment says otherwise: it
            # would decrypt and encrypt messages that are only moved. The C client can only disable
            # it for the whole process (IBM MQ docs, "Disabling Advanced Message Security at the
            # client").
            os.environ.setdefault("MQS_DISABLE_ALL_INTERCEPT", "TRUE")
        client = clients.import_client(settings.client)
        arguments = connect_arguments(client, settings, may_reconnect=may_reconnect)
        # No MQDISC at exit: it would commit work that could not be backed out.
        handle = client.module.QueueManager(None, disconnect_on_exit=False)
        with client.translating_errors("MQCONN", subject):
            handle.connect_with_options(name_bytes(name), **arguments)
        return QueueManager(client, handle, name)


def name_bytes(name: str) -> bytes:
    """Return an object's name for the MQI; '?' replaces characters that no name can hold."""
    return name.encode("ascii", "replace")


def _value(value: Any) -> Any:
    if isinstance(value, int):
        return value
    return bytes(value).decode("ascii", "replace").rstrip(" \0")


# Convert connection settings into the structures of MQCONNX.
#
# Both client libraries get the same MQCNO, MQCD and MQSCO; they build the MQCSP themselves from
# user and password. IBM MQ docs, "MQCNO", "MQCD", "MQSCO", "MQCSP".

MQCHT_CLNTCONN = 6
MQXPT_TCP = 2
LONGEST_MESSAGE = 104857600
"""MQCD.MaxMsgLength: with the maximum, the limit of the queue manager's channel applies.

Both libraries set 4 MB by default, and a longer dead letter could not be got:
MQRC_DATA_LENGTH_ERROR (2010).
"""


def connect_arguments(
    client: Client, settings: ConnectionSettings, *, may_reconnect: bool = False
) -> dict[str, Any]:
    """Return the keyword arguments of `QueueManager.connect_with_options`.

    A client that reconnects automatically hides that a unit of work was backed out or a browse
    cursor was lost: `may_reconnect` says that the connection has neither. Raises
    ConnectionSettingsError for a setting that the library cannot pass on.
    """
    options = _options(client, settings, may_reconnect=may_reconnect)
    arguments: dict[str, Any] = {}
    if settings.ccdt_url:
        if client.name == "pymqi":
            raise ConnectionSettingsError(
                "MQDLQ-106",
                "pymqi does not support ccdt_url (its MQCNO is of version 5); give host and"
                ' channel, or add "client": "ibmmq" to the connection\'s extra',
            )
        arguments["cno"] = cno = client.module.CNO()
        cno.Version = client.CMQC.MQCNO_VERSION_6  # the first that has CCDTUrlPtr
        cno.Options = options
        cno.CCDTUrl = settings.ccdt_url.encode()
    else:
        arguments["opts"] = options
        if settings.transport == "client":
            arguments["cd"] = channel = client.module.CD()
            channel.ChannelName = settings.channel.encode()
            channel.ConnectionName = settings.connection_name.encode()
            channel.ChannelType = MQCHT_CLNTCONN
            channel.TransportType = MQXPT_TCP
            channel.MaxMsgLength = LONGEST_MESSAGE
            channel.SSLCipherSpec = settings.tls_cipher_spec.encode()
            channel.RemoteUserIdentifier = settings.client_user_id.encode()
    if settings.key_repository:
        arguments["sco"] = tls = client.module.SCO()
        tls.KeyRepository = settings.key_repository.encode()
        tls.CertificateLabel = settings.certificate_label.encode()
    if settings.user:
        arguments |= {"user": settings.user, "password": settings.password}
    return arguments


def _options(client: Client, settings: ConnectionSettings, *, may_reconnect: bool) -> int:
    constants = client.CMQC
    # Shared, or a second MQCONNX of the same thread would fail: MQRC_ALREADY_CONNECTED (2002).
    options = int(constants.MQCNO_HANDLE_SHARE_BLOCK)
    if settings.transport == "bindings":
        # Without it, the client library may connect to the channel that MQSERVER names.
        return options | int(constants.MQCNO_LOCAL_BINDING)
    if settings.transport == "client":
        wish = settings.reconnect if may_reconnect else "no"
        reconnect = {
            "no": constants.MQCNO_RECONNECT_DISABLED,
            "yes": constants.MQCNO_RECONNECT,
            "queue_manager": constants.MQCNO_RECONNECT_Q_MGR,
        }[wish]
        options |= int(constants.MQCNO_CLIENT_BINDING) | int(reconnect)
    return options
