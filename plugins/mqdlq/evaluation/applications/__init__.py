"""The applications that `spark-submit` runs; they convert errors to exit codes."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from mqdlq.errors import MqDlqError
from mqdlq.failures import describe

FAILURE = "the file to write to why this program failed; its name is that of the task"


def run(
    parser: ArgumentParser, work: Callable[..., object], arguments: Sequence[str], bad_input: int
) -> int:
    """Do `work` with the options that the arguments give; return 0, or another code.

    One line on stderr says why. `bad_input` is the code for an error of mqdlq, which a retry would
    meet again; 1 is the code for an error of Spark. The file `--failure`, which has the name of the
    task, gets why it failed.
    """
    options = vars(parser.parse_args(arguments))
    failure = options.pop("failure", None)
    try:
        work(**options)
    except Exception as error:
        with suppress(OSError):  # a driver on another machine has no such directory
            if failure is not None:
                words = json.dumps(asdict(describe(Path(failure).stem, error)))
                Path(failure).write_text(words, encoding="utf-8")
        if not isinstance(error, MqDlqError | PySparkException | Py4JError):
            raise
        program = parser.prog.removesuffix(".py")
        sys.stderr.write(f"{program}: {str(error).strip().splitlines()[0]}\n")
        return bad_input if isinstance(error, MqDlqError) else 1
    return 0
