"""Write the log of each task of a run in the foreground where Airflow's UI looks for it.

``airflow dags test`` writes all logs to its standard output and none to a file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final

from jinja2 import Template

from mqdlq import directories
from mqdlq.local.log_lines import entry_of

PLACE: Final = ("base_log_folder", "log_filename_template")
"""Airflow's options in section `logging` that say where the log of an attempt is."""

_START = re.compile(r"\[DAG TEST\] starting task_id=(?P<task>[\w.-]+) map_index=(?P<index>-?\d+)")
_END = re.compile(r"\[DAG TEST\] end task ")


class TaskLogs:
    """Takes the lines of ``mqdlq.local.dags_test`` and writes each task's part to a file."""

    def __init__(self, dag_id: str) -> None:
        """Write nothing until the lines say where to."""
        self._dag_id = dag_id
        self._run_id = ""
        self._place: dict[str, str] = {}
        self._attempts: Counter[str] = Counter()
        self._file: IO[str] | None = None
        self._timestamp = ""

    def follow(self, line: str) -> None:
        """Take in one line of the run's output."""
        entry = entry_of(line)
        if entry is None:
            self._place = self._place or _place(line)
            if self._timestamp:  # of a library that writes to standard output itself
                self._write({"timestamp": self._timestamp, "level": "info", "event": line})
            return
        event, self._timestamp = str(entry["event"]), entry["timestamp"]
        self._run_id = self._run_id or entry.get("run_id", "")
        if start := _START.match(event):
            self._open(start["task"], int(start["index"]))
        if "exception" in entry:
            entry["error_detail"] = entry.pop("exception")  # as Airflow's tasks write it
        self._write(entry)
        if _END.match(event):
            self.close()

    def close(self) -> None:
        """End the file of the task that was under way."""
        if self._file:
            self._file.close()
            self._file = None

    def _open(self, task_id: str, map_index: int) -> None:
        self.close()
        self._attempts[task_id] += 1
        ti = SimpleNamespace(
            dag_id=self._dag_id,
            run_id=self._run_id,
            task_id=task_id,
            map_index=map_index,
            try_number=self._attempts[task_id],
        )
        if self._place:
            name = Template(self._place["log_filename_template"]).render(ti=ti)
            file = Path(self._place["base_log_folder"]) / name
            directories.make_private_directory(file.parent)
            self._file = file.open("a", encoding="utf-8")

    def _write(self, entry: dict[str, Any]) -> None:
        if self._file:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()


def _place(line: str) -> dict[str, str]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and found.keys() == set(PLACE) else {}
