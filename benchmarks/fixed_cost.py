"""The fixed cost of a run: `mqdlq run` of ten messages, and an empty DAG run in the same way.

The floor is a DAG of seven tasks, six empty ones and a spark-submit of a program that only starts a
session, by Airflow's `dags test` with the environment and Spark's configuration of `mqdlq run`. Its
`bare_floor` is without the program's session: spark-submit, the JVM and Python alone. All ten
messages are delivered at once, so nothing waits for RETRYINT. Floor and product take turns; the
least processor time of each counts, with that of all descendants. The first run of each, which
prepares metadata and ledger, does not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import Any

import embedded_mq
from mqdlq.headers import DeadLetterHeader
from mqdlq.local.environment import environment, migrate
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect

RUNS = int(os.environ.get("MQDLQ_BENCH_RUNS", "3"))
MESSAGES = 10
DEFINITIONS = "DEFINE QLOCAL(DLQ)\nDEFINE QLOCAL(PAYMENTS)\nDEFINE QLOCAL(MQDLQ.STATE)"
TABLE = "INPUTQ(DLQ) RETRYINT(5)\nACTION(RETRY)\n"
EMPTY_DAG = """
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, BaseOperator, chain

from mqdlq.evaluation.spark_conf import submit_conf, submit_environment

class Empty(BaseOperator):
    def execute(self, context):
        pass

for name in ("floor", "bare_floor"):
    with DAG(name, schedule=None) as dag:
        tasks = [Empty(task_id=f"task_{number}") for number in range(6)]
        tasks.insert(2, SparkSubmitOperator(
            task_id="submit", application=__file__.replace("empty.py", f"{name}.txt.py"),
            conf=submit_conf(0), env_vars=submit_environment(),
        ))
        chain(*tasks)
    globals()[name] = dag
"""
SESSION = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().stop()\n"


def measure() -> dict[str, Any]:
    """Return the processor and the elapsed seconds of each, and the ratios of processor time."""
    with tempfile.TemporaryDirectory(prefix="mqdlq-fixed-") as directory:
        place = Path(directory)
        kept, own = dict(os.environ), _prepare(place)
        os.environ.clear()
        os.environ |= own
        try:
            migrate()
            best: dict[str, tuple[float, float]] = {}
            for number in range(RUNS + 1):
                for name in ("product", "floor", "bare_floor"):
                    used = _product() if name == "product" else _floor(place, name)
                    if number:
                        best[name] = min(best.get(name, used), used)
                        print(name, used, flush=True)
        finally:
            os.environ.clear()
            os.environ |= kept
    return {
        **{name: dict(zip(("processor_s", "s"), used, strict=True)) for name, used in best.items()},
        "ratio": best["product"][0] / best["floor"][0],
        "ratio_to_bare_floor": best["product"][0] / best["bare_floor"][0],
    }


def _prepare(place: Path) -> dict[str, str]:
    """Create a queue manager, a handler and the floor's DAG; return the environment for all."""
    (place / "rules").mkdir()
    (place / "rules" / "ten.rules").write_text(TABLE)
    (place / "rules" / "ten.yaml").write_text("connection: mq_ten\nrules: ten.rules\n")
    (place / "dags").mkdir()
    (place / "dags" / "empty.py").write_text(EMPTY_DAG)
    (place / "dags" / "floor.txt.py").write_text(SESSION)
    (place / "dags" / "bare_floor.txt.py").write_text("")
    os.environ["MQDLQ_HOME"] = str(place)
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", DEFINITIONS)
    extra = {"queue_manager": "QM1", "transport": "embedded"}
    return {
        **os.environ,
        "MQDLQ_RULES_DIR": str(place / "rules"),
        "AIRFLOW_CONN_MQ_TEN": json.dumps({"conn_type": "ibmmq", "extra": extra}),
    }


def put(queue_manager: QueueManager, messages: int) -> None:
    """Put dead letters whose destination has room."""
    header = DeadLetterHeader(
        2053, "PAYMENTS", "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
    )
    body = header.encode(encoding=546, ccsid=819) + b"a dead letter"
    module = queue_manager.client.module
    for _ in range(messages):
        descriptor = module.MD(Format=b"MQDEAD  ", Encoding=546, CodedCharSetId=819)
        queue_manager.handle.put1(b"DLQ", body, descriptor)


def _product() -> tuple[float, float]:
    with connect(ConnectionSettings("QM1", transport="embedded")) as queue_manager:
        put(queue_manager, MESSAGES)
    return _timed([str(Path(sys.executable).with_name("mqdlq")), "run", "ten"], dict(os.environ))


def _floor(place: Path, name: str) -> tuple[float, float]:
    settings = {**environment(), "AIRFLOW__CORE__DAGS_FOLDER": str(place / "dags")}
    return _timed([sys.executable, "-m", "airflow", "dags", "test", name], settings)


def _timed(command: list[str], settings: dict[str, str]) -> tuple[float, float]:
    before, began = getrusage(RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(  # noqa: S603 (our own command)
        command,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stdout)
    after = getrusage(RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
