"""A durable queue manager inside the process, below the unmodified clients `ibmmq` and `pymqi`.

`install()` replaces the clients' C extensions; ``ibmmq.connect("QM1")`` and all further calls run
the library's own Python code. Several processes may use one queue manager at the same time.

It refuses options and calls that it does not emulate, with IBM MQ's reason code and a line in the
log `embedded_mq`. Some functions of a queue manager are missing without an error: it puts no
trigger messages and few events, moves no message over a channel, converts no data, and stores or
ignores some attributes. docs/reference/mqi-coverage.md lists all of this, and the facts that nobody
has verified with a real queue manager. Queue managers with other names are reached through IBM's
client library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from embedded_mq.errors import EmbeddedQueueManagerError, MqscError

if TYPE_CHECKING:
    from embedded_mq.clients.installing import install, shadows
    from embedded_mq.mqsc.administration import create_defined, depths, run_mqsc
    from embedded_mq.storage.call_log import log_of_calls
    from embedded_mq.storage.directories import create, exists, in_directory, names
    from embedded_mq.storage.dumping import dump, load
    from embedded_mq.storage.faults import faults
    from embedded_mq.storage.lifecycle import end, quiesce, start, status

__all__ = [
    "EmbeddedQueueManagerError",
    "MqscError",
    "create",
    "create_defined",
    "depths",
    "dump",
    "end",
    "exists",
    "faults",
    "in_directory",
    "install",
    "load",
    "log_of_calls",
    "names",
    "quiesce",
    "run_mqsc",
    "shadows",
    "start",
    "status",
]

_MODULES = {
    "clients.installing": ("install", "shadows"),
    "mqsc.administration": ("create_defined", "depths", "run_mqsc"),
    "storage.dumping": ("dump", "load"),
    "storage.faults": ("faults",),
    "storage.lifecycle": ("end", "quiesce", "start", "status"),
    "storage.call_log": ("log_of_calls",),
    "storage.directories": ("create", "exists", "in_directory", "names"),
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a function on first use: importing all takes as long as a short command."""
        for module, held in _MODULES.items():
            if name in held:
                globals()[name] = found = getattr(import_module(f"{__name__}.{module}"), name)
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
