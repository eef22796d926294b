"""Connection settings in, a connected queue manager out, real or embedded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import ConnectionSettingsError, QueueManagerError
from mqdlq.mqi import client as clients
from mqdlq.mqi.connecting import transports
from mqdlq.mqi.connecting.options import connect_arguments
from mqdlq.mqi.connecting.settings import ConnectionSettings

MQCC_FAILED = 2
CONNECTION_GONE = tuple(
    MQRC[name] for name in ("MQRC_CONNECTION_BROKEN", "MQRC_HCONN_ERROR", "MQRC_HOBJ_ERROR")
)

__all__ = ["ConnectionSettings", "QueueManager", "connect", "name_bytes"]


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
        """End the connection (MQDISC), which commits; not where something was to be backed out.

        A broken connection is at its end already.
        """
        if not self._may_disconnect:
            return
        try:
            with self.client.calling("MQDISC", self.name):
                self._disconnect()
        except QueueManagerError as error:
            if error.reason not in CONNECTION_GONE:
                raise

    def _disconnect(self) -> None:
        if self.client.name != "pymqi":
            self.handle.disconnect()
            return
        # pymqi keeps to itself that MQDISC failed.
        completion, reason = self.client.module.pymqe.MQDISC(self.handle.get_handle())
        if completion:
            raise self.client.module.MQMIError(completion, reason)

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

    @contextmanager
    def browsing(self, queue: str) -> Iterator[Any]:
        """Open a queue for browsing and nothing else; it is closed when the block ends."""
        constants = self.client.CMQC
        opened = self.open(queue, constants.MQOO_BROWSE | constants.MQOO_FAIL_IF_QUIESCING)
        try:
            yield opened
        finally:
            self.close(opened)

    def inquire_queue(self, queue: str, selector: int) -> Any:
        """Return one attribute of a queue, opened for inquiry only."""
        return self.inquire_attributes(queue, selector)[0]

    def inquire_attributes(self, queue: str, *selectors: int) -> list[Any]:
        """Return attributes of a queue in the order asked, opened for inquiry only."""
        constants = self.client.CMQC
        opened = self.open(queue, constants.MQOO_INQUIRE | constants.MQOO_FAIL_IF_QUIESCING)
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


def connect(settings: ConnectionSettings, *, may_reconnect: bool = False) -> QueueManager:
    """Connect as the settings say; raises QueueManagerError or ClientNotFoundError.

    A broken connection stays broken, whatever the settings' `reconnect` says, unless the caller
    says that it may be made anew: it must then have neither a unit of work nor a browse cursor.

    The clients go by names alone. What is asked for embedded is never looked for elsewhere, nor the
    other way round: ConnectionSettingsError where one name would stand for both in this process.
    """
    name, subject = settings.queue_manager, f"queue manager {settings.queue_manager}"
    if settings.transport == transports.EMBEDDED:
        _install_embedded(name, subject)
    elif (embedded := transports.installed()) and embedded.shadows(name):
        raise ConnectionSettingsError(
            f"{subject} is embedded in this process and cannot be reached by transport"
            f" {settings.transport!r} as well; give the embedded one another name"
        )
    elif settings.transport == "client":
        _leave_bodies_as_they_are()
    client = clients.resolve(settings.client)
    arguments = connect_arguments(client, settings, may_reconnect=may_reconnect)
    # Not at exit: that would commit what could not be backed out.
    handle = client.module.QueueManager(None, disconnect_on_exit=False)
    with client.calling("MQCONN", subject):
        handle.connect_with_options(name_bytes(name), **arguments)
    return QueueManager(client, handle, name)


def _install_embedded(name: str, subject: str) -> None:
    with transports.embedded("transport 'embedded'") as queue_managers:
        queue_managers.install()
        if not queue_managers.exists(name):
            reason = MQRC["MQRC_Q_MGR_NAME_ERROR"]
            raise QueueManagerError("MQCONN", subject, MQCC_FAILED, reason, reason_text(reason))


def _leave_bodies_as_they_are() -> None:
    """Switch client-side Advanced Message Security off, unless the environment decides otherwise.

    It would open and close what is only to be moved. For this process is the least the C client
    allows (IBM MQ docs, "Disabling Advanced Message Security at the client").
    """
    os.environ.setdefault("MQS_DISABLE_ALL_INTERCEPT", "TRUE")


def name_bytes(name: str) -> bytes:
    """Return an object's name for the MQI; what no name can hold becomes '?', and is not found."""
    return name.encode("ascii", "replace")


def _value(value: Any) -> Any:
    if isinstance(value, int):
        return value
    return bytes(value).decode("ascii", "replace").rstrip(" \0")
