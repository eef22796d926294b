"""Test that `mqdlq explain` gives one answer for a message from every source."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app
from mqdlq.headers import MessageDescriptor
from tests.support.wire.pasted_messages import print_amqsbcg, print_dmpmqmsg
from tests.support.world import World

pytestmark = pytest.mark.slow

RULES = """\
APPLNAME(PAYROLL*) ACTION(IGNORE)
REASON(MQRC_Q_FULL) DESTQ(PAYMENTS) ACTION(RETRY) RETRY(3)
DESTQ(ORDERS) ACTION(FWD) FWDQ(PARKED)
MSGTYPE(MQMT_REPLY) ACTION(DISCARD)
"""


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CONN_")]:
        monkeypatch.delenv(name)
    world = World(tmp_path)
    Path("a.rules").write_text(RULES, encoding="utf-8")
    world.dead_letter(reason=2053, dest_q="PAYMENTS")
    world.dead_letter(reason=2085, dest_q="ORDERS")
    world.dead_letter(reason=2085, dest_q="NOWHERE")
    world.put("DLQ", b"stray")
    with world.ledger:
        yield world


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(app, arguments, input=stdin)


def explained(*arguments: str, stdin: str | bytes = "") -> list[dict[str, Any]]:
    result = run("explain", "--rules", "a.rules", "--format", "json", *arguments, stdin=stdin)
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def without_message_number(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: one[name] for name in one.keys() - {"message"}} for one in found]


def browsed() -> str:
    return run("qm", "browse", "QM1", "DLQ", "--format", "json").stdout


def imported(world: World) -> str:
    """Take a snapshot of the queue; return its id."""
    run_of_test = world.start(RULES)
    world.snapshot(run_of_test)
    return str(world.recorded_snapshot(run_of_test.run_id).snapshot_id)


def test_explain_gives_the_same_answer_for_every_source(world: World) -> None:
    messages = [(MessageDescriptor.decode(md.pack()), body) for md, body in world.messages("DLQ")]
    decoded = run("decode", "--format", "json", "-", stdin=browsed()).stdout
    run("qm", "dump", "QM1", "DLQ", "dump.jsonl")
    expected = without_message_number(explained("QM1", "DLQ"))

    assert [one["chain"] for one in expected] == [[2], [3], [], []]
    assert expected[3]["class"] == "no_dlh"
    assert explained("-", stdin=decoded) == expected
    for found in (
        explained("QM1", "DLQ"),
        explained("QM1"),
        explained(imported(world)),
        explained("dump.jsonl"),
        explained("-", stdin=browsed()),
        explained("-", stdin=print_amqsbcg(messages)),
        explained("-", stdin=print_dmpmqmsg(messages)),
    ):
        assert without_message_number(found) == expected


def test_messages_are_chosen_by_number_key_or_msgid(world: World) -> None:
    every = explained("QM1", "DLQ")
    second = every[1]["message"]
    snapshot_id = imported(world)

    for source in (["QM1", "DLQ"], [snapshot_id], ["DLQ.jsonl"]):
        Path("DLQ.jsonl").write_text(browsed(), encoding="utf-8")
        assert explained(*source, "--message", "2", "--message", "4") == [every[1], every[3]]
        assert explained(*source, "--key", second["message_key"]) == [every[1]]
        assert explained(*source, "--key", second["message_key"][:12].upper()) == [every[1]]
        assert explained(*source, "--msg-id", second["msg_id"]) == [every[1]]


def test_explain_of_a_missing_message_is_an_error(world: World) -> None:
    assert world.depths("DLQ") == (4,)
    key, msg_id = "f" * 63, "0" * 48

    result = run(
        *("explain", "--rules", "a.rules", "QM1", "DLQ"),
        *("--message", "2", "--message", "9", "--key", key, "--msg-id", msg_id),
    )

    assert result.exit_code == 1
    assert result.stdout.startswith("message 2, MsgId ")
    assert result.stderr == (
        f"no message here has number 9 or key {key} or MsgId {msg_id} [MQDLQ-903]\n"
    )


def test_an_ambiguous_beginning_of_a_key_is_refused_with_all_matches(world: World) -> None:
    for _ in range(20):  # with sixteen digits, two keys have the same first one
        world.dead_letter(reason=2053, dest_q="PAYMENTS")
    keys = sorted(one["message"]["message_key"] for one in explained("QM1", "DLQ"))
    digit = next(key[0] for key, other in itertools.pairwise(keys) if key[0] == other[0])
    fitting = [key for key in keys if key.startswith(digit)]
    more = ", …" if len(fitting) > 4 else ""

    result = run("explain", "--rules", "a.rules", "QM1", "--key", digit)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"key {digit} is the beginning of {len(fitting)} messages' keys"
        f" ({', '.join(key[:9] for key in fitting[:4])}{more}); give more digits"
        " [MQDLQ-904]\n"
    )


@pytest.mark.usefixtures("world")
def test_a_body_without_its_mqmd_is_explained_with_a_warning() -> None:
    body = json.loads(browsed().splitlines()[1])["body"]

    result = run("explain", "--rules", "a.rules", "-", stdin=body)

    assert result.exit_code == 0
    assert result.stdout.startswith("message 1, from line 1: rules tried, by line: 3\n")
    assert result.stderr == (
        "<stdin>: warning: without an MQMD, APPLNAME and MSGTYPE compare with blank or 0\n"
    )


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("source", "name"), [("-", "<stdin>"), ("empty.jsonl", "empty.jsonl"), ("QM1", "QM1")]
)
def test_a_source_without_messages_is_reported(source: str, name: str) -> None:
    Path("empty.jsonl").touch()
    run("qm", "mqsc", "QM1", "-", stdin="CLEAR QLOCAL(DLQ)\n")

    result = run("explain", "--rules", "a.rules", source)

    said = f"{name}: there is no message to explain\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", said)


@pytest.mark.usefixtures("world")
def test_an_unknown_source_is_refused_with_the_known_ones() -> None:
    result = run("explain", "--rules", "a.rules", "messages.jsonl")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "mqdlq: messages.jsonl is not a file, a snapshot's id or a queue manager that is"
        " known here (embedded: QM1; AIRFLOW_CONN_*: none); to browse a queue manager of"
        " this machine, also name its queue [MQDLQ-902]\n"
    )


@pytest.mark.usefixtures("world")
def test_a_key_that_is_not_hexadecimal_is_refused() -> None:
    result = run("explain", "--rules", "a.rules", "QM1", "--key", "xyz")

    assert (result.exit_code, result.stderr) == (
        2,
        "mqdlq: --key: expected up to 64 hexadecimal digits, found 'xyz' [MQDLQ-901]\n",
    )


def test_explaining_a_queue_changes_nothing(world: World) -> None:
    before = [(md.pack(), body) for md, body in world.messages("DLQ")]

    explained("QM1", "DLQ")

    assert [(md.pack(), body) for md, body in world.messages("DLQ")] == before


def test_explain_of_a_missing_snapshot_is_an_error(world: World) -> None:
    result = run("explain", "--rules", "a.rules", "20261121T120000Z-1a2b3c4d")

    assert (result.exit_code, result.stderr) == (
        1,
        (
            f"mqdlq: {world.lake_root} holds no finished snapshot 20261121T120000Z-1a2b3c4d"
            " [MQDLQ-419]\n"
        ),
    )


@pytest.mark.usefixtures("world")
def test_extensions_take_the_columns_of_a_json_line_and_a_queue() -> None:
    Path("a.rules").rename("a.yaml")
    Path("a.yaml").write_text(
        "table:\n"
        "  rules:\n"
        "    - extensions: {age: '>= 2h', header_chain: MQDLH, length: '< 1kB'}\n"
        "      action: IGNORE\n"
        "    - extensions: {expires_in: never}\n"
        "      action: RETRY\n",
        encoding="utf-8",
    )
    line = json.dumps(
        {
            "browsed_at": "2026-11-22T12:00:00Z",
            "dead_lettered_at": "2026-11-22T10:00:00Z",
            "header_chain": ["MQDLH"],
            "chain_is_whole": True,
            "total_length": 200,
            "expiry": 9,
        }
    )

    result = run("explain", "--rules", "a.yaml", "--format", "json", "-", stdin=line)
    browse = run("explain", "--rules", "a.yaml", "QM1", "DLQ", "--message", "1")
    paste = run("explain", "--rules", "a.yaml", "-", stdin=browsed())

    assert json.loads(result.stdout) == {
        "chain": [3],
        "trace": [
            {"line": 3, "matched": True, "keyword": None, "expected": None, "actual": None},
            {
                "line": 5,
                "matched": False,
                "keyword": "EXPIRES_IN",
                "expected": "never",
                "actual": "",
            },
        ],
    }
    assert browse.stdout.splitlines()[0].endswith("rules tried, by line: 3")
    assert "AGE expects >= 2h, the age on the queue is unknown" in paste.stdout


@pytest.mark.usefixtures("world")
def test_a_json_line_with_a_wrong_column_of_an_extension_is_refused() -> None:
    for column, value, expected in (
        ("browsed_at", "noon", "a time such as 2026-11-22T12:00:00Z, found str"),
        ("header_chain", "MQDLH", "a list of names, found str"),
        ("chain_is_whole", "yes", "true or false, found str"),
        ("total_length", "9", "a number, found str"),
    ):
        result = run("explain", "--rules", "a.rules", "-", stdin=json.dumps({column: value}))

        assert (result.exit_code, result.stderr) == (
            1,
            f"<stdin>:1: {column} must be {expected} [MQDLQ-905]\n",
        )
