"""How the evaluation is submitted to Spark when the snapshot is small and the machine one."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

SUBMIT_CONF: Final = {
    # The driver and, should one ever start, a worker run with what is installed here.
    "spark.pyspark.python": sys.executable,
    "spark.pyspark.driver.python": sys.executable,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    # A small snapshot fits one task many times over; adaptive execution splits what does not.
    "spark.sql.shuffle.partitions": "4",
    # What Spark writes is the owner's alone.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    # A short job ends before the full compiler has paid for itself.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


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
