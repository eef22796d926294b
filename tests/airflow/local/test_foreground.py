"""Real runs of a handler's DAG in the foreground, through Airflow, as `mqdlq run` makes them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import embedded_mq
from mqdlq.cli.commands import Command, load
from mqdlq.directories import account
from mqdlq.local.foreground import TERMINATED
from tests.support.world import World

MQDLQ = Path(sys.executable).with_name("mqdlq")
WATCHED = """
import subprocess, sys, threading
from mqdlq.local.parent_watch import end_with_parent
end_with_parent()
subprocess.Popen(["sleep", "600"])
sys.stdout.write("started\\n")
sys.stdout.flush()
threading.Event().wait()
"""


@dataclass
class Place:
    """A state directory, a rules directory and a queue manager QM1 with an empty queue DLQ."""

    directory: Path

    def environment(self) -> dict[str, str]:
        own = {"MQDLQ_HOME": str(self.directory), "MQDLQ_RULES_DIR": str(self.directory / "rules")}
        return {**os.environ, **own}

    def run(
        self, rules: str, conf: str = "{}", handler: str = "small", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        (self.directory / "rules" / "small.rules").write_text(rules)
        return subprocess.run(
            [MQDLQ, "run", handler, "--conf", conf],
            env={**self.environment(), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module", name="place")
def _place(tmp_path_factory: pytest.TempPathFactory, metadata: Callable[[Path], None]) -> Place:
    """Make one place for all runs."""
    place = Place(tmp_path_factory.mktemp("home"))
    metadata(place.directory / "airflow")
    (place.directory / "rules").mkdir()
    (place.directory / "rules" / "small.yaml").write_text(
        "connection: mq_demo\nrules: small.rules\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQDLQ_HOME", str(place.directory))
        embedded_mq.create("QM1")
        embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(DLQ)\nALTER QMGR DEADQ(DLQ)")
    return place


def test_a_lost_connection_fails_one_attempt_of_the_task_and_the_run_succeeds(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_HOME", str(place.directory))
    world = World(place.directory)
    world.mqsc("DEFINE QLOCAL(PAYMENTS) DEFPSIST(YES)\nDEFINE QLOCAL(MQDLQ.STATE) DEFPSIST(YES)")
    world.dead_letter(dest_q="PAYMENTS")

    done = place.run("WAIT(NO)\nACTION(RETRY)\n", MQDLQ_FAULTS="MQPUT1[PAYMENTS]:1:2009:before")

    assert done.returncode == 0, done.stdout
    shown = done.stdout.splitlines()
    failed = "failed: MQPUT1 of queue PAYMENTS failed: MQRC_CONNECTION_BROKEN (2009) [MQDLQ-100]"
    broken = shown.index(f"          {failed}")
    assert shown[broken + 1] == (
        "          attempt 1 of 4 failed; the next one begins in 20 s [MQDLQ-804]"
    )
    assert shown[broken + 2].endswith("  execute")
    assert world.depths("DLQ", "PAYMENTS") == (0, 1)
    # Airflow's UI shows each attempt's own log.
    (run,) = (place.directory / "airflow" / "logs").glob("dag_id=mq_dlq_small/run_id=*")
    first, second = sorted((run / "task_id=execute").iterdir())
    assert (first.name, second.name) == ("attempt=1.log", "attempt=2.log")
    assert "MQRC_CONNECTION_BROKEN (2009)" in first.read_text()
    assert "pass finished: 1 attempts" in second.read_text()
    # And everywhere it is the account of this process that has started the run.
    (recorded,) = rows(place.directory / "ledger.db", "SELECT started_by FROM runs")
    assert recorded == (f"{account()} from the command line",)
    query = "SELECT DISTINCT triggering_user_name FROM dag_run"
    assert rows(place.directory / "airflow" / "airflow.db", query) == [(account(),)]
    assert f", by {account()} from the command line" in " ".join(done.stdout.split())


@pytest.fixture(scope="module", name="empty")
def _empty(
    place: Place, tmp_path_factory: pytest.TempPathFactory
) -> subprocess.CompletedProcess[str]:
    """Run once over an empty queue, while something writes in another encoding."""
    directory = tmp_path_factory.mktemp("strange")
    (directory / "sitecustomize.py").write_text(STRANGE_OUTPUT)
    return place.run("WAIT(NO)\nACTION(IGNORE)\n", PYTHONPATH=str(directory))


def test_a_run_over_an_empty_queue_runs_only_the_report_and_succeeds(
    place: Place, empty: subprocess.CompletedProcess[str]
) -> None:
    done = empty

    assert done.returncode == 0, done.stdout
    assert "no messages on DLQ of QM1: nothing to do, the other tasks are skipped" in done.stdout
    assert "  snapshot" not in done.stdout
    assert "Queue empty, last checked " in done.stdout
    log = Path(done.stdout.rpartition("Log: ")[2].strip())
    assert log.parent == place.directory / "logs"
    assert "state=success" in log.read_text()


STRANGE_OUTPUT = """
import os, sys
if "mqdlq.local.dags_test" in sys.orig_argv:
    os.write(1, b"pas trouv\\xe9\\n")
    os.write(1, b'{"timestamp": "12:00", "level": "info", "event": "a file \\\\udce9"}\\n')
"""


@pytest.mark.long
def test_a_run_with_wait_is_followed_until_nothing_arrives(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_HOME", str(place.directory))
    world = World(place.directory)
    world.mqsc("DEFINE QLOCAL(LATER) DEFPSIST(YES)\nDEFINE QLOCAL(LATER.DLQ) DEFPSIST(YES)")
    world.mqsc("DEFINE QLOCAL(LATER.STATE) DEFPSIST(YES)")
    (place.directory / "rules" / "later.rules").write_text(
        "INPUTQ(LATER.DLQ) WAIT(12)\nACTION(FWD) FWDQ(LATER) HEADER(NO)\n"
    )
    (place.directory / "rules" / "later.yaml").write_text(
        "connection: mq_demo\nrules: later.rules\nstate_queue: LATER.STATE\n"
    )
    world.dead_letter(b"first", on="LATER.DLQ")
    lines = []
    with subprocess.Popen(
        [MQDLQ, "run", "later"],
        env=place.environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            lines.append(line)
            # After the first snapshot, so that it belongs to no run yet.
            if line.endswith("  report\n") and world.depths("LATER") == (1,):
                world.dead_letter(b"second", on="LATER.DLQ")

    said = "".join(lines)
    assert running.returncode == 0, said
    assert world.bodies("LATER") == [b"first", b"second"]
    goes_on = "WAIT continues: the next run waits for messages that arrive after this one"
    assert said.count(goes_on) == 2
    assert "no messages on LATER.DLQ of QM1: nothing to do" in said.rpartition(goes_on)[2]


def test_output_in_another_encoding_does_not_end_a_run(
    empty: subprocess.CompletedProcess[str],
) -> None:
    assert empty.returncode == 0, empty.stderr
    log = Path(empty.stdout.rpartition("Log: ")[2].strip()).read_text()
    assert "pas trouv\\xe9\n" in log
    assert "a file \\udce9\n" in log


@pytest.mark.long
def test_a_foreground_run_fails_at_once_if_the_queue_manager_is_not_available(place: Place) -> None:
    done = place.run("WAIT(NO)\nACTION(RETRY)\n", MQDLQ_FAULTS="MQCONNX:1+:2059:before")

    assert done.returncode == 1
    assert "failed: MQCONN of queue manager QM1 failed: MQRC_Q_MGR_NOT_AVAILABLE" in done.stdout
    assert "the next one begins" not in done.stdout


OPEN_ELSEWHERE = "MQOPEN of queue DLQ failed: MQRC_OBJECT_IN_USE (2042) [MQDLQ-100]"
INHIBITED = "MQGET (browse) of queue DLQ failed: MQRC_GET_INHIBITED (2016) [MQDLQ-100]"


@pytest.mark.long
def test_a_run_says_why_it_failed_and_that_nothing_was_touched(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_HOME", str(place.directory))
    world = World(place.directory)
    world.clear("DLQ")
    world.dead_letter(dest_q="PAYMENTS")
    world.mqsc("ALTER QLOCAL(DLQ) GET(DISABLED)")
    inhibited = place.run("WAIT(NO)\nACTION(RETRY)\n")
    world.mqsc("ALTER QLOCAL(DLQ) GET(ENABLED)")
    with world.connect() as other:
        held = other.open("DLQ", other.client.CMQC.MQOO_INPUT_EXCLUSIVE)
        in_use = place.run("WAIT(NO)\nACTION(RETRY)\n")
        other.close(held)
    world.clear("DLQ")

    for done, head in (
        (
            inhibited,
            (
                "The run ended at snapshot before it took a snapshot; nothing was touched."
                f" Why: stage snapshot failed: {INHIBITED}"
                " Next: ask who inhibited gets, then set GET(ENABLED);"
            ),
        ),
        (
            in_use,
            (
                "The run ended at execute: none of 1 message was acted on; nothing was touched."
                f" Why: stage execute failed: {OPEN_ELSEWHERE}"
                " Next: find it: DISPLAY QSTATUS;"
            ),
        ),
    ):
        assert done.returncode == 1
        assert f"{head} then clear the task, or run the handler again Run small-" in " ".join(
            done.stdout.split()
        )
        assert "add up" not in done.stdout
    database = place.directory / "airflow" / "airflow.db"
    query = "SELECT task_id FROM xcom WHERE key = 'failure' ORDER BY timestamp"
    assert rows(database, query)[-2:] == [("snapshot",), ("execute",)]


def test_a_bad_line_in_the_rules_fails_the_first_task_and_nothing_is_recorded(
    place: Place,
) -> None:
    done = place.run("ACTION(IGNOR)\n")

    assert done.returncode == 1
    assert f"failed: {place.directory}/rules/small.rules:1:" in done.stdout
    assert "The run failed at sense; nothing was touched." in done.stdout
    assert "Why: stage sense failed: /" in done.stdout.rpartition("FAILED")[2]
    assert "  snapshot" not in done.stdout


def test_a_parameter_of_the_wrong_type_is_refused_before_anything_starts(place: Place) -> None:
    done = place.run("WAIT(NO)\nACTION(IGNORE)\n", json.dumps({"dry_run": "perhaps"}))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("--conf: parameter dry_run: 'perhaps' is not of type 'boolean'; ")


KEY = "0" * 64


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        (
            {"action": "ACTION(RETRY)"},
            (
                "action needs message_keys or where, because it applies to some messages only; name"
                " the messages [MQDLQ-118]"
            ),
        ),
        (
            {"action": "DESTQ(A) ACTION(RETRY)", "message_keys": [KEY]},
            (
                "action must be one rule without patterns and without control data, such"
                " as ACTION(FWD) FWDQ(PARKED) [MQDLQ-119]"
            ),
        ),
        (
            {"action": "ACTION(FWD)", "message_keys": [KEY]},
            (
                "the parameter action:1:1: ACTION(FWD) needs FWDQ, the queue to forward to\n"
                "    ACTION(FWD)\n"
                "    ~~~~~^"
            ),
        ),
        (
            {
                "action": "ACTION(RETRY)",
                "message_keys": [KEY],
                "repair": {"coded_char_set_id": 1208},
                "why": "ticket 4711",
            },
            (
                "a repair needs an approval, which nobody can give to a run in the foreground;"
                " start it in Airflow, where a person can approve its plan, or make a dry run"
                " [MQDLQ-526]"
            ),
        ),
        (
            {"rules": "new.rules"},
            (
                "{rules}/new.rules: the rules table cannot be read: No such file or directory"
                " [MQDLQ-305]"
            ),
        ),
    ],
)
def test_an_invalid_action_or_a_missing_table_is_refused_before_anything_starts(
    place: Place, conf: dict[str, object], text: str
) -> None:
    done = place.run("WAIT(NO)\nACTION(IGNORE)\n", json.dumps(conf))

    said = text.replace("{rules}", f"{place.directory}/rules")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"--conf: {said}\n")


def test_an_undefined_connection_is_refused_before_a_run_is_created(place: Place) -> None:
    (place.directory / "rules" / "never.yaml").write_text("connection: mq_nowhere\nrules: none\n")

    done = place.run("WAIT(NO)\nACTION(IGNORE)\n", handler="never")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "mqdlq: connection 'mq_nowhere' is not defined in this Airflow, neither in the environment"
        " nor in its metadata database; define it, or run the command where it is defined"
        " [MQDLQ-124]\n"
    )
    assert_no_run_was_created(place, "mq_dlq_never")


def test_a_restoration_of_an_unknown_run_is_refused_before_a_run_is_created(place: Place) -> None:
    done = subprocess.run(
        [MQDLQ, "restore", "run", "small", "--run", "small-nope"],
        env=place.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "mqdlq: the archive has no copy by run small-nope of handler small; mqdlq restore list"
        " shows its copies [MQDLQ-704]\n"
    )
    assert_no_run_was_created(place, "mq_dlq_restore")


def assert_no_run_was_created(place: Place, dag_id: str) -> None:
    query = f"SELECT run_id FROM dag_run WHERE dag_id = '{dag_id}'"  # noqa: S608 (our own text)
    assert rows(place.directory / "airflow" / "airflow.db", query) == []
    assert not list((place.directory / "logs").glob(f"{dag_id.removeprefix('mq_dlq_')}-*.log"))


def children_of(pid: int) -> list[int]:
    listed = subprocess.check_output(["ps", "-A", "-o", "pid=,ppid="], text=True)  # noqa: S607
    pairs = [line.split() for line in listed.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def test_a_terminated_run_leaves_no_process_behind(place: Place) -> None:
    # With WAIT(YES) the run waits for a first message; the process is stopped once it says so.
    (place.directory / "rules" / "small.rules").write_text("WAIT(YES)\nACTION(IGNORE)\n")
    with subprocess.Popen(
        [MQDLQ, "run", "small"],
        env=place.environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        while "waiting without end" not in running.stdout.readline():
            assert running.poll() is None
        (child,) = children_of(running.pid)

        running.terminate()

        assert running.wait(timeout=10) == TERMINATED
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_a_watched_process_ends_with_its_children_when_its_parent_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WATCHED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as watched:
        assert watched.stdout is not None
        assert watched.stdin is not None
        assert watched.stdout.readline() == "started\n"

        watched.stdin.close()

        # The end of the output is the end of every process that had it open.
        assert watched.stdout.read() == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["small", "--conf", "[]"],
            (
                "--conf is not a JSON object; expected an object such"
                ' as {"dry_run": true} [MQDLQ-913]'
            ),
        ),
        (
            ["small", "--conf", "x"],
            ("--conf is not JSON: Expecting value: line 1 column 1 (char 0) [MQDLQ-912]"),
        ),
        (["large"], "RULES/large.yaml: no such handler; configured are: NAMES [MQDLQ-303]"),
    ],
)
def test_an_unknown_handler_or_invalid_conf_is_refused_in_one_line(
    place: Place, arguments: list[str], text: str
) -> None:
    app = load("run", Command("Run a handler.", "run:run"))

    refused = CliRunner().invoke(app, arguments, env=place.environment())

    rules = place.directory / "rules"
    configured = ", ".join(sorted(file.stem for file in rules.glob("*.yaml")))
    said = text.replace("RULES", str(rules)).replace("NAMES", configured)
    assert (refused.exit_code, refused.stderr) == (2, f"{said}\n")
