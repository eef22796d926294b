"""Submit Spark applications: configuration, environment and command for a number of messages.

For a small snapshot the job's fixed cost is nearly all there is, so the JVM starts from an archive
of classes, compiles fast rather than well, and Spark generates no code. A large one gets the full
compiler.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

LARGE_FROM: Final = 100_000
"""From so many messages on, what the full compiler takes to start is won back."""

CLASS_ARCHIVE: Final = Path(sys.prefix) / "spark-classes.jsa"
"""The classes Spark loads, as `make set-up` stores them (see `mqdlq.local.class_archive`)."""

_ALWAYS: Final = {
    # The driver and, should one ever start, a worker run with what is installed here.
    "spark.pyspark.python": sys.executable,
    "spark.pyspark.driver.python": sys.executable,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.sql.catalogImplementation": "in-memory",
    # What Spark writes is the owner's alone.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    # What few steps are done per batch, rather than per row, is worth large batches.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # HotSpot does not compile methods of more bytecodes than this; Spark would still make them.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
_SMALL: Final = {
    # A small snapshot fits one task many times over.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
}
_LARGE: Final = {
    # Adaptive execution joins what is small and splits what is not.
    "spark.sql.shuffle.partitions": "64",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.driver.memory": "4g",
}


def submit_conf(messages: int, archive: Path = CLASS_ARCHIVE) -> dict[str, str]:
    """Return the confs for evaluating so many messages."""
    large = messages >= LARGE_FROM
    return {
        **_ALWAYS,
        **(_LARGE if large else _SMALL),
        "spark.driver.extraJavaOptions": _java_options(archive, large=large),
    }


def templated_conf(messages: str) -> dict[str, str]:
    """Return the confs as Airflow's templates, for a number known only when the task runs.

    `messages` is a template expression for it. Needs `submit_conf` among the DAG's macros.
    """
    return {name: f"{{{{ submit_conf({messages} | int)['{name}'] }}}}" for name in submit_conf(0)}


def submit_command(
    application: Path, arguments: Sequence[str], *, messages: int, master: str = "local[*]"
) -> list[str]:
    """Return the command that submits an application to Spark on this machine."""
    confs = [word for item in submit_conf(messages).items() for word in ("--conf", "=".join(item))]
    submit = str(Path(sys.executable).with_name("spark-submit"))
    return [submit, "--master", master, *confs, str(application), *arguments]


def submit_environment() -> dict[str, str]:
    """Return what `spark-submit` must find in its environment to use this Python's PySpark."""
    pyspark = find_spec("pyspark")
    places = pyspark.submodule_search_locations if pyspark else None
    return {
        "PYSPARK_PYTHON": sys.executable,
        **({"SPARK_HOME": places[0]} if places else {}),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # PySpark looks at pandas, which is here through Airflow; the evaluation does not use it.
        "PYTHONWARNINGS": "ignore:PySpark does not yet fully support pandas:FutureWarning",
    }


def submit(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Run a submitted application to its end, its words on standard error; return its exit code."""
    return subprocess.run(  # noqa: S603 (our own command)
        list(command),
        env={**environment, **submit_environment()},
        stdout=2,
        check=False,
    ).returncode


def _java_options(archive: Path, *, large: bool) -> str:
    if large:
        return "-XX:+UseParallelGC"
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
    if archive.is_file():
        # An archive of another JVM or another Spark is passed over; -Xlog keeps it from saying so.
        options += [f"-XX:SharedArchiveFile={shlex.quote(str(archive))}", "-Xlog:disable"]
    return " ".join(options)
