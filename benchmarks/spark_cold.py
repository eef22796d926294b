"""Measure a cold job on a small snapshot, and a job that only reads it.

Both are submitted like the DAG's jobs, with a new JVM and the configuration for small snapshots.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from mqdlq.evaluation.spark_conf import submit_command, submit_environment

MESSAGES = 1000
_READ = """\
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.appName("read").getOrCreate()
columns = sys.argv[2].split(",")
print(len(spark.read.parquet(sys.argv[1]).select(*columns).collect()))
"""


def jobs(snapshot: str, columns: list[str], out: Path) -> dict[str, list[str]]:
    """Return the commands of both jobs."""
    read = out / "read.py"
    read.write_text(_READ, encoding="utf-8")
    evaluate = Path(__file__).resolve().parents[1] / "spark" / "evaluate_rules.py"
    plan = ["--snapshot", snapshot, "--plan", str(out / "cold")]
    master = "local[2]"
    return {
        "ours": submit_command(evaluate, plan, messages=MESSAGES, master=master),
        "read": submit_command(
            read, [f"{snapshot}/headers", ",".join(columns)], messages=MESSAGES, master=master
        ),
    }


def run(command: list[str], out: Path) -> tuple[float, float]:
    """Run a job, and return its wall-clock and processor seconds."""
    shutil.rmtree(out / "cold", ignore_errors=True)
    before, started = _used(), time.perf_counter()
    ended = subprocess.run(  # noqa: S603 (our own command)
        command,
        env={**os.environ, **submit_environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        sys.exit(ended.stderr)
    return time.perf_counter() - started, _used() - before


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
