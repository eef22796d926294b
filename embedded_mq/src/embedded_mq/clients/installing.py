"""Install the embedded queue manager below the clients of this process."""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from embedded_mq.clients import calls, ibmmqc, pymqe, routing
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.storage import directories

_installed: dict[str, ModuleType] = {}


def install(directory: Path | str | None = None) -> None:
    """Install the embedded queue manager below both clients, before the first import of either.

    Queue managers are found in `directory`, one subdirectory each; without it, in the directory of
    an earlier call, else in EMBEDDED_MQ_HOME, read at each connection (see
    `embedded_mq.storage.directories`). May be called repeatedly, with another directory only while
    this process has no connection in the former one: a name would mean two queue managers. Raises
    EmbeddedQueueManagerError otherwise, and if a client is already loaded with its C extension, or
    `ibmmq` with its OpenTelemetry propagation, which adds properties to messages.
    """
    if directory is not None:
        _refuse_another_directory(Path(directory).absolute())
        directories.set_directory(Path(directory))
    _install_below_ibmmq()
    _install_below_pymqi()


def shadows(name: str) -> bool:
    """Return whether this name means an embedded queue manager to this process's clients."""
    return bool(_installed) and directories.exists(name)


def _refuse_another_directory(wanted: Path) -> None:
    parent = directories.directory_of("x").parent.absolute()
    connected = [path for path in calls.connected_directories() if path.parent == parent]
    if connected and wanted != parent:
        raise EmbeddedQueueManagerError(
            f"this process is connected to {connected[0]}, so that install() cannot change the"
            f" directory to {wanted}; disconnect before, or connect within"
            f" embedded_mq.in_directory({str(wanted)!r})"
        )


def _install_below_ibmmq() -> None:
    if _is_installed(ibmmqc.MODULE_NAME):
        return  # fast, because a program may call this at each connection
    try:
        built = ibmmqc.build_module(version("ibmmq"))
    except PackageNotFoundError:
        return
    if sys.modules.get("mqotel") is not None:
        raise EmbeddedQueueManagerError(
            "ibmmq is already imported with its OpenTelemetry propagation; call"
            " embedded_mq.install() before the first import of ibmmq"
        )
    _install_module(ibmmqc.MODULE_NAME, built)
    # Without its module for OpenTelemetry, ibmmq does not trace.
    sys.modules["mqotel"] = None  # type: ignore[assignment]


def _install_below_pymqi() -> None:
    _install_module(pymqe.MODULE_NAME, pymqe.build_module())


def _is_installed(name: str) -> bool:
    return name in _installed and sys.modules.get(name) is _installed[name]


def _install_module(name: str, built: ModuleType) -> None:
    if _is_installed(name):
        return
    client = name.partition(".")[0]
    if name in sys.modules or client in sys.modules:
        raise EmbeddedQueueManagerError(
            f"{client} is already imported with its C extension; call embedded_mq.install()"
            f" before the first import of {client}"
        )
    routing.route(built, lambda: routing.load_extension(name))
    sys.modules[name] = _installed[name] = built
