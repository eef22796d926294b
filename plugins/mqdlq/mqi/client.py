"""Import an MQ client library, `pymqi` or `ibmmq`, and translate its errors."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from typing import Any

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import ClientNotFoundError, QueueManagerError
from mqdlq.mqi.packed_descriptors import PackedStructures, packed_structures

CLIENT_NAMES = ("pymqi", "ibmmq")


@dataclass(frozen=True, slots=True)
class Client:
    """One of the two client libraries, whose classes have the same names."""

    name: str
    module: Any

    @property
    def CMQC(self) -> Any:  # noqa: N802 (the library's own name)
        return self.module.CMQC

    @property
    def packed(self) -> PackedStructures:
        """The library's MD, GMO, PMO and OD in a faster form (see `packed_descriptors`)."""
        return packed_structures(self.module)

    def translating_errors(self, verb: str, subject: str) -> _TranslatingErrors:
        """Turn the library's MQMIError into a QueueManagerError with the call and its object.

        A warning (MQCC_WARNING) is raised like a failure, as both libraries do; `completion`
        tells them apart.
        """
        return _TranslatingErrors(self.module.MQMIError, verb, subject)


class _TranslatingErrors:
    """See `Client.translating_errors`: a generator would take longer, several times a message."""

    __slots__ = ("_failure", "_subject", "_verb")

    def __init__(self, failure: type[Any], verb: str, subject: str) -> None:
        self._failure, self._verb, self._subject = failure, verb, subject

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, self._failure):
            return
        what, _, name = self._subject.rpartition(" ")
        advice = hint(error.reason, name) if what.endswith("queue") else ""
        text = reason_text(error.reason) + (f": {advice}" if advice else "")
        made = QueueManagerError(self._verb, self._subject, error.comp, error.reason, text)
        raise made from error


def import_client(name: str | None = None) -> Client:
    """Import the client library `name`; without a name pymqi, or ibmmq if pymqi is not installed.

    ibmmq's OpenTelemetry propagation stays off, because it adds properties to messages. Raises
    ClientNotFoundError, which names the missing package.
    """
    if name is not None and name not in CLIENT_NAMES:
        known = " and ".join(CLIENT_NAMES)
        raise ClientNotFoundError("MQDLQ-110", f"unknown MQ client {name!r}; known are {known}")
    chosen = name or ("pymqi" if importlib.util.find_spec("pymqi") else "ibmmq")
    if chosen == "ibmmq" and "ibmmq" not in sys.modules:
        # ibmmq switches its tracing on if it can import this module, and opentelemetry is always
        # installed with Airflow. A handler must not change the messages that it moves.
        sys.modules["mqotel"] = None  # type: ignore[assignment]
    try:
        return Client(chosen, importlib.import_module(chosen))
    except ImportError as error:
        raise ClientNotFoundError("MQDLQ-111", _advice(chosen, error)) from error


def _advice(name: str, error: ImportError) -> str:
    if importlib.util.find_spec(name) is None:
        return (
            f"the Python package {name} is not installed; the extra `{name}` of mqdlq installs it"
        )
    cause = error.__context__ or error
    # Python reports a package without its extension as a circular import.
    is_without = isinstance(cause, ImportError) and cause.name == name
    return (
        f"the Python package {name} is installed, but IBM's MQ client library could not be loaded"
        f" ({f'{name} has no C extension' if is_without else cause}); install the IBM MQ client,"
        ' or use an embedded queue manager (connection extra "transport": "embedded")'
    )


# Advice on the reason codes of calls on a queue: the likely cause and where to look.

BLANK_NAME_REASONS = frozenset({MQRC["MQRC_UNKNOWN_OBJECT_NAME"], MQRC["MQRC_REMOTE_Q_NAME_ERROR"]})

BLANK_NAME = "a blank queue name"


def printable_name(queue: str) -> str:
    """Return a queue's name for a log or a report; a name from a message may hold any bytes."""
    return ascii(queue)[1:-1] or BLANK_NAME


def hint(reason: int, queue: str) -> str:
    """Return the likely cause of a reason code on a queue, and where to look; "" without advice.

    An Advanced Message Security policy has the name of the queue that it protects (IBM MQ docs,
    "setmqspl").
    """
    if not queue and reason in BLANK_NAME_REASONS:
        return (
            "the message does not name a queue; the pattern DESTQ(?*) or REPLYQ(?*) lets a rule"
            " match only messages that do"
        )
    if reason != MQRC["MQRC_SECURITY_ERROR"]:
        return ""
    name = printable_name(queue)
    return (
        f"the Advanced Message Security policy {name}, which has its queue's name, refuses it, or"
        f" another security check does: see the policy by `dspmqspl -m QMGR -p {name}` (policies"
        " are kept on SYSTEM.PROTECTION.POLICY.QUEUE), and the queue manager's error log"
    )
