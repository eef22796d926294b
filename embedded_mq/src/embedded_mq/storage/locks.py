"""The lock file of a queue manager: who may write just now, and which connections still live.

Open-file-description locks belong to an open file, not to a process, and the kernel drops them when
the process dies, however it dies. Byte 0 is the writer's turn; byte n stands for connection n.
"""

from __future__ import annotations

import fcntl
import gc
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, pid
WRITER_BYTE = 0
_CLOSED = -1


def _flock(kind: int, byte: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0)


class CollectorPause:
    """Python's garbage collector, paused while any thread of this process has a writer's turn.

    It runs the finalizers of the clients' objects, which make calls of their own: MQCLOSE, MQDISC.
    In the middle of another connection's turn such a call would wait for that turn in the very
    thread that has it, for ever.
    """

    def __init__(self) -> None:
        """Nobody has asked for a pause."""
        # The collector may run a finalizer in a thread that holds this lock, and that pauses it.
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
        """In a forked child: the threads that have paused it are not here."""
        if self._pauses and self._was_on:
            gc.enable()
        self._lock = threading.RLock()
        self._pauses = 0


_collector = CollectorPause()
os.register_at_fork(after_in_child=_collector.reset_after_fork)


class LockFile:
    """One connection's view of the lock file."""

    def __init__(self, path: Path) -> None:
        """Open the file; nothing is locked yet."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock_request = _flock(fcntl.F_WRLCK, WRITER_BYTE)
        self._unlock_request = _flock(fcntl.F_UNLCK, WRITER_BYTE)

    @contextmanager
    def write_lock(self) -> Iterator[None]:
        """Wait for the turn to write, and keep it for the block; blocks cannot be nested.

        The next writer wakes at once, whereas SQLite's own wait sleeps in steps.
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
        """Hold the byte of one's own connection until `close`, or death."""
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, connection_id))

    def is_alive(self, connection_id: int) -> bool:
        """Whether another open file holds the byte; of one's own connection it says no."""
        answer = fcntl.fcntl(
            self._descriptor, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, connection_id)
        )
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)

    def close(self) -> None:
        """Drop all locks; a second call does nothing, for the number may be another file's by then.

        A broken connection is closed when it breaks and still stands among the handles: a forked
        child closes what it finds there.
        """
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)
