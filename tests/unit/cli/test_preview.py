"""Test that `mqdlq preview` browses a live queue and shows the actions of a table."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import embedded_mq
from mqdlq.cli import app
from mqdlq.cli.queue_managers import Address
from mqdlq.mqi.connection_settings import ConnectionSettings
from tests.support.world import World

RULES = """\
INPUTQ(DLQ)
REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)
DESTQ(ORDERS) ACTION(FWD) FWDQ(PARKED) HEADER(YES)
DESTQ(OLD) ACTION(IGNORE)
"""


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "150")
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CONN_")]:
        monkeypatch.delenv(name)
    world = World(tmp_path)
    (tmp_path / "some.rules").write_text(RULES)
    with world.ledger:
        yield world


def fill(world: World) -> None:
    for _ in range(3):
        world.dead_letter(reason=2053, dest_q="PAYMENTS")
    world.dead_letter(reason=2085, dest_q="ORDERS")
    for _ in range(2):
        world.dead_letter(reason=2085, dest_q="NOWHERE")
    world.put("DLQ", b"stray")


def call(world: World, *arguments: str, code: int = 0) -> str:
    rules = str(world.directory / "some.rules")
    result = CliRunner().invoke(app, ["preview", "--rules", rules, *arguments])
    assert result.exit_code == code, result.output
    return result.output


def as_json(world: World, *arguments: str) -> Any:
    return json.loads(call(world, "--format", "json", *arguments))


def test_a_preview_shows_plan_causes_and_messages_that_need_attention(world: World) -> None:
    fill(world)

    found = as_json(world, "QM1")

    assert (found["queue_manager"], found["queue"], found["messages"]) == ("QM1", "DLQ", 7)
    assert found["plan"] == [
        {
            "rule": 1,
            "rule_line": 2,
            "action": "RETRY",
            "target_q": "PAYMENTS",
            "target_q_mgr": "QM1",
            "tries": 3,
            "messages": 3,
        },
        {
            "rule": 2,
            "rule_line": 3,
            "action": "FWD",
            "target_q": "PARKED",
            "target_q_mgr": "",
            "tries": 1,
            "messages": 1,
        },
    ]
    assert [
        (t["outcome"], t["class"], t["dest_q_name"], t["messages"], t["browse_seqs"])
        for t in found["needs_attention"]
    ] == [
        ("unmatched", "dead_letter", "NOWHERE", 2, [5, 6]),
        ("unprocessable", "no_dlh", "", 1, [7]),
    ]
    assert [(c["reason"], c["dest_q_name"], c["messages"]) for c in found["causes"]] == [
        (2053, "PAYMENTS", 3),
        (2085, "NOWHERE", 2),
        (2085, "ORDERS", 1),
        (0, "", 1),
    ]


def test_a_preview_warns_that_it_knows_no_attempts(world: World) -> None:
    table = world.directory / "some.yaml"
    table.write_text(
        "table:\n  rules:\n    - extensions: {attempts: '>= 0'}\n      action: IGNORE\n"
    )
    world.dead_letter()

    result = CliRunner().invoke(app, ["preview", "--rules", str(table), "--format", "json", "QM1"])

    assert result.stderr == (
        "mqdlq: warning: a preview does not know the number of attempts so far: no rule that"
        " compares attempts matches; a dry run of the handler counts them\n"
    )
    assert [each["outcome"] for each in json.loads(result.stdout)["needs_attention"]] == [
        "unmatched"
    ]


def test_a_preview_counts_queues_with_generated_names_as_one_cause(world: World) -> None:
    for number in range(3):
        world.dead_letter(reason=2085, dest_q=f"AMQ.{number:016X}")
    (world.directory / "some.rules").write_text("DESTQ(X) ACTION(RETRY)\n")

    found = as_json(world, "QM1")

    (cause,), (trouble,) = found["causes"], found["needs_attention"]
    assert (cause["dest_q_name"], cause["queues"], cause["messages"]) == ("AMQ.*", 3, 3)
    assert (trouble["cause_id"], trouble["messages"]) == (cause["cause_id"], 3)
    assert "AMQ.* @ QM1 (3 queues)" in call(world, "QM1")


def test_a_preview_is_drawn_for_a_terminal(world: World) -> None:
    fill(world)

    drawn = call(world, "QM1", "DLQ")

    assert drawn.splitlines()[0].startswith("PREVIEW  DLQ @ QM1  7 messages, ")
    for words in (
        "MQRC_Q_FULL (2053): the queue is full",
        "RETRY (up to 3 times)  PAYMENTS @ QM1",
        "Needs attention: 3",
        "add a rule for it, or move it with message_keys and action",
    ):
        assert words in drawn


def test_a_preview_without_a_queue_browses_the_deadq(world: World) -> None:
    world.dead_letter()
    (world.directory / "some.rules").write_text("ACTION(RETRY)\n")

    assert as_json(world, "QM1")["queue"] == "DLQ"
    assert as_json(world, "QM1", "ORDERS")["messages"] == 0
    assert "No messages." in call(world, "QM1", "ORDERS")


def test_a_preview_changes_nothing(world: World) -> None:
    fill(world)
    before = [(md.pack(), body) for md, body in world.messages("DLQ")]
    files = {path for path in world.directory.rglob("*") if "queue_managers" not in path.parts}

    call(world, "QM1")

    assert [(md.pack(), body) for md, body in world.messages("DLQ")] == before
    assert {
        path for path in world.directory.rglob("*") if "queue_managers" not in path.parts
    } == files


def test_a_user_who_may_only_browse_and_inquire_can_preview(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world)
    world.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT,INQ)\n"
        "SET AUTHREC PROFILE(DLQ) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(BROWSE,INQ)"
    )
    monkeypatch.setenv("MQDLQ_PASSWORD", "secret")

    assert json.loads(call(world, "--user", "alice", "--format", "json", "QM1"))["messages"] == 7
    refused = call(world, "--user", "alice", "QM1", "PAYMENTS", code=1)
    assert refused == (
        "mqdlq: MQOPEN of queue PAYMENTS failed: MQRC_NOT_AUTHORIZED (2035) [MQDLQ-100]\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("QM9", "--transport", "embedded"), 1, "mqdlq: MQCONN of queue manager QM9 failed: "),
        (("QM1", "NO.SUCH"), 1, "mqdlq: MQOPEN of queue NO.SUCH failed: "),
        (("QM1", "--host", "mq"), 2, "mqdlq: a client connection to queue manager 'QM1' needs"),
    ],
)
def test_a_queue_that_cannot_be_browsed_is_reported_in_one_line(
    world: World, arguments: tuple[str, ...], code: int, text: str
) -> None:
    said = call(world, *arguments, code=code)

    assert said.startswith(text)
    assert said.count("\n") == 1


def test_an_unknown_queue_manager_is_refused_with_the_known_ones_and_a_remedy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PROD", "ibmmq://mq.example.com?queue_manager=PROD1")
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "postgres://db.example.com/x")

    said = call(world, "QM9", code=2).splitlines()

    assert said.pop(3).startswith("  without a connection, this machine was tried: ")
    assert said == [
        "mqdlq: queue manager QM9 is not known here [MQDLQ-125]",
        f"  embedded queue managers in {world.directory}/queue_managers: QM1",
        "  Airflow connections to queue managers in the environment (AIRFLOW_CONN_*): PROD1 (prod)",
        "Give --host and --channel, or --ccdt-url; or define a connection, such as",
        (
            '  AIRFLOW_CONN_MQ=\'{"conn_type": "mqdlq", "host": "mq.example.com",'
            ' "extra": {"queue_manager": "QM9", "channel": "DEV.APP.SVRCONN"}}\''
        ),
        "or create an embedded queue manager: mqdlq qm create QM9",
    ]


@pytest.mark.usefixtures("world")
def test_an_airflow_connection_in_the_environment_is_used_to_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_alice, of_bob = secrets.token_hex(4), secrets.token_hex(4)
    extra = {"queue_manager": "QM7", "channel": "DEV.APP.SVRCONN"}
    keys = {"conn_type": "ibmmq", "host": "mq", "login": "alice", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_PROD", json.dumps(keys | {"password": of_alice}))
    monkeypatch.setenv("MQDLQ_PASSWORD", of_bob)

    assert Address().settings("QM7") == ConnectionSettings(
        "QM7", host="mq", channel="DEV.APP.SVRCONN", user="alice", password=of_alice
    )
    assert Address(user="bob").settings("QM7").password == of_bob
    assert Address().settings("QM1").transport == "embedded"
    assert Address().settings("QM8").transport == "bindings"


def test_a_preview_compares_nuls_as_blanks_with_the_option(world: World) -> None:
    world.dead_letter(reason=2085, dest_q="OLD\0")

    assert as_json(world, "QM1")["plan"] == []
    (step,) = as_json(world, "QM1", "--nul-as-blank")["plan"]
    assert (step["rule"], step["action"]) == (3, "IGNORE")


def test_a_preview_asks_rules_of_a_backout_queue_about_messages_without_an_mqdlh(
    world: World,
) -> None:
    world.put("DLQ", b"stray")
    (world.directory / "some.rules").write_text("INPUTQ(DLQ)\nACTION(IGNORE)\n")

    assert as_json(world, "QM1", "DLQ")["plan"] == []
    (step,) = as_json(world, "QM1", "DLQ", "--queue-kind", "backout")["plan"]
    assert (step["rule"], step["messages"]) == (1, 1)


def test_an_invalid_table_is_refused_before_connecting(world: World) -> None:
    (world.directory / "some.rules").write_text("ACTION(RETYR)\n")

    assert "some.rules:1:" in call(world, "QM1", code=2)


@pytest.mark.slow
def test_a_preview_needs_neither_airflow_nor_spark(world: World) -> None:
    fill(world)
    program = (
        "import sys; from mqdlq.cli import app\n"
        "try: app(['preview', '--rules', sys.argv[1], 'QM1'])\n"
        "except SystemExit as ended: assert ended.code == 0, ended.code\n"
        "assert not {'airflow', 'pyspark'} & set(sys.modules)"
    )

    subprocess.run(
        [sys.executable, "-c", program, str(world.directory / "some.rules")],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def test_a_preview_reports_a_browse_that_fails(world: World) -> None:
    fill(world)
    embedded_mq.faults.set("MQGET:3:2009:before")

    said = call(world, "QM1", code=1)
    embedded_mq.faults.set("")

    assert said == (
        "mqdlq: MQGET (browse) of queue DLQ failed: MQRC_CONNECTION_BROKEN (2009) [MQDLQ-100]\n"
    )
