"""Run a handler's DAG in the foreground, as `mqdlq run` and `mqdlq restore run` do.

Airflow's `dags test` writes its log as JSON to standard output: what becomes of it are the lines
that a person sees, and a log for each attempt of a task, where Airflow's UI looks for it.

No handler may be called `restore`: that is the DAG which restores from the archive, with its own
params.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final

import click
from jinja2 import Template

from mqdlq import directories
from mqdlq.airflow import params
from mqdlq.airflow.params import fault, named_messages
from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.errors import MqDlqError
from mqdlq.handlers import load_handler
from mqdlq.local.dags_test import PLACE, REFUSED
from mqdlq.local.environment import environment, migrate
from mqdlq.reading.page_paths import dag_of
from mqdlq.stages.run_options import RunOptions, find_missing_reason, read_condition, read_rules

TAIL: Final = 30  # lines of the log that are shown where no task said why it failed
USAGE: Final = 2
TERMINATED: Final = 128 + signal.SIGTERM
FEW: Final = 3
INDENT: Final = " " * 10

_START = re.compile(r"\[DAG TEST\] starting task_id=(?P<task>[\w.-]+) map_index=(?P<index>-?\d+)")
_END = "[DAG TEST] end task "
_NUMBER = re.compile(r"\w*\d\w*")
_ERROR = {"exc_type", "exc_value", "frames"}
_SHOWN_ELSEWHERE = {"timestamp", "level", "logger", "event", "exception", "filename", "lineno"}


def run(handler: str, conf: Mapping[str, Any]) -> int:
    """Run the handler's DAG, and again while its WAIT continues; return the exit code.

    Each run shows how it goes, and its report. The code is 0 for success, 1 for failure, 2 for
    invalid parameters, before anything starts.
    """
    if wrong := why_refused(handler, conf):
        click.echo(f"--conf: {wrong}", err=True)
        return USAGE
    os.umask(0o077)  # metadata, logs and all that a run writes are their owner's alone
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    migrate()
    try:
        code, follower = _run_once(handler, json.dumps(conf))
        while follower and not code:
            click.echo(
                "\nWAIT continues: the next run waits for messages that arrive after this one"
            )
            code, follower = _run_once(handler, follower)
    except KeyboardInterrupt:
        click.echo("interrupted; what was under way is settled by the next run")
        return 128 + signal.SIGINT
    return code


def _run_once(handler: str, conf: str) -> tuple[int, str]:
    """Run the DAG once; return the exit code, and the parameters of the run to follow."""
    follower = Follower(dag_of(handler), click.echo)
    logs = directories.home() / "logs"
    directories.make_private_directory(logs)
    log, unnamed = logs / f"{handler}-{os.getpid()}.log", True  # until Airflow gives the run an id
    tail: deque[str] = deque(maxlen=TAIL)
    command = [sys.executable, "-m", "mqdlq.local.dags_test", handler, conf]
    with (
        log.open("w", encoding="utf-8", errors="backslashreplace") as file,
        subprocess.Popen(  # noqa: S603 (this very Python, arguments of our own)
            command,
            env={**environment(), "AIRFLOW__LOGGING__JSON_LOGS": "True"},
            stdin=subprocess.PIPE,  # closed with this process, it ends the other one
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",  # a library, or Java, may write in any encoding
        ) as airflow,
    ):
        for line in airflow.stdout or ():
            readable = follower.follow(line.rstrip("\n"))
            tail.append(readable)
            file.write(readable + "\n")
            file.flush()
            if unnamed and follower.run_id:
                log = log.rename(logs / f"{ledger_run_id(handler, follower.run_id)}.log")
                unnamed = False
    follower.close()
    if airflow.returncode == REFUSED:
        log.unlink()
        click.echo(tail[-1], err=True)
        return USAGE, ""
    failed = bool(airflow.returncode)
    if failed and not follower.failures:
        click.echo("\n".join(tail))
    for text in follower.report:
        click.echo(f"\n{text}" if "\n" in text else text)
    click.echo(f"{'The run failed. ' if failed else ''}Log: {log}")
    return int(failed), follower.follower


def why_refused(handler: str, conf: Mapping[str, Any]) -> str:
    """Return what is wrong with a run's parameters before anything starts, or "".

    The handler's own rules are left to the run, which records and reports why it could not begin.
    """
    if handler == "restore":
        return fault(conf, params.schemas())
    if wrong := fault(conf):
        return wrong
    if conf.get("repair") and not conf.get("dry_run"):
        return (
            "a repair needs an approval, which nobody can give to a run in the foreground; start it"
            " in Airflow, where a person can approve its plan, or make a dry run [MQDLQ-526]"
        )
    keys = named_messages(conf.get("message_keys"))
    given = RunOptions(
        rules=conf.get("rules"),
        action=conf.get("action"),
        message_keys=keys,
        where=(conf.get("where") or "").strip(),
        as_of=conf.get("as_of") or "",
        dry_run=bool(conf.get("dry_run")),
        why=(conf.get("why") or "").strip(),
    )
    try:
        if missing := find_missing_reason(load_handler(handler), given):
            return missing
        read_condition(given)
        if given.rules or given.action:
            read_rules(load_handler(handler), given)
    except MqDlqError as error:
        return str(error)
    return ""


class Follower:
    """Follows one DAG run by the log of ``airflow dags test``.

    `tell` is given each line for the person as it comes up. The part of each attempt of a task goes
    to the file where Airflow's UI looks for it. In the end `run_id` is the DAG run's id or "",
    `report` the report's lines, `failures` what failed tasks gave as their reason, and `follower`
    the parameters of the run that is to follow as JSON, or "".
    """

    def __init__(self, dag_id: str, tell: Callable[[str], None]) -> None:
        self.run_id = ""
        self.report: list[str] = []
        self.failures: list[str] = []
        self.follower = ""
        self._dag_id = dag_id
        self._tell = tell
        self._shape = ""
        self._alike = 0
        self._place: dict[str, str] = {}  # until the lines say where, no file is written
        self._attempts: Counter[str] = Counter()
        self._file: IO[str] | None = None
        self._timestamp = ""

    def follow(self, line: str) -> str:
        """Take in one line; return it as it is to stand in a log for people."""
        entry = _entry(line)
        if entry is None:
            found = _object(line) or {}
            self._place = self._place or (found if found.keys() == set(PLACE) else {})
            if self._timestamp:  # of a library that writes to standard output itself
                self._write({"timestamp": self._timestamp, "level": "info", "event": line})
            return line
        event, self._timestamp = str(entry["event"]), entry["timestamp"]
        if start := _START.match(event):
            self._fold("")
            self.report = []  # of an earlier attempt
            self._tell(f"{self._timestamp[11:19]}  {start['task']}")
            self._open(start["task"], int(start["index"]))
        else:
            self._take(entry, event)
        readable = "\n".join(_readable(entry))
        if "exception" in entry:
            entry["error_detail"] = entry.pop("exception")  # as Airflow's tasks write it
        self._write(entry)
        if event.startswith(_END):
            self.close()
        return readable

    def _take(self, entry: dict[str, Any], event: str) -> None:
        logger = entry.get("logger")
        if logger == "mqdlq.progress":
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

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _open(self, task_id: str, map_index: int) -> None:
        self.close()
        self._attempts[task_id] += 1
        if self._place:
            ti = SimpleNamespace(
                dag_id=self._dag_id,
                run_id=self.run_id,
                task_id=task_id,
                map_index=map_index,
                try_number=self._attempts[task_id],
            )
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
