"""Read the JSON log of ``airflow dags test``: the lines a person sees, and a log for each task.

Airflow writes all of it to its standard output. Its UI looks for a file for each attempt of a task.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final

from jinja2 import Template

from mqdlq import directories

PLACE: Final = ("base_log_folder", "log_filename_template")
"""Airflow's options in section `logging` that say where the log of an attempt is."""
FEW: Final = 3
INDENT: Final = " " * 10

_START = re.compile(r"\[DAG TEST\] starting task_id=(?P<task>[\w.-]+) map_index=(?P<index>-?\d+)")
_END = "[DAG TEST] end task "
_NUMBER = re.compile(r"\w*\d\w*")
_ERROR = {"exc_type", "exc_value", "frames"}
_SHOWN_ELSEWHERE = {"timestamp", "level", "logger", "event", "exception", "filename", "lineno"}


class Follower:
    """Follows one DAG run by the log of ``airflow dags test``.

    `tell` is given each line for the person as it comes up. In the end `run_id` is the DAG run's
    id or "", `report` the report's lines, `failures` what failed tasks gave as their reason, and
    `follower` the parameters of the run that is to follow as JSON, or "".
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.run_id = ""
        self.report: list[str] = []
        self.failures: list[str] = []
        self.follower = ""
        self._tell = tell
        self._shape = ""
        self._alike = 0

    def follow(self, line: str) -> str:
        """Take in one line; return it as it is to stand in a log for people."""
        entry = _entry(line)
        if entry is None:
            return line
        event, logger = str(entry["event"]), entry.get("logger")
        if start := _START.match(event):
            self._fold("")
            self.report = []  # of an earlier attempt
            self._tell(f"{entry['timestamp'][11:19]}  {start['task']}")
        elif logger == "mqdlq.progress":
            self._tell_fact(event)
        elif logger == "mqdlq.reading.report":
            self.report.append(event)
        elif logger == "mqdlq.following":
            self.follower = event
        elif event == "creating dag run":
            self.run_id = entry.get("run_id", "")
        elif entry.get("exception") and entry["level"] in {"error", "critical"}:
            self.failures.append(entry["exception"][0]["exc_value"])
            self._tell_fact(f"failed: {self.failures[-1]}")
        return "\n".join(_readable(entry))

    def _tell_fact(self, text: str) -> None:
        """Tell a fact; of many that differ in numbers only, the first few and how many more."""
        self._fold(_NUMBER.sub("#", text))
        if self._alike <= FEW:
            for line in text.splitlines():
                self._tell(f"{INDENT}{line}")

    def _fold(self, shape: str) -> None:
        if shape == self._shape:
            self._alike += 1
            return
        if self._alike > FEW:
            self._tell(f"{INDENT}... and {self._alike - FEW} more like these")
        self._shape, self._alike = shape, 1


class TaskLogs:
    """Writes the part of each task to the file where Airflow's UI looks for it."""

    def __init__(self, dag_id: str) -> None:
        self._dag_id = dag_id
        self._run_id = ""
        self._place: dict[str, str] = {}  # until the lines say where, nothing is written
        self._attempts: Counter[str] = Counter()
        self._file: IO[str] | None = None
        self._timestamp = ""

    def follow(self, line: str) -> None:
        entry = _entry(line)
        if entry is None:
            found = _object(line) or {}
            self._place = self._place or (found if found.keys() == set(PLACE) else {})
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
        if event.startswith(_END):
            self.close()

    def close(self) -> None:
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


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _entry(line: str) -> dict[str, Any] | None:
    """Return a line of Airflow's JSON log as its fields, None for any other line.

    Others may write JSON, too, with the same names and other types.
    """
    entry = _object(line) or {}
    texts = [entry.get(name) for name in ("timestamp", "level", "event")]
    errors = entry.get("exception") or []
    is_airflows = (
        all(isinstance(text, str) for text in (*texts, entry.get("run_id", "")))
        and isinstance(errors, list)
        and all(isinstance(error, dict) and error.keys() >= _ERROR for error in errors)
    )
    return entry if is_airflows else None


def _readable(entry: dict[str, Any]) -> Iterator[str]:
    others = (f" {key}={value}" for key, value in entry.items() if key not in _SHOWN_ELSEWHERE)
    yield (
        f"{entry['timestamp']} {entry.get('level', ''):8}{entry.get('logger', '')}:"
        f" {entry['event']}{''.join(others)}"
    )
    for error in entry.get("exception") or ():
        yield f"  {error['exc_type']}: {error['exc_value']}"
        for frame in error["frames"]:
            yield f"    {frame['filename']}:{frame['lineno']} in {frame['name']}"
