"""The applications that `spark-submit` runs; they convert errors to exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pyspark.errors import PySparkException

from mqdlq.errors import MqDlqError


def exit_code(program: str, run: Callable[[], object], *, bad_input: int = 1) -> int:
    """Run a program; return 0, or another code with one line on stderr.

    `bad_input` is the code for an error of mqdlq, which a retry would meet again. 1 is the code for
    an error of Spark.
    """
    try:
        run()
    except (MqDlqError, PySparkException) as error:
        sys.stderr.write(f"{program}: {str(error).strip().splitlines()[0]}\n")
        return bad_input if isinstance(error, MqDlqError) else 1
    return 0
