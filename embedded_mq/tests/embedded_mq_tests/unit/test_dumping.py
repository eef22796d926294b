"""`embedded-mq dump` and `load` write a queue to a file and load it byte for byte."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import embedded_mq
from embedded_mq.cli.app import app as program
from embedded_mq_tests.builders import Application

HEAD = {"format": "mqdlq queue dump", "version": 1}
VOLATILE = ("Expiry",)


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Application:
    """Connect an application to QM1, which has two local queues."""
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.install()
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)")
    import ibmmq

    return Application(ibmmq, "QM1")


def command(*arguments: str | Path, given: str = "") -> Result:
    return CliRunner().invoke(program, [*map(str, arguments)], input=given)


def put_all_sorts(app: Application) -> None:
    """Put messages with different contexts, properties, backout counts and priorities."""
    queue = app.open("A", "OUTPUT", "SET_ALL_CONTEXT", "INPUT_SHARED")
    foreign = {
        "UserIdentifier": b"someone",
        "AccountingToken": bytes(range(32)),
        "ApplIdentityData": b"identity\xe9\x85",
        "PutApplType": 2,
        "PutApplName": b"CICS",
        "PutDate": b"19991231",
        "PutTime": b"23595999",
        "ApplOriginData": b"abcd",
    }
    app.put(
        queue, bytes(range(256)), "SET_ALL_CONTEXT", **foreign, GroupId=b"g" * 24, Persistence=1
    )
    handle = app.mqi.MessageHandle(app.handle)
    handle.properties.set(b"colour", "gr\u00fcn", app.number("MQTYPE_STRING"))
    handle.properties.set(b"raw", b"\x00\xff", app.number("MQTYPE_BYTE_STRING"), 2)
    handle.properties.set(b"a.b.size", 3, app.number("MQTYPE_INT32"), 4)
    queue.put(b"with properties", app.md(Expiry=5000), app.pmo(NewMsgHandle=handle.msg_handle))
    app.put(queue, b"", Priority=9, CorrelId=b"c" * 24, Report=1, MsgType=1, ReplyToQ=b"R")
    app.get(queue, "SYNCPOINT")
    app.handle.backout()
    queue.close()


def messages(text: str) -> list[dict[str, Any]]:
    """Return a dump's messages without fields that change over time."""
    rows = [json.loads(line) for line in text.splitlines()][1:-1]
    for row in rows:
        for name in VOLATILE:
            row["MQMD"].pop(name)
    return rows


def test_a_dumped_queue_is_loaded_byte_for_byte(app: Application, tmp_path: Path) -> None:
    put_all_sorts(app)
    file = tmp_path / "a.jsonl"

    assert command("dump", "QM1", "A", file).stdout == f"dumped 3 messages of A to {file}\n"
    assert command("load", "QM1", "B", file).stdout == "loaded 3 messages into B\n"

    before, after = file.read_text(), command("dump", "QM1", "B", "-").stdout
    assert messages(before) == messages(after)
    first, _, third = messages(before)
    assert (first["MQMD"]["BackoutCount"], first["MQMD"]["Priority"]) == (1, 9)
    assert len(messages(before)) == app.depth("A") == app.depth("B") == 3
    assert third["properties"][1]["value"] == "00ff"


def test_a_dump_names_its_format_and_only_its_owner_can_read_it(
    app: Application, tmp_path: Path
) -> None:
    app.put("A", b"\x01\x02", Format=b"MQSTR")
    file = tmp_path / "a.jsonl"
    command("dump", "QM1", "A", file)

    head, row, tail = map(json.loads, file.read_text().splitlines())
    assert head == {**HEAD, "queue_manager": "QM1", "queue": "A"}
    assert (row["MQMD"]["Format"], row["body"]) == ("MQSTR   ", "0102")
    assert tail == {"messages": 1}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_uncommitted_messages_are_not_dumped(app: Application) -> None:
    app.put("A", b"in doubt", "SYNCPOINT")

    assert messages(command("dump", "QM1", "A", "-").stdout) == []


def test_a_dump_does_not_overwrite_a_file(app: Application, tmp_path: Path) -> None:
    app.put("A")
    file = tmp_path / "a.jsonl"
    file.write_text("mine")

    result = command("dump", "QM1", "A", file)

    assert (result.exit_code, file.read_text()) == (1, "mine")
    assert result.stderr == f"embedded-mq: {file} already exists; name a new file for the dump\n"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.jsonl"]


ROW = {"MQMD": {}, "body": ""}
NO_DUMP = (
    "line 1: this is not a dump of a queue, which begins with"
    ' {"format": "mqdlq queue dump", "version": 1}'
)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["To be, or not to be"], NO_DUMP),
        ([json.dumps({**HEAD, "version": 2})], NO_DUMP),
        ([json.dumps(HEAD), json.dumps(ROW)], "line 2: this is not a message of a dump"),
        ([json.dumps(HEAD), "[]"], "line 2: this is not a message of a dump"),
        (
            [json.dumps(HEAD), '{"messages": 7}'],
            "line 2: it counts 7 messages, but the dump has 0",
        ),
    ],
)
def test_a_file_that_is_not_a_dump_is_refused_in_one_line(lines: list[str], complaint: str) -> None:
    result = command("load", "QM1", "A", "-", given="\n".join(lines))

    assert (result.exit_code, result.stderr) == (1, f"embedded-mq: standard input, {complaint}\n")


def test_a_truncated_dump_is_not_loaded(app: Application, tmp_path: Path) -> None:
    app.put("A", b"secret")
    lines = command("dump", "QM1", "A", "-").stdout.splitlines()
    file = tmp_path / "cut.jsonl"
    file.write_text("\n".join(lines[:2]))

    result = command("load", "QM1", "B", file)

    assert result.stderr == (
        f"embedded-mq: {file}: the dump is truncated after 1 messages; its last line is missing\n"
    )
    assert app.depth("B") == 0


def test_a_load_that_fails_puts_nothing(app: Application) -> None:
    embedded_mq.run_mqsc("QM1", "ALTER QLOCAL(B) MAXDEPTH(1)")
    app.put("A", b"1")
    app.put("A", b"2")

    result = command("load", "QM1", "B", "-", given=command("dump", "QM1", "A", "-").stdout)

    assert result.stderr == (
        "embedded-mq: standard input, line 3: the message cannot be put on B: MQRC_Q_FULL (2053);"
        " no message was put\n"
    )
    assert (app.depth("B"), app.bodies("B")) == (0, [])


def test_a_load_onto_a_queue_that_cannot_be_opened_says_so(app: Application) -> None:
    app.put("A", b"1")

    result = command("load", "QM1", "C", "-", given=command("dump", "QM1", "A", "-").stdout)

    assert result.stderr == (
        "embedded-mq: standard input cannot be loaded into C: MQRC_UNKNOWN_OBJECT_NAME (2085);"
        " no message was put\n"
    )


def test_only_a_local_queue_is_dumped() -> None:
    assert (
        command("dump", "QM1", "C", "-").stderr
        == "embedded-mq: queue manager QM1 has no local queue C\n"
    )
