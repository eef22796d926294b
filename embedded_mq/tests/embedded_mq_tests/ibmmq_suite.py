"""Run the test suite of an unpacked ibmmq source distribution over the embedded queue manager.

Run this file with DIRECTORY/code/tests and, if you like, options of pytest.

The suite needs `ddt`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

import embedded_mq

# The suite looks for a queue with a description like those of IBM's own queues.
DEFINITIONS = "DEFINE QLOCAL(DESCRIBED) DESCR('IBM MQ queue of the suite')"


def main() -> int:
    """Create the suite's queue manager, with a message on a queue, and run the suite."""
    suite, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        embedded_mq.install(directory)
        embedded_mq.create_defined("QM1", DEFINITIONS)
        import ibmmq

        queue_manager = ibmmq.QueueManager("QM1")
        ibmmq.Queue(queue_manager, "DESCRIBED").put(b"a message")
        queue_manager.disconnect()
        alone = ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", suite]
        return int(pytest.main([*alone, *options, str(Path(suite).resolve())]))


if __name__ == "__main__":
    sys.exit(main())
