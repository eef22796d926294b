"""Test the commands `mqdlq qm …` with the arguments of the command line."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import embedded_mq
from embedded_mq_tests.builders import Application
from mqdlq.cli import app
from mqdlq.headers import DLH_LENGTH, DeadLetterHeader

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def qm(*arguments: str, given: str | bytes = "") -> Result:
    return CliRunner().invoke(app, ["qm", *arguments], input=given)


@pytest.fixture
def qm1(home: Path) -> None:
    definitions = home / "definitions.mqsc"
    definitions.write_text("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)\n")
    assert qm("create", "QM1", "--mqsc", str(definitions)).exit_code == 0


def test_create_prints_the_queue_manager_and_its_definitions(home: Path) -> None:
    result = qm("create", "QM1", "--mqsc", "-", given="DEFINE QLOCAL(A)")

    assert (result.exit_code, result.stdout) == (
        0,
        f"created queue manager QM1 in {home}/queue_managers/QM1\ndefined QLOCAL(A)\n",
    )


def test_create_can_make_a_queue_manager_that_checks_headers() -> None:
    assert qm("create", "QM3", "--check-headers").exit_code == 0
    assert qm("mqsc", "QM3", given="DISPLAY QMGR HDRCHECK").stdout == (
        "QMNAME(QM3) HDRCHECK(YES)\n"
    )


@pytest.mark.usefixtures("qm1")
def test_mqsc_reads_standard_input() -> None:
    assert qm("mqsc", "QM1", given="DISPLAY QLOCAL(A) CURDEPTH").stdout == (
        "QUEUE(A) TYPE(QLOCAL) CURDEPTH(0)\n"
    )


@pytest.mark.usefixtures("qm1")
def test_an_error_of_qm_is_one_line_and_exit_code_1() -> None:
    result = qm("mqsc", "QM1", given="DELETE QLOCAL(C)")

    assert (result.exit_code, result.stderr) == (
        1,
        "mqdlq: line 1: queue C does not exist; DEFINE QLOCAL(C) creates it [MQDLQ-109]\n",
    )
    missing = qm("put", "QM1", "C", "text")
    assert (missing.exit_code, missing.stderr) == (
        1,
        "mqdlq: MQOPEN of queue C failed: MQRC_UNKNOWN_OBJECT_NAME (2085) [MQDLQ-109]\n",
    )


@pytest.mark.usefixtures("qm1")
def test_browse_as_json_shows_descriptor_and_body(home: Path) -> None:
    body = home / "body"
    body.write_bytes(b"\x00\xff")
    put = qm("put", "QM1", "A", "--file", str(body))
    qm("put", "QM1", "A", "grün")

    lines = [
        json.loads(line)
        for line in qm("browse", "QM1", "A", "--format", "json").stdout.split("\n")
        if line
    ]

    assert put.stdout.startswith("put 2 bytes to A, MsgId 414d5120514d31")
    assert [line["body"] for line in lines] == ["00ff", "grün".encode().hex()]
    assert [line["Format"] for line in lines] == ["", "MQSTR"]
    assert lines[0]["MsgId"] == put.stdout.split()[-1]
    assert {"StrucId", "AccountingToken", "PutApplName", "GroupId"} <= lines[0].keys()


@pytest.mark.usefixtures("qm1")
def test_browse_as_text_is_a_table() -> None:
    qm("put", "QM1", "A", "[red]hello")

    shown = qm("browse", "QM1", "A").stdout

    assert "[red]hello" in shown
    assert "MQSTR" in shown


@pytest.mark.usefixtures("qm1")
def test_dead_letter_sends_each_message_back_behind_an_mqdlh() -> None:
    qm("put", "QM1", "A", "one")
    (message,) = messages_on("A")
    assert failure("dead-letter", "QM1", "A") == (
        "queue manager QM1 has no dead-letter queue; name one with ALTER QMGR DEADQ(…)"
    )
    qm("mqsc", "QM1", given="ALTER QMGR DEADQ(B)")

    done = qm("dead-letter", "QM1", "A", "--reason", "MQRC_PUT_INHIBITED")

    assert done.stdout == "dead-lettered 1 message of A: MQRC_PUT_INHIBITED (2051)\n"
    assert messages_on("A") == []
    (letter,) = messages_on("B")
    changed = {"Format", "CodedCharSetId", "body"}
    assert {name for name in message if message[name] != letter[name]} == changed
    body = bytes.fromhex(letter["body"])
    header = DeadLetterHeader.decode(body, encoding=letter["Encoding"], ccsid=819)
    assert (header.reason, header.dest_q_name, header.dest_q_mgr_name) == (2051, "A", "QM1")
    assert (header.format, header.coded_char_set_id) == ("MQSTR", 1208)
    assert body[DLH_LENGTH:] == b"one"


@pytest.mark.usefixtures("qm1")
def test_dead_letter_refuses_what_would_never_end_or_means_nothing() -> None:
    qm("mqsc", "QM1", given="ALTER QMGR DEADQ(B)")

    assert failure("dead-letter", "QM1", "B") == (
        "B is the dead-letter queue of QM1; name an application's queue"
    )
    wrong = qm("dead-letter", "QM1", "A", "--reason", "MQRC_QFULL")
    assert wrong.exit_code == 2
    assert "MQRC_QFULL is not a reason code; give a name or a number, such as" in wrong.stderr


def messages_on(queue: str) -> list[dict[str, Any]]:
    shown = qm("browse", "QM1", queue, "--format", "json").stdout
    return [json.loads(line) for line in shown.splitlines()]


@pytest.mark.usefixtures("qm1")
def test_depth_of_one_queue_and_of_all_that_hold_messages() -> None:
    assert "every queue is empty" in qm("depth", "QM1").stdout
    qm("put", "QM1", "A", "1")

    assert qm("depth", "QM1", "A").stdout == "1\n"
    rows = [line.split("│") for line in qm("depth", "QM1").stdout.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row[1:3]] for row in rows] == [["A", "1"]]
    assert qm("depth", "QM9").exit_code == 1


def failure(*arguments: str, given: str | bytes = "") -> str:
    """Return the one line that a failing command prints."""
    result = qm(*arguments, given=given)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("mqdlq: ").removesuffix(" [MQDLQ-109]\n")


def test_a_queue_manager_with_a_wrong_definition_is_not_created(home: Path) -> None:
    missing = home.parent / "missing.mqsc"
    assert failure("create", "QM1", "--mqsc", str(missing)) == (
        f"{missing}: No such file or directory [MQDLQ-233]\n"
    )
    assert failure("create", "QM1", "--mqsc", "-", given="DEFINE QLOCAL(A) COLOUR(RED)").startswith(
        "line 1: QLOCAL(A) has no attribute COLOUR; known are BOQNAME, "
    )
    assert failure("create", "QM1", "--mqsc", "-", given=b"DEFINE QLOCAL(A)\n* gr\xfcn") == (
        "standard input, line 2: byte 0xfc is not UTF-8; save the MQSC commands in UTF-8"
    )
    assert "queue manager QM1 does not exist" in failure("depth", "QM1")
    assert list((home / "queue_managers").glob("*")) == []

    assert qm("create", "QM1", "--mqsc", "-", given="DEFINE QLOCAL(A)").exit_code == 0


@pytest.mark.usefixtures("qm1")
def test_an_mq_reason_is_one_line_in_every_command() -> None:
    qm("mqsc", "QM1", given="ALTER QLOCAL(A) GET(DISABLED) PUT(DISABLED) MAXMSGL(3)")
    qm("mqsc", "QM1", given="ALTER QLOCAL(B) MAXMSGL(3)\nDEFINE QREMOTE(R) RNAME(X) RQMNAME(Y)")

    assert failure("browse", "QM1", "A") == ("MQGET of queue A failed: MQRC_GET_INHIBITED (2016)")
    assert failure("browse", "QM1", "A", "--format", "json").endswith("MQRC_GET_INHIBITED (2016)")
    assert failure("put", "QM1", "A", "text") == (
        "MQPUT of queue A failed: MQRC_PUT_INHIBITED (2051)"
    )
    assert failure("put", "QM1", "B", "text").endswith("MQRC_MSG_TOO_BIG_FOR_Q (2030)")
    for command in (["browse", "QM1", "R"], ["depth", "QM1", "R"], ["put", "QM1", "R", "text"]):
        assert "failed: MQRC_" in failure(*command)
    assert failure("dump", "QM1", "R", "-") == "queue manager QM1 has no local queue R"
    assert failure("load", "QM1", "A", "-", given="no dump").startswith(
        "standard input, line 1: this is not a dump of a queue"
    )


@pytest.mark.usefixtures("qm1")
def test_a_queue_manager_is_ended_and_started() -> None:
    qm("put", "QM1", "A", "not persistent")

    assert qm("status", "QM1").stdout == "queue manager QM1 is running\n"
    assert qm("end", "QM1").stdout == "queue manager QM1 is ended\n"
    assert failure("end", "QM1") == ("queue manager QM1 is ended; `mqdlq qm start QM1` starts it")
    assert failure("mqsc", "QM1", given="DISPLAY QMGR") == (
        "queue manager QM1 is ended; `mqdlq qm start QM1` starts it"
    )
    assert failure("browse", "QM1", "A") == (
        "MQCONN of queue manager QM1 failed: MQRC_Q_MGR_NOT_AVAILABLE (2059)"
    )
    assert qm("start", "QM1").stdout == "queue manager QM1 is running\n"
    assert qm("depth", "QM1", "A").stdout == "0\n"
    assert failure("start", "QM1") == "queue manager QM1 is running; end it first"


@pytest.mark.usefixtures("qm1")
def test_quiescing_lasts_until_the_last_application_is_gone() -> None:
    embedded_mq.install()
    connected = Application(importlib.import_module("pymqi"), "QM1")

    assert qm("quiesce", "QM1").stdout == "queue manager QM1 is quiescing\n"
    assert failure("put", "QM1", "A", "text").endswith("MQRC_Q_MGR_QUIESCING (2161)")
    connected.disconnect()
    assert qm("status", "QM1").stdout == "queue manager QM1 is ended\n"
    assert failure("quiesce", "QM1").startswith("queue manager QM1 is ended")


@pytest.mark.usefixtures("qm1")
def test_a_fault_makes_one_call_fail_and_is_removed() -> None:
    qm("faults", "QM1", "MQPUT[A]:2:2053:before", "MQGET:9:2016:before")

    assert qm("put", "QM1", "A", "1").exit_code == 0
    assert qm("faults", "QM1").stdout == (
        "FAULT(MQPUT[A]:2:2053:before) CALLS(1)\nFAULT(MQGET:9:2016:before) CALLS(0)\n"
    )
    assert failure("put", "QM1", "A", "2") == "MQPUT of queue A failed: MQRC_Q_FULL (2053)"
    assert qm("faults", "QM1", "--clear", "MQPUT:1:2051:before").stdout == (
        "FAULT(MQPUT:1:2051:before) CALLS(0)\n"
    )
    assert failure("faults", "QM1", "MQPUT:0:2051:before").startswith("line 1: ")


@pytest.mark.usefixtures("qm1")
def test_a_broken_database_is_one_line(home: Path) -> None:
    database = home / "queue_managers" / "QM1" / "queue_manager.sqlite"
    database.write_bytes(b"this is no database" * 1000)

    for command in (["status", "QM1"], ["mqsc", "QM1"], ["depth", "QM1"]):
        assert failure(*command) == (
            "the queue manager's database cannot be used: file is not a database"
        )
    assert failure("browse", "QM1", "A").endswith("MQRC_Q_MGR_NOT_AVAILABLE (2059)")
