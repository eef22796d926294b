"""Run a handler's DAG in the foreground, as `mqdlq run` and `mqdlq restore run` do.

No handler may be called `restore`: that is the DAG which restores from the archive, with its own
params.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click

from mqdlq import directories
from mqdlq.airflow import params
from mqdlq.airflow.params import fault, named_messages
from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.errors import MqDlqError
from mqdlq.handlers import load_handler
from mqdlq.local.dags_test import REFUSED
from mqdlq.local.environment import environment, migrate
from mqdlq.local.run_logs import Follower, TaskLogs
from mqdlq.stages.run_options import RunOptions, find_missing_reason, read_rules

TAIL: Final = 30  # lines of the log that are shown where no task said why it failed
USAGE: Final = 2
TERMINATED: Final = 128 + signal.SIGTERM


def run(handler: str, conf: Mapping[str, Any]) -> int:
    """Run the handler's DAG, and again while its WAIT continues; return the exit code.

    Each run shows how it goes, and its report. The code is 0 for success, 1 for failure, 2 for
    invalid parameters, before anything starts.
    """
    if wrong := why_refused(handler, conf):
        click.echo(f"--conf: {wrong}", err=True)
        return USAGE
    os.umask(0o077)  # metadata, logs and all that a run writes are their owner's alone
    signal.signal(signal.SIGTERM, _terminate)
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
    follower, task_logs = Follower(click.echo), TaskLogs(f"mq_dlq_{handler}")
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
            task_logs.follow(line.rstrip("\n"))
            tail.append(readable)
            file.write(readable + "\n")
            file.flush()
            if unnamed and follower.run_id:
                log = log.rename(logs / f"{ledger_run_id(handler, follower.run_id)}.log")
                unnamed = False
    task_logs.close()
    if airflow.returncode == REFUSED:
        log.unlink()
        click.echo(tail[-1], err=True)
        return USAGE, ""
    _conclude(follower, airflow.returncode, tail, log)
    return int(bool(airflow.returncode)), follower.follower


def _conclude(follower: Follower, returncode: int, tail: deque[str], log: Path) -> None:
    if returncode and not follower.failures:
        click.echo("\n".join(tail))
    for text in follower.report:
        click.echo(f"\n{text}" if "\n" in text else text)
    click.echo(f"{'The run failed. ' if returncode else ''}Log: {log}")


def _terminate(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise SystemExit(TERMINATED)


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
        dry_run=bool(conf.get("dry_run")),
        why=(conf.get("why") or "").strip(),
    )
    try:
        if missing := find_missing_reason(load_handler(handler), given):
            return missing
        if given.rules or given.action:
            read_rules(load_handler(handler), given)
    except MqDlqError as error:
        return str(error)
    return ""
