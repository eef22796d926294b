"""End this process when the process that started it ends.

Standard input is a pipe that the parent holds open. When the parent ends for any reason, the pipe
closes, and this process kills itself and its children: Airflow, Spark's JVM, Python workers.
"""

import os
import signal
import sys
import threading


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)  # nothing is ever written: this returns at the pipe's end
    # A running task answers SIGTERM and KeyboardInterrupt by continuing or by failing the
    # task in good order. A kill is what the ledger and the markers are made for.
    os.killpg(0, signal.SIGKILL)


def end_with_parent() -> None:
    """Make this process the leader of a new group, which is killed when the parent ends."""
    os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
