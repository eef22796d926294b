"""The log of each task of a run in the foreground, as the file that Airflow's UI reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mqdlq.local.foreground import Follower

TEMPLATE = (
    "dag_id={{ ti.dag_id }}/run_id={{ ti.run_id }}/task_id={{ ti.task_id }}"
    "/attempt={{ try_number|default(ti.try_number) }}.log"
)

ERROR = {"exc_type": "QueueManagerError", "exc_value": "MQGET of queue DLQ failed", "frames": []}


def entry(event: str, **more: Any) -> str:
    return json.dumps(
        {"timestamp": "2026-11-21T02:49:22Z", "level": "info", "event": event, **more}
    )


def start(task: str) -> str:
    return entry(f"[DAG TEST] starting task_id={task} map_index=-1")


def end(task: str) -> str:
    return entry(f"[DAG TEST] end task task_id={task} map_index=-1")


def test_the_log_of_a_task_attempt_has_only_its_own_lines(tmp_path: Path) -> None:
    logs = Follower("mq_dlq_demo", print)
    for line in (
        json.dumps({"base_log_folder": str(tmp_path), "log_filename_template": TEMPLATE}),
        entry("creating dag run", run_id="manual__1"),
        start("sense"),
        entry("71 messages on DLQ of QM1", logger="mqdlq.progress"),
        end("sense"),
        entry("between two tasks"),
        start("execute"),
        entry("Task failed", level="error", exception=[ERROR]),
        end("execute"),
        start("execute"),
        "a library that writes to standard output itself",
        end("execute"),
    ):
        logs.follow(line)
    logs.close()

    folder = tmp_path / "dag_id=mq_dlq_demo" / "run_id=manual__1"
    written = {
        str(file.relative_to(folder)): [json.loads(line) for line in file.read_text().splitlines()]
        for file in folder.rglob("*.log")
    }
    assert sorted(written) == [
        "task_id=execute/attempt=1.log",
        "task_id=execute/attempt=2.log",
        "task_id=sense/attempt=1.log",
    ]
    assert written["task_id=sense/attempt=1.log"][1]["event"] == "71 messages on DLQ of QM1"
    assert len(written["task_id=sense/attempt=1.log"]) == 3
    # Airflow's tasks name it so, and its UI shows it.
    failed = written["task_id=execute/attempt=1.log"][1]
    assert failed["error_detail"] == [ERROR]
    assert "exception" not in failed
    assert written["task_id=execute/attempt=2.log"][1] == {
        "timestamp": "2026-11-21T02:49:22Z",
        "level": "info",
        "event": "a library that writes to standard output itself",
    }


def test_a_forged_log_line_writes_no_file_outside_the_logs(tmp_path: Path) -> None:
    logs = Follower("mq_dlq_demo", print)
    place = tmp_path / "logs"
    logs.follow(json.dumps({"base_log_folder": str(place), "log_filename_template": TEMPLATE}))
    for task in ("../../../../elsewhere", f"{tmp_path}/elsewhere"):
        logs.follow(start(task))
    logs.close()

    assert list(tmp_path.rglob("*.log")) == []
