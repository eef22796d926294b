"""Submit Spark applications: configuration, environment and command for a number of messages.

For a small snapshot the fixed cost of the job dominates, so the JVM starts from a class archive and
compiles with the fast compiler only, and Spark generates no code. A large snapshot uses the full
compiler.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mqdlq.errors import ExecutionError

LARGE_FROM: Final = 100_000
"""The number of messages from which the full compiler saves more time than it costs."""

CLASS_ARCHIVE: Final = Path(sys.prefix) / "spark-classes.jsa"
"""The archive of Spark's classes that `python -m mqdlq.local.class_archive` writes."""

_ALWAYS: Final = {
    # The driver, and a worker if one starts, use this Python environment.
    "spark.pyspark.python": sys.executable,
    "spark.pyspark.driver.python": sys.executable,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.sql.catalogImplementation": "in-memory",
    # Only the owner can read files that Spark writes.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    # Large batches, because some steps run for each batch rather than each row.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # HotSpot does not compile methods with more bytecodes, which Spark would still generate.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
_SMALL: Final = {
    # One task is enough for a small snapshot.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
}
_LARGE: Final = {
    # Adaptive execution merges small partitions and splits large ones.
    "spark.sql.shuffle.partitions": "64",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.driver.memory": "4g",
}


def application(name: str) -> Path:
    """Return the file of a Spark application of this package, such as `evaluate_rules`."""
    return Path(__file__).with_name("applications") / f"{name}.py"


def submit_conf(messages: int, archive: Path = CLASS_ARCHIVE) -> dict[str, str]:
    """Return Spark's configuration for this number of messages."""
    large = messages >= LARGE_FROM
    return {
        **_ALWAYS,
        **(_LARGE if large else _SMALL),
        "spark.driver.extraJavaOptions": _java_options(archive, large=large),
    }


def templated_conf(messages: str) -> dict[str, str]:
    """Return the configuration as Airflow templates, for a number that the task knows at run time.

    `messages` is a template expression for the number. The DAG needs the macro `submit_conf`.
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
    """Return the environment in which `spark-submit` uses this Python's PySpark."""
    pyspark = find_spec("pyspark")
    places = pyspark.submodule_search_locations if pyspark else None
    return {
        "PYSPARK_PYTHON": sys.executable,
        **({"SPARK_HOME": places[0]} if places else {}),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # PySpark looks at pandas, which is here through Airflow; the evaluation does not use it.
        "PYTHONWARNINGS": "ignore:PySpark does not yet fully support pandas:FutureWarning",
    }


def check_pyspark(versions: Callable[[str], str] = version) -> None:
    """Raise ExecutionError if another version of pyspark-client has written over PySpark's files.

    The Spark provider needs pyspark-client, which is a part of PySpark in the same directory.
    """
    try:
        spark, client = versions("pyspark"), versions("pyspark-client")
    except PackageNotFoundError:
        return
    if spark != client:
        raise ExecutionError(
            "MQDLQ-534",
            f"pyspark-client {client} and pyspark {spark} are installed, and both write to the"
            " directory pyspark; remove one: `pip uninstall pyspark-client`, then `pip install"
            f" --force-reinstall --no-deps pyspark=={spark}`",
        )


def submit(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Run `spark-submit` with its output on standard error, and return its exit code."""
    check_pyspark()
    return subprocess.run(  # noqa: S603 (our own command)
        list(command), env={**environment, **submit_environment()}, stdout=2, check=False
    ).returncode


def _java_options(archive: Path, *, large: bool) -> str:
    if large:
        return "-XX:+UseParallelGC"
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
    if archive.is_file():
        # An archive of another JVM or another Spark is passed over; -Xlog keeps it from saying so.
        options += [f"-XX:SharedArchiveFile={shlex.quote(str(archive))}", "-Xlog:disable"]
    return " ".join(options)
