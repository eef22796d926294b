"""Event: from a put on the dead-letter queue to the delivery, with `schedule: event`.

Airflow's services run as `make up` starts them, over a state directory and a port of their own. The
floor is a DAG of seven tasks, the third a spark-submit of a program that only starts a session, the
others empty. A person's asset event starts it, and its fifth task, as `execute` in a run, writes a
file. `product_s` is the time from the put of one message until it is on its destination, `floor_s`
that from the request for the event until the file is there, and `noticed_s` that from the put to
the event of the handler's trigger. Both take turns; each number is a median, and the first round
does not count. MQDLQ_BENCH_ROUNDS sets the number of rounds, 5 by default.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import embedded_mq
from benchmarks.fixed_cost import DEFINITIONS, SESSION, TABLE, put
from mqdlq import directories
from mqdlq.mqi.connect import ConnectionSettings, connect
from tests.e2e.running.services import ENDED, Airflow, airflow

ROUNDS = int(os.environ.get("MQDLQ_BENCH_ROUNDS", "5"))
LIMIT_S = 300
ARRIVALS = "mq_dlq_ten.arrivals"
FLOOR = "mq_dlq_floor"
EMPTY_DAG = """
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Asset, BaseOperator, chain

from mqdlq.evaluation.spark_conf import submit_conf, submit_environment

class Empty(BaseOperator):
    def execute(self, context):
        if self.task_id == "task_4":
            Path(__file__).with_name("acted").touch()

with DAG("mq_dlq_floor", schedule=[Asset("floor")]) as dag:
    tasks = [Empty(task_id=f"task_{number}") for number in (0, 1, 3, 4, 5, 6)]
    tasks.insert(2, SparkSubmitOperator(
        task_id="submit", application=__file__.replace("empty.py", "floor.txt.py"),
        conf=submit_conf(0), env_vars=submit_environment(),
    ))
    chain(*tasks)
"""


def measure() -> dict[str, Any]:
    """Return the medians of the seconds of each, and the ratio of product to floor."""
    with tempfile.TemporaryDirectory(prefix="mqdlq-events-") as name:
        directory = Path(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MQDLQ_HOME", name)
            # Without it each task compiles the package: nobody runs services so.
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            settings = _prepare(directory)
            with airflow(directory, **settings) as running:
                for handler in ("ten", "floor"):
                    running.wait_for_dag(handler)
                    running.pause(handler, paused=False)
                rounds = []
                for number in range(ROUNDS + 1):
                    rounds.append((*_product(running), _floor(running, directory)))
                    sys.stderr.write(f"events: round {number} {rounds[-1]}\n")
    product, noticed, floor = (median(each) for each in zip(*rounds[1:], strict=True))
    found = {"product_s": product, "noticed_s": noticed, "floor_s": floor}
    return {"rounds": ROUNDS, **found, "ratio": product / floor}


def _prepare(directory: Path) -> dict[str, str]:
    """Create a queue manager, a handler and the DAG files; return Airflow's settings."""
    for place in ("rules", "dags"):
        (directory / place).mkdir()
    (directory / "rules" / "ten.rules").write_text(TABLE)
    (directory / "rules" / "ten.yaml").write_text(
        "connection: mq_ten\nrules: ten.rules\nschedule: event\n"
    )
    dags = directory / "dags"
    shutil.copy(directories.PROJECT / "dags" / "mq_dlq.py", dags)
    (dags / "empty.py").write_text(EMPTY_DAG)
    (dags / "floor.txt.py").write_text(SESSION)
    (dags / ".airflowignore").write_text("floor.txt.py\n")
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", DEFINITIONS)
    extra = {"queue_manager": "QM1", "transport": "embedded"}
    return {
        "AIRFLOW_CONN_MQ_TEN": json.dumps({"conn_type": "ibmmq", "extra": extra}),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
    }


def _product(running: Airflow) -> tuple[float, float]:
    """Return the seconds from a put to the delivery, and to the event."""
    with connect(ConnectionSettings("QM1", transport="embedded")) as queue_manager:
        before = queue_manager.depth("PAYMENTS")
        began = time.time()
        put(queue_manager, 1)
        delivered = _wait(lambda: queue_manager.depth("PAYMENTS") > before)
    _wait_for_all(running, "ten")
    (asset,) = running.get(f"/assets?name_pattern={ARRIVALS}")["assets"]
    path = f"/assets/events?asset_id={asset['id']}&order_by=timestamp"
    stamps = [event["timestamp"] for event in running.get(path)["asset_events"]]
    noticed = min(at for at in map(_seconds, stamps) if at > began)
    return delivered - began, noticed - began


def _floor(running: Airflow, directory: Path) -> float:
    """Return the seconds from a request for an event to the end of the fifth task's work."""
    acted = directory / "dags" / "acted"
    acted.unlink(missing_ok=True)
    (asset,) = running.get("/assets?name_pattern=floor")["assets"]
    began = time.time()
    answer = running.call("POST", "/assets/events", asset_id=asset["id"])
    answer.raise_for_status()
    took = _wait(acted.exists) - began
    _wait_for_all(running, "floor")
    return took


def _wait(holds: Callable[[], bool]) -> float:
    """Return the time when something holds, looked at often."""
    deadline = time.time() + LIMIT_S
    while not holds():
        if time.time() > deadline:
            sys.exit(f"events: not within {LIMIT_S} s")
        time.sleep(0.05)
    return time.time()


def _wait_for_all(running: Airflow, handler: str) -> None:
    running.wait(lambda: all(run["state"] in ENDED for run in running.runs(handler)))


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
