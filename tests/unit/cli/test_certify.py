"""`mqdlq certify`: its report, its errors, and that nothing else on the queue manager changes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import embedded_mq
from mqdlq.cli import app
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.tools.certify.behaviours import BEHAVIOURS, KEPT, SCRATCH_QUEUES, TEMPORARY, body_of
from mqdlq.tools.certify.certification import observe_quiescing

CONNECTION = {"queue_manager": "QM1", "transport": "embedded", "client": "ibmmq"}
QUERIES = {
    "queue_manager": "SELECT * FROM queue_manager",
    "queue": "SELECT * FROM queue",
    "message": "SELECT * FROM message",
    "held": "SELECT * FROM held",
    "open_handle": "SELECT * FROM open_handle",
    "authority": "SELECT * FROM authority",
}
OTHERS = """\
DEFINE QLOCAL(DLQ)
ALTER QMGR DEADQ(DLQ)
DEFINE QLOCAL(MQDLQ.CERT.OTHER) DESCR('somebody else')
DEFINE QLOCAL(ORDERS) MAXDEPTH(7)
"""


@pytest.fixture(name="place", autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    connection = {"conn_type": "ibmmq", "extra": CONNECTION}
    monkeypatch.setenv("AIRFLOW_CONN_MQ_TEST", json.dumps(connection))
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", OTHERS)
    embedded_mq.install()
    import ibmmq

    queue_manager = ibmmq.connect("QM1")
    for queue in ("DLQ", "MQDLQ.CERT.OTHER", "ORDERS"):
        queue_manager.put1(queue, b"a customer's message")
    queue_manager.disconnect()
    yield tmp_path
    embedded_mq.faults.set("")


def content(place: Path) -> dict[str, list[Any]]:
    """Return the rows of all tables that hold definitions, messages and handles."""
    with closing(
        sqlite3.connect(place / "queue_managers" / "QM1" / "queue_manager.sqlite")
    ) as database:
        return {name: database.execute(query).fetchall() for name, query in QUERIES.items()}


def call(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["certify", "mq_test", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def define_scratch_queues() -> None:
    commands = call("--mqsc").split("* The authorities")[0]
    embedded_mq.run_mqsc("QM1", commands)


@pytest.mark.slow
def test_certify_reports_each_behaviour_and_leaves_the_queue_manager_as_it_was(
    place: Path,
) -> None:
    before = content(place)

    text = call("--record", str(place / "record.json"))

    assert content(place) == before
    assert text.splitlines()[0].startswith(
        "queue manager QM1, command level 940 on UNIX or Linux, through ibmmq "
    )
    for behaviour in BEHAVIOURS:
        assert f"agrees   {behaviour.statement}" in text
    assert f"{len(BEHAVIOURS)} agree, 0 differ, 1 skipped." in text
    written = (place / "record.json").read_text()
    record = json.loads(written)
    assert (record["agrees"], record["differs"], record["skipped"]) == (len(BEHAVIOURS), 0, 1)
    assert {each["result"] for each in record["behaviours"]} == {"agrees", "skipped"}
    for secret in ("customer", body_of(1).decode()):
        assert secret not in text + written


@pytest.mark.slow
def test_a_difference_is_explained_and_ends_with_exit_code_1(place: Path) -> None:
    before = content(place)
    embedded_mq.faults.set("exclusive-shared")

    waiting = ("--wait-for-quiesce", "0.1")
    text = call("--record", str(place / "record.json"), *waiting, code=1)

    embedded_mq.faults.set("")
    assert "waiting 0 s for the queue manager to be quiesced" in text
    assert content(place) == before
    assert (
        "differs  A queue that is open for exclusive input cannot be opened for input a second"
        " time.\n"
        "         expected: MQOPEN: MQRC_OBJECT_IN_USE (2042)\n"
        "         seen:     MQOPEN succeeds a second time\n"
        "         means:    two executors can act on one dead-letter queue at once: run only one,"
    ) in text
    written = (place / "record.json").read_text()
    (difference,) = [one for one in json.loads(written)["behaviours"] if one["result"] == "differs"]
    assert difference["name"] == "a_state_queue_has_one_executor"
    assert difference["seen"] == "MQOPEN succeeds a second time"
    assert not [name for name in ("QM1", "MQDLQ.CERT", "mq_test") if name in written]


@pytest.mark.slow
def test_scratch_queues_of_an_administrator_are_emptied_and_kept(place: Path) -> None:
    define_scratch_queues()
    before = content(place)

    call()

    assert content(place) == before
    assert {row[2] for row in descriptions()} == {KEPT}


def descriptions() -> list[tuple[str, ...]]:
    lines = embedded_mq.run_mqsc("QM1", "DISPLAY QLOCAL(MQDLQ.CERT.*) DESCR")
    found = [line.replace(")", "(").split("(") for line in lines]
    return [("", each[1], each[-2]) for each in found if "OTHER" not in each[1]]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_removes_its_queues(place: Path, number: signal.Signals) -> None:
    before = content(place)

    process = start_and_wait_for_findings()
    assert "[MQDLQ-954]" in call(code=2), "the run that goes on is left alone"
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 130, errors
    assert "interrupted; the scratch queues are removed" in errors
    assert content(place) == before


@pytest.mark.slow
def test_the_next_run_removes_the_queues_of_a_killed_run(place: Path) -> None:
    before = content(place)
    process = start_and_wait_for_findings()
    process.kill()
    process.communicate()
    assert {row[2] for row in descriptions()} == {TEMPORARY}

    call()

    assert content(place) == before


def start_and_wait_for_findings() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from mqdlq.cli import app; app()", "certify", "mq_test"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("agrees"):
            return process
    raise AssertionError(process.communicate())


@pytest.mark.parametrize("name", [queue.suffix for queue in SCRATCH_QUEUES])
def test_a_queue_of_somebody_else_is_refused_and_not_touched(place: Path, name: str) -> None:
    embedded_mq.run_mqsc("QM1", f"DEFINE QLOCAL(MQDLQ.CERT.{name}) DESCR('a payroll')")
    before = content(place)

    assert call(code=2).splitlines()[-1] == (
        f"mqdlq: queue MQDLQ.CERT.{name} exists, and its DESCR does not say that it is a scratch"
        " queue of mqdlq certify; give another --scratch-prefix, or define the queue with the"
        " commands of --mqsc [MQDLQ-952]"
    )
    assert content(place) == before


def test_a_wrong_attribute_of_a_scratch_queue_is_named(place: Path) -> None:
    define_scratch_queues()
    embedded_mq.run_mqsc("QM1", "ALTER QLOCAL(MQDLQ.CERT.FULL) MAXDEPTH(2)")
    before = content(place)

    assert call(code=2).splitlines()[-1] == (
        "mqdlq: scratch queue MQDLQ.CERT.FULL is not defined with MAXDEPTH(1); define it again"
        " with the commands of --mqsc, with REPLACE [MQDLQ-955]"
    )
    assert content(place) == before


def test_a_second_run_with_the_same_prefix_is_refused(place: Path) -> None:
    define_scratch_queues()
    before = content(place)
    import ibmmq

    holder = ibmmq.QueueManager(None)
    holder.connect_with_options("QM1", opts=ibmmq.CMQC.MQCNO_HANDLE_SHARE_BLOCK)
    lock = ibmmq.Queue(holder, "MQDLQ.CERT.LOCK", ibmmq.CMQC.MQOO_INPUT_EXCLUSIVE)

    assert call(code=2).splitlines()[-1] == (
        "mqdlq: another mqdlq certify uses the scratch queues MQDLQ.CERT.* (MQRC_OBJECT_IN_USE"
        " (2042)); wait for it, or give another --scratch-prefix [MQDLQ-954]"
    )
    lock.close()
    holder.disconnect()
    assert content(place) == before


@pytest.mark.parametrize(
    ("prefix", "advice"),
    [
        ("has blanks", "use 1 to 40 letters, digits and . _ / %, such as MQDLQ.CERT."),
        ("", "use 1 to 40 letters, digits and . _ / %, such as MQDLQ.CERT."),
        ("system.x", "names that begin with SYSTEM are IBM's, use a prefix such as MQDLQ.CERT."),
    ],
)
def test_an_invalid_prefix_is_refused(prefix: str, advice: str) -> None:
    assert call("--scratch-prefix", prefix, code=2) == (
        f"mqdlq: --scratch-prefix {prefix!r} is not valid; {advice} [MQDLQ-951]\n"
    )


@pytest.mark.slow
def test_a_user_who_may_not_define_queues_is_shown_the_commands(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the queues and authorities of --mqsc, the same user can certify everything."""
    connection = {"conn_type": "ibmmq", "login": "cert", "password": "x", "extra": CONNECTION}
    monkeypatch.setenv("AIRFLOW_CONN_MQ_TEST", json.dumps(connection))
    commands = call("--mqsc")
    authorities = commands[commands.index("* The authorities") :]
    embedded_mq.run_mqsc("QM1", authorities)
    before = content(place)

    text = call(code=2)

    assert "scratch queue MQDLQ.CERT.LOCK cannot be defined through the command server (" in text
    assert "MQRC_NOT_AUTHORIZED (2035)); let an administrator run these commands" in text
    assert commands in text
    assert content(place) == before

    define_scratch_queues()
    # Without +dsp nothing is inquired by PCF.
    assert f"{len(BEHAVIOURS) - 1} agree, 0 differ, 2 skipped." in call()


@pytest.mark.slow
def test_restoring_is_skipped_without_the_authority_to_set_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = {"conn_type": "ibmmq", "login": "cert", "password": "x", "extra": CONNECTION}
    monkeypatch.setenv("AIRFLOW_CONN_MQ_TEST", json.dumps(connection))
    commands = call("--mqsc")
    embedded_mq.run_mqsc("QM1", commands[: commands.index("* To restore")])

    text = call()

    assert text.count("MQPUT1: MQRC_NOT_AUTHORIZED (2035); see --mqsc") == 3
    assert f"{len(BEHAVIOURS) - 4} agree, 0 differ, 5 skipped." in text


def test_a_quiescing_queue_manager_is_observed_and_quiesced_by_nobody_else() -> None:
    settings = ConnectionSettings("QM1", transport="embedded", client="ibmmq")

    def nothing(_: float) -> None:
        assert embedded_mq.status("QM1") == "RUNNING"

    def quiesce(_: float) -> None:
        embedded_mq.quiesce("QM1")

    unwanted = observe_quiescing(lambda: connect(settings), 0, quiesce)
    missed = observe_quiescing(lambda: connect(settings), 2, nothing)
    observed = observe_quiescing(lambda: connect(settings), 2, quiesce)

    assert (unwanted.verdict, unwanted.remark) == ("skipped", "only with --wait-for-quiesce")
    assert (missed.verdict, missed.remark) == (
        "skipped",
        "the queue manager was not quiesced in 2 s",
    )
    assert (observed.verdict, observed.remark) == ("agrees", "MQRC_Q_MGR_QUIESCING (2161)")
    assert embedded_mq.status("QM1") == "ENDED"


def test_an_unknown_queue_manager_ends_with_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = CONNECTION | {"queue_manager": "QM2"}
    connection = {"conn_type": "ibmmq", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_MQ_TEST", json.dumps(connection))

    assert call(code=2) == (
        "mqdlq: MQCONN of queue manager QM2 failed: MQRC_Q_MGR_NAME_ERROR (2058) [MQDLQ-100]\n"
    )
