"""The lock file of a queue manager: the write lock, and a lock for each live connection.

Open-file-description locks belong to an open file, not to a process, and the kernel releases them
when the process ends for any reason. Byte 0 is the write lock; byte n belongs to connection n.
"""

import fcntl
import gc
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# `struct flock` of 64-bit Linux: type, `whence`, start, length, pid
_FLOCK = struct.Struct("hhqqi4x")
WRITER_BYTE = 0
_CLOSED = -1


def _flock(kind: int, byte: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0)


class CollectorPause:
    """Pauses Python's garbage collector while a thread of this process has a write lock.

    The collector runs the finalizers of the clients' objects, which make calls: MQCLOSE, MQDISC.
    Such a call would wait for the write lock of another connection in the thread that holds that
    lock, and never return.
    """

    def __init__(self) -> None:
        """Start without a pause."""
        # Reentrant: the collector may run a finalizer that pauses it in a thread with this lock.
        self._lock = threading.RLock()
        self._pauses = 0
        self._was_on = False

    def pause(self) -> None:
        """Run no finalizers until `resume`."""
        with self._lock:
            if not self._pauses:
                self._was_on = gc.isenabled()
                gc.disable()
            self._pauses += 1

    def resume(self) -> None:
        """End one pause."""
        with self._lock:
            self._pauses -= 1
            if not self._pauses and self._was_on:
                gc.enable()

    def reset_after_fork(self) -> None:
        """Forget all pauses in a forked child, which does not have the parent's threads."""
        if self._pauses and self._was_on:
            gc.enable()
        self._lock = threading.RLock()
        self._pauses = 0


_collector = CollectorPause()
os.register_at_fork(after_in_child=_collector.reset_after_fork)


class LockFile:
    """One connection's view of the lock file."""

    def __init__(self, path: Path) -> None:
        """Open the file without a lock."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock_request = _flock(fcntl.F_WRLCK, WRITER_BYTE)
        self._unlock_request = _flock(fcntl.F_UNLCK, WRITER_BYTE)

    @contextmanager
    def write_lock(self) -> Iterator[None]:
        """Wait for the write lock and hold it for the block; blocks cannot be nested.

        The next writer wakes at once, whereas SQLite's own wait polls.
        """
        _collector.pause()
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLKW, self._lock_request)
            try:
                yield
            finally:
                fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, self._unlock_request)
        finally:
            _collector.resume()

    def mark_alive(self, connection_id: int) -> None:
        """Lock the byte of this connection until `close` or the end of the process."""
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, connection_id))

    def is_alive(self, connection_id: int) -> bool:
        """Return whether another open file has locked the byte; False for this connection."""
        answer = fcntl.fcntl(
            self._descriptor, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, connection_id)
        )
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)

    def close(self) -> None:
        """Release all locks; a second call does nothing, because the descriptor may be reused.

        A connection that breaks is closed but stays among the handles, and a forked child closes
        all connections that it finds there.
        """
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)
