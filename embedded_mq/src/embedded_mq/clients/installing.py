"""Put the embedded queue manager below the clients of this process."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from embedded_mq.clients import ibmmqc, pymqe, routing
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.storage import directories

_installed: dict[str, ModuleType] = {}


def install(directory: Path | str | None = None) -> None:
    """Put the embedded queue manager below both clients; do it before the first import of either.

    Queue managers are looked for in `directory`, one subdirectory each; without one, where an
    earlier call said, else in EMBEDDED_MQ_HOME, as it is at each connection (see
    `embedded_mq.storage.directories`). May be called again. Raises EmbeddedQueueManagerError if a
    client is loaded already with its C extension, or `ibmmq` with its OpenTelemetry propagation,
    which adds to the messages it moves.
    """
    if directory is not None:
        directories.choose(Path(directory))
    _install_below_ibmmq()
    _install_below_pymqi()


def shadows(name: str) -> bool:
    """Whether the clients of this process reach an embedded queue manager by this name."""
    return bool(_installed) and directories.exists(name)


def _install_below_ibmmq() -> None:
    if _is_in_place(ibmmqc.NAME):
        return  # a program may call this at each connection: it reads no metadata again
    try:
        built = ibmmqc.module(version("ibmmq"))
    except PackageNotFoundError:
        return
    if sys.modules.get("mqotel") is not None:
        raise EmbeddedQueueManagerError(
            "ibmmq is imported already, with its OpenTelemetry propagation on: call"
            " embedded_mq.install() before the first import of ibmmq"
        )
    _put_in_place(ibmmqc.NAME, built)
    # ibmmq takes the absence of this module of its own for "no tracing wanted".
    sys.modules["mqotel"] = None  # type: ignore[assignment]


def _install_below_pymqi() -> None:
    _put_in_place(pymqe.NAME, pymqe.module())


def _is_in_place(name: str) -> bool:
    return name in _installed and sys.modules.get(name) is _installed[name]


def _put_in_place(name: str, built: ModuleType) -> None:
    if _is_in_place(name):
        return
    client = name.partition(".")[0]
    if name in sys.modules or client in sys.modules:
        raise EmbeddedQueueManagerError(
            f"{client} is imported already, over IBM's client library: call embedded_mq.install()"
            f" before the first import of {client}"
        )
    routing.route(built, lambda: routing.load_extension(name))
    sys.modules[name] = _installed[name] = built
