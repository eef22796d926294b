"""`mqdlq check`: what a handler's user may do, and which authority is missing on which object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import embedded_mq
from mqdlq.cli.check import check_permissions as check
from mqdlq.cli.check import fixed_targets
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.mqi.state_queue import Marker, open_state_queue
from mqdlq.rules import parse

RULES = """
INPUTQ(DLQ.ORDERS)
DESTQ(ORDERS.IN) ACTION(RETRY)
DESTQ(ORDERS.*) ACTION(RETRY)
DESTQ(ELSEWHERE) DESTQM(QM2) ACTION(RETRY)
MSGTYPE(MQMT_REPLY) ACTION(FWD) FWDQ(&REPLYQ)
ACTION(FWD) FWDQ(PARKED) HEADER(YES)
"""
DEFINITIONS = "; ".join(
    f"DEFINE QLOCAL({name})" for name in ("DLQ.ORDERS", "MQDLQ.STATE", "ORDERS.IN", "PARKED")
)
GRANTED = """
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT,INQ)
SET AUTHREC PROFILE(DLQ.ORDERS) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(INQ,BROWSE,GET)
SET AUTHREC PROFILE(MQDLQ.STATE) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(BROWSE,GET,PUT)
SET AUTHREC PROFILE(PARKED) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(PUT)
"""
NAMED = (
    "queues the rules put to by name: ORDERS.IN, PARKED;"
    " queues that only messages name are not checked\n"
)


@pytest.fixture(name="granted")
def _granted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make the handler `orders` and its queue manager; return what grants its user more."""
    (tmp_path / "orders.rules").write_text(RULES)
    (tmp_path / "orders.yaml").write_text("connection: mq_orders\nrules: orders.rules\n")
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    extra = {"queue_manager": "QM1", "transport": "embedded", "client": "ibmmq"}
    held = {"conn_type": "mqdlq", "login": "alice", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_MQ_ORDERS", json.dumps(held))
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", DEFINITIONS)
    embedded_mq.run_mqsc("QM1", GRANTED)

    def run(commands: str) -> None:
        embedded_mq.run_mqsc("QM1", commands)

    return run


def answered(captured: pytest.CaptureFixture[str]) -> str:
    """Return what was printed but for Airflow's remarks, which the command keeps to itself."""
    lines = captured.readouterr().out.splitlines(keepends=True)
    return "".join(line for line in lines if " loc=" not in line)


@pytest.mark.usefixtures("granted")
def test_check_reports_a_marker_that_the_ledger_does_not_know(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As after an older copy of ledger and lake was restored: only the state queue shows it."""
    marker = Marker("ab" * 24, "orders-lost", "plan", "digest", "000001-0000000007-lost")
    with (
        connect(ConnectionSettings("QM1", transport="embedded", client="ibmmq")) as manager,
        open_state_queue(manager, "MQDLQ.STATE") as state,
    ):
        state.put(marker)
        manager.handle.commit()

    assert check("orders") == 1

    assert (
        "the state queue MQDLQ.STATE of queue manager QM1 has the marker of a unit of work of"
        " orders-lost that the ledger"
    ) in answered(capsys)


@pytest.mark.usefixtures("granted")
def test_check_reports_missing_authorities_on_the_rules_targets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = check("orders")

    assert (code, answered(capsys)) == (
        1,
        (
            "connected to queue manager QM1 through ibmmq as user alice\n"
            "sense: no authority is missing\n"
            "dry run: no authority is missing\n"
            "execution: MQRC_NOT_AUTHORIZED (2035): user alice lacks +put on queue"
            " ORDERS.IN, without which +passall cannot be checked (SET AUTHREC"
            " PROFILE('ORDERS.IN') OBJTYPE(QUEUE) PRINCIPAL('alice')"
            " AUTHADD(PUT,PASSALL)); MQRC_NOT_AUTHORIZED (2035): user alice lacks +passall on"
            " queue PARKED (SET AUTHREC PROFILE('PARKED') OBJTYPE(QUEUE) PRINCIPAL('alice')"
            f" AUTHADD(PASSALL))\n{NAMED}"
        ),
    )


def test_check_explains_a_refused_login_whichever_type_the_connection_has(
    granted: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    granted("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHRMV(CONNECT,INQ)")
    refused = (
        "MQCONN of queue manager QM1 failed: MQRC_NOT_AUTHORIZED (2035): user alice lacks +connect"
        " or +inq on the queue manager, or the login was refused (CONNAUTH, CHLAUTH; the queue"
        " manager's AMQERR01.LOG says which) [MQDLQ-100]\n"
    )

    assert (check("orders"), answered(capsys)) == (1, refused)

    written = os.environ["AIRFLOW_CONN_MQ_ORDERS"].replace('"mqdlq"', '"ibmmq"')
    monkeypatch.setenv("AIRFLOW_CONN_MQ_ORDERS", written)

    remark = (
        "connection mq_orders has type ibmmq, as of Airflow's provider for IBM MQ, and works as it"
        " is; type mqdlq always has the form and the Test button\n"
    )
    assert (check("orders"), answered(capsys)) == (1, remark + refused)


def test_granting_what_check_reports_is_enough(
    granted: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    check("orders")
    told = answered(capsys)
    for command in told.split("(SET ")[1:]:
        granted("SET " + command.partition("))")[0] + ")")

    assert check("orders") == 0
    assert "execution: no authority is missing\n" in answered(capsys)


@pytest.mark.usefixtures("granted")
def test_check_does_not_ask_for_put_authority_with_putaut_ctx(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With PUTAUT(CTX) +put is the message's user's to have, and +passall the handler's."""
    (tmp_path / "orders.rules").write_text(
        "INPUTQ(DLQ.ORDERS)\nACTION(FWD) FWDQ(PARKED) PUTAUT(CTX)\n"
    )

    code = check("orders")

    assert (code, answered(capsys).partition("execution: ")[2]) == (
        0,
        (
            "no authority is missing\n"
            "queues the rules put to by name: none;"
            " queues that only messages name are not checked\n"
            "rules with PUTAUT(CTX) need +altusr on the queue manager, +passall on their targets"
            " (PARKED), and +put there of each message's user: not tried\n"
        ),
    )


def test_check_warns_of_a_limit_of_a_depth_that_cannot_be_inquired(
    granted: Callable[[str], None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    granted("DEFINE QALIAS(PARKED.ALIAS) TARGET(PARKED)")
    granted("SET AUTHREC PROFILE(PARKED) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(INQ)")
    (tmp_path / "orders.yaml").write_text(
        "connection: mq_orders\nrules: orders.rules\n"
        "limits: {destinations: [{queue: PARKED*, in_flight: 5},"
        " {queue: PARKED.ALIAS, in_flight: 6}, {queue: ORDERS.*, in_flight: 7}]}\n"
    )

    check("orders")

    warnings = [line for line in answered(capsys).splitlines() if "in_flight" in line]
    assert [line.partition(" is not applied")[0] for line in warnings] == [
        "the limit in_flight of PARKED.ALIAS",
        "the limit in_flight of ORDERS.IN",
    ]


def test_check_knows_the_targets_that_rules_name() -> None:
    assert fixed_targets(parse(RULES).rules, "QM1") == ("ORDERS.IN", "PARKED")
    assert fixed_targets(parse(RULES).rules, "QM2") == ("ORDERS.IN", "ELSEWHERE", "PARKED")


@pytest.mark.usefixtures("granted")
def test_check_ends_with_an_exit_code_for_its_result() -> None:
    called = [sys.executable, "-c", "from mqdlq.cli import app; app()", "check"]

    done = [
        subprocess.run([*called, name], capture_output=True, text=True, check=False, env=os.environ)
        for name in ("orders", "nobody")
    ]

    assert (done[0].returncode, done[0].stdout.splitlines()[1]) == (
        1,
        "sense: no authority is missing",
    )
    assert (done[1].returncode, done[1].stdout) == (2, "")
    assert "nobody" in done[1].stderr


def test_check_reports_evidence_that_the_user_cannot_read(
    granted: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = "SYSTEM.ADMIN.PERFM.EVENT"
    with (tmp_path / "orders.yaml").open("a") as file:
        file.write(f"evidence: {{depth_events: {events}}}\n")

    check("orders")
    assert [line for line in answered(capsys).splitlines() if line.startswith("evidence: ")] == [
        (
            f"evidence: MQRC_NOT_AUTHORIZED (2035): user alice lacks +browse on queue {events} (SET"
            f" AUTHREC PROFILE('{events}') OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(BROWSE))"
        ),
        (
            "evidence: queue DLQ.ORDERS has no depth events; to enable them: ALTER QMGR"
            " PERFMEV(ENABLED) and ALTER QLOCAL(DLQ.ORDERS) QDPHIEV(ENABLED)"
        ),
    ]
    granted(f"SET AUTHREC PROFILE('{events}') OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(BROWSE)")
    granted("ALTER QMGR PERFMEV(ENABLED)\nALTER QLOCAL(DLQ.ORDERS) QDPHIEV(ENABLED)")
    check("orders")
    assert "evidence: " not in answered(capsys)
