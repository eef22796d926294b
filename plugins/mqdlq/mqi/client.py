"""Import an MQ client library, `pymqi` or `ibmmq`, and translate its errors."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mqdlq.constants import reason_text
from mqdlq.errors import ClientNotFoundError, QueueManagerError
from mqdlq.mqi.hints import hint
from mqdlq.mqi.packed_descriptors import PackedStructures, packed_structures

CLIENT_NAMES = ("pymqi", "ibmmq")


@dataclass(frozen=True, slots=True)
class Client:
    """One of the two client libraries, whose classes have the same names."""

    name: str
    module: Any

    @property
    def CMQC(self) -> Any:  # noqa: N802 (the library's own name)
        """The library's module of MQI constants."""
        return self.module.CMQC

    @property
    def packed(self) -> PackedStructures:
        """The library's MD, GMO, PMO and OD in a faster form (see `packed_descriptors`)."""
        return packed_structures(self.module)

    @contextmanager
    def translating_errors(self, verb: str, subject: str) -> Iterator[None]:
        """Turn the library's MQMIError into a QueueManagerError with the call and its object.

        A warning (MQCC_WARNING) is raised like a failure, as both libraries do; `completion`
        tells them apart.
        """
        try:
            yield
        except self.module.MQMIError as error:
            kind, _, name = subject.rpartition(" ")
            advice = hint(error.reason, name) if kind.endswith("queue") else ""
            text = reason_text(error.reason) + (f": {advice}" if advice else "")
            raise QueueManagerError(verb, subject, error.comp, error.reason, text) from error


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
