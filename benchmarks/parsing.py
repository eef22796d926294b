"""Parsing: processor time of the DAG file, and of the start of a task, for one and many handlers.

Each measurement is a process of its own, as the dag-processor and the workers have one for each,
with Airflow and mqdlq imported before the clock starts. `first` is a parse that finds nothing kept
by an earlier one, `again` one that finds all files unchanged, `task` the start of a task. `floor`
is a file with as many DAGs of seven empty tasks, written by hand. `serialized` is what Airflow does
with the DAGs after each parse. MQDLQ_BENCH_HANDLERS sets the number, 100 by default, 1000 for
figures to record.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.handlers import TABLE, handler
from mqdlq import directories

HANDLERS = int(os.environ.get("MQDLQ_BENCH_HANDLERS", "100"))
TIMES = 3
SETTLED_S = 4  # files changed just now are read each time
DAGS: Final = directories.PROJECT / "dags" / "mq_dlq.py"
PROGRAM = """
import runpy, sys, time
import mqdlq.airflow.dags, mqdlq.airflow.operators.submit
from airflow.serialization.serialized_objects import DagSerialization
began = time.process_time()
found = runpy.run_path(sys.argv[1])
parsed = time.process_time()
dags = [dag for name, dag in found.items() if name.startswith("mq_dlq_")]
assert len(dags) == int(sys.argv[2]), len(dags)
for dag in dags:
    DagSerialization.to_dict(dag)
print(parsed - began, time.process_time() - parsed)
"""
FLOOR = """
from airflow.sdk import DAG, BaseOperator, chain

class Empty(BaseOperator):
    def execute(self, context):
        pass

for number in range({number}):
    with DAG(f"mq_dlq_{{number}}", schedule=None, auto_register=False) as dag:
        chain(*(Empty(task_id=f"task_{{one}}") for one in range(7)))
    globals()[dag.dag_id] = dag
del dag
"""


def measure() -> dict[str, Any]:
    """Return milliseconds of processor time for one and for many handlers, and their ratios."""
    one, many = _of(1), _of(HANDLERS)
    return {
        "handlers": HANDLERS,
        "one_ms": one,
        "many_ms": many,
        "ratio_of_parses": many["again"] / one["again"],
        "ratio_of_task_starts": many["task"] / one["task"],
        "ratio_to_floor": many["again"] / many["floor"],
    }


def _of(number: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="mqdlq-parsing-") as directory:
        place = Path(directory)
        rules = place / "rules"
        rules.mkdir()
        for one in map(handler, range(number)):
            (rules / f"{one}.rules").write_text(TABLE)
            (rules / f"{one}.yaml").write_text(f"connection: qm1\nrules: {one}.rules\n")
        time.sleep(SETTLED_S)
        floor = place / "floor.py"
        floor.write_text(FLOOR.format(number=number))
        of_task = {
            "_AIRFLOW_PARSING_CONTEXT_DAG_ID": f"mq_dlq_{handler(0)}",
            "_AIRFLOW_PARSING_CONTEXT_TASK_ID": "sense",
        }
        first = _parse(place, DAGS, number)[0]
        again = [_parse(place, DAGS, number) for _ in range(TIMES)]
        return {
            "first": first,
            "again": min(parsed for parsed, _ in again),
            "serialized": min(serialized for _, serialized in again),
            "task": min(_parse(place, DAGS, 1, **of_task)[0] for _ in range(TIMES)),
            "floor": min(_parse(place, floor, number)[0] for _ in range(TIMES)),
        }


def _parse(place: Path, file: Path, number: int, **context: str) -> tuple[float, float]:
    """Return the milliseconds of a parse, and of serializing what it has found."""
    done = subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(file), str(number)],
        env={
            **os.environ,
            "MQDLQ_HOME": str(place),
            "MQDLQ_RULES_DIR": str(place / "rules"),
            "AIRFLOW_HOME": str(place),
            **context,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    parsed, serialized = map(float, done.stdout.split()[-2:])
    return parsed * 1000, serialized * 1000


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
