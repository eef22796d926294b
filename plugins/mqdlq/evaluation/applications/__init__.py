"""The applications that `spark-submit` runs; they convert errors to exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from pyspark.errors import PySparkException

from mqdlq.errors import MqDlqError
from mqdlq.failures import describe

FAILURE = "the file to write to why this program failed; its name is that of the task"


def exit_code(
    program: str, run: Callable[[], object], failure: str | None, *, bad_input: int = 1
) -> int:
    """Run a program; return 0, or another code with one line on stderr.

    `bad_input` is the code for an error of mqdlq, which a retry would meet again. 1 is the code for
    an error of Spark. The file `failure`, which has the name of the task, gets why it failed.
    """
    try:
        with _leaving_word(failure):
            run()
    except (MqDlqError, PySparkException) as error:
        sys.stderr.write(f"{program}: {str(error).strip().splitlines()[0]}\n")
        return bad_input if isinstance(error, MqDlqError) else 1
    return 0


@contextmanager
def _leaving_word(file: str | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        with suppress(OSError):  # a driver on another machine has no such directory
            if file is not None:
                words = json.dumps(asdict(describe(Path(file).stem, error)))
                Path(file).write_text(words, encoding="utf-8")
        raise
