"""The commands `mqdlq qm …`, run as a person runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mqdlq.cli.qm import app


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def qm(*arguments: str, given: str | bytes = "") -> Result:
    return CliRunner().invoke(app, arguments, input=given)


@pytest.fixture
def qm1(home: Path) -> None:
    definitions = home / "definitions.mqsc"
    definitions.write_text("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)\n")
    assert qm("create", "QM1", "--mqsc", str(definitions)).exit_code == 0


def test_create_says_what_was_made(home: Path) -> None:
    result = qm("create", "QM1", "--mqsc", "-", given="DEFINE QLOCAL(A)")

    assert (result.exit_code, result.stdout) == (
        0,
        f"created queue manager QM1 in {home}/queue_managers/QM1\ndefined QLOCAL(A)\n",
    )


@pytest.mark.usefixtures("qm1")
def test_mqsc_reads_standard_input() -> None:
    assert qm("mqsc", "QM1", given="DISPLAY QLOCAL(A) CURDEPTH").stdout == (
        "QUEUE(A) TYPE(QLOCAL) CURDEPTH(0)\n"
    )


@pytest.mark.usefixtures("qm1")
def test_an_error_is_one_line_and_exit_code_1() -> None:
    result = qm("mqsc", "QM1", given="DELETE QLOCAL(C)")

    assert (result.exit_code, result.stderr) == (
        1,
        "mqdlq: line 1: there is no queue C; DEFINE QLOCAL(C)\n",
    )
    missing = qm("put", "QM1", "C", "text")
    assert (missing.exit_code, missing.stderr) == (
        1,
        "mqdlq: MQOPEN of queue C failed: MQRC_UNKNOWN_OBJECT_NAME (2085)\n",
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
def test_depth_of_one_queue_and_of_all_that_hold_messages() -> None:
    assert "every queue is empty" in qm("depth", "QM1").stdout
    qm("put", "QM1", "A", "1")

    assert qm("depth", "QM1", "A").stdout == "1\n"
    rows = [line.split("│") for line in qm("depth", "QM1").stdout.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row[1:3]] for row in rows] == [["A", "1"]]
    assert qm("depth", "QM9").exit_code == 1
