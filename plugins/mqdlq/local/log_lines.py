"""Select the few lines of a run's JSON log that a person wants to see."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

FEW = 3
INDENT = " " * 10

_BORDER = re.compile(r"\[DAG TEST\] starting task_id=(?P<task>\S+)")
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
        entry = entry_of(line)
        if entry is None:
            return line
        event, logger = str(entry["event"]), entry.get("logger")
        if border := _BORDER.match(event):
            self._fold("")
            self.report = []  # of an earlier attempt
            self._tell(f"{entry['timestamp'][11:19]}  {border['task']}")
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


def entry_of(line: str) -> dict[str, Any] | None:
    """Return a line of Airflow's JSON log as its fields, None for any other line.

    Others may write JSON, too, with the same names and other types.
    """
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and _is_airflows(entry) else None


def _is_airflows(entry: dict[str, Any]) -> bool:
    texts = [entry.get(name) for name in ("timestamp", "level", "event")]
    errors = entry.get("exception") or []
    return (
        all(isinstance(text, str) for text in (*texts, entry.get("run_id", "")))
        and isinstance(errors, list)
        and all(isinstance(error, dict) and error.keys() >= _ERROR for error in errors)
    )


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
