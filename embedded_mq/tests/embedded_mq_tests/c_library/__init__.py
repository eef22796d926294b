"""IBM's client library as ibmmq's C extension expects it, over the embedded queue manager.

`install()` loads a generated `libmqm_r.so`, on which the unmodified extension runs with all its C
code. It is for tests of the client on x86-64 Linux. IBM's own library cannot be loaded in the same
process, so that no real queue manager can be reached.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import tempfile
from pathlib import Path

from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.storage import directories
from embedded_mq_tests.c_library.elf import shared_object
from embedded_mq_tests.c_library.exports import EXPORTS

SONAME = "libmqm_r.so"
TABLE = "embedded_mq_table"

_loaded: list[ctypes.CDLL] = []


def install(directory: Path | str | None = None) -> None:
    """Load the library, before the first import of ibmmq and instead of `embedded_mq.install()`.

    Queue managers are looked for as with `embedded_mq.install`. May be called again. Raises
    EmbeddedQueueManagerError where it cannot work.
    """
    if directory is not None:
        directories.set_directory(Path(directory))
    if _loaded:
        return
    here = (platform.system(), platform.machine())
    if here != ("Linux", "x86_64"):
        raise EmbeddedQueueManagerError(
            f"the client library over an embedded queue manager is for x86-64 Linux, not {here};"
            " embedded_mq.install() works anywhere"
        )
    if "ibmmq" in sys.modules or "ibmmq.ibmmqc" in sys.modules:
        raise EmbeddedQueueManagerError(
            "ibmmq is imported already: load the client library before its first import"
        )
    # Without its module for OpenTelemetry, ibmmq does not trace.
    sys.modules["mqotel"] = None  # type: ignore[assignment]
    _loaded.append(_load())


def _load() -> ctypes.CDLL:
    """Load the object from a temporary file; the extension finds it by its SONAME."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / SONAME
        path.write_bytes(shared_object(SONAME, list(EXPORTS), TABLE))
        library = ctypes.CDLL(str(path))
    table = (ctypes.c_void_p * len(EXPORTS)).in_dll(library, TABLE)
    for number, callback in enumerate(EXPORTS.values()):
        table[number] = ctypes.cast(callback, ctypes.c_void_p)
    return library
