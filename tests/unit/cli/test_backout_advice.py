"""`mqdlq backout-advice`: which queues have no working backout queue, and the MQSC for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import embedded_mq
from mqdlq.cli import app

pytestmark = pytest.mark.slow

QUEUES = """
DEFINE QLOCAL(DLQ)
ALTER QMGR DEADQ(DLQ)
DEFINE QLOCAL(MQDLQ.STATE)
DEFINE QLOCAL(XMIT) USAGE(XMITQ)
DEFINE QLOCAL(FINE) BOTHRESH(3) BOQNAME(FINE.BACKOUT)
DEFINE QLOCAL(FINE.BACKOUT)
"""
FAULTY = """
DEFINE QLOCAL(ORDERS)
DEFINE QLOCAL(A) BOTHRESH(5)
DEFINE QLOCAL(B) BOQNAME(B.BACKOUT)
DEFINE QLOCAL(B.BACKOUT) PUT(DISABLED) MAXMSGL(1000)
DEFINE QLOCAL(C) BOTHRESH(5) BOQNAME(NOWHERE)
DEFINE QLOCAL(D) BOTHRESH(5) BOQNAME(DLQ)
DEFINE QLOCAL(E) BOTHRESH(5) BOQNAME(E)
DEFINE QALIAS(F.BACKOUT) TARGET(FINE.BACKOUT)
DEFINE QLOCAL(F) BOTHRESH(5) BOQNAME(F.BACKOUT)
"""
OF_DLQ = (
    "BOQNAME DLQ is the dead-letter queue (DEADQ), where no rule matches messages without an MQDLH"
)
ENDLESS = (
    "BOTHRESH is 0 and BOQNAME is blank: a message that cannot be processed is backed out without"
    " end"
)
HANDLER = """
connection: mq_test
queue_kind: backout
table:
  control: {input_q: FINE.BACKOUT}
  rules:
    - {extensions: {expires_in: "< 1h"}, action: IGNORE}
    - {action: FWD, fwdq: PARKED}
"""


@pytest.fixture(autouse=True, params=["pymqi", "ibmmq"])
def _place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    extra = {"queue_manager": "QM1", "transport": "embedded", "client": request.param}
    connection = {"conn_type": "ibmmq", "extra": extra}
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path / "rules"))
    monkeypatch.setenv("AIRFLOW_CONN_MQ_TEST", json.dumps(connection))
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/fine.yaml").write_text(HANDLER, encoding="utf-8")
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", QUEUES)
    yield
    embedded_mq.faults.set("")


def advise(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["backout-advice", "mq_test", *arguments])


def test_a_queue_with_a_working_backout_queue_has_no_finding_and_names_its_handler() -> None:
    done = advise()

    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "BACKOUT ADVICE  * @ QM1: 1 queue, 0 with findings"
    assert done.stdout.split()[-5:] == ["FINE", "3", "FINE.BACKOUT", "fine", "ok"]


def test_each_queue_without_a_working_backout_queue_has_findings_and_commands_that_correct_it() -> (
    None
):
    embedded_mq.run_mqsc("QM1", FAULTY)

    done = advise("--format", "json")

    assert done.exit_code == 1
    found = {
        one["queue"]: (one["findings"], one["commands"])
        for one in json.loads(done.stdout)["queues"]
    }
    assert found == {
        "A": (
            ["BOQNAME is blank: after 5 backouts, messages go to the dead-letter queue"],
            [
                "DEFINE QLOCAL('A.BACKOUT') DEFPSIST(YES) MAXMSGL(4194304)",
                "ALTER QLOCAL('A') BOTHRESH(5) BOQNAME('A.BACKOUT')",
            ],
        ),
        "B": (
            [
                "BOTHRESH is 0, so that BOQNAME has no effect",
                "puts to BOQNAME B.BACKOUT are inhibited",
                "BOQNAME B.BACKOUT takes messages of 1,000 bytes, the queue of 4,194,304",
            ],
            [
                "ALTER QLOCAL('B') BOTHRESH(3)",
                "ALTER QLOCAL('B.BACKOUT') PUT(ENABLED)",
                "ALTER QLOCAL('B.BACKOUT') MAXMSGL(4194304)",
            ],
        ),
        "C": (
            ["BOQNAME NOWHERE is not defined"],
            ["DEFINE QLOCAL('NOWHERE') DEFPSIST(YES) MAXMSGL(4194304)"],
        ),
        "D": (
            [OF_DLQ],
            [
                "DEFINE QLOCAL('D.BACKOUT') DEFPSIST(YES) MAXMSGL(4194304)",
                "ALTER QLOCAL('D') BOTHRESH(5) BOQNAME('D.BACKOUT')",
            ],
        ),
        "E": (
            ["BOQNAME is the queue itself"],
            [
                "DEFINE QLOCAL('E.BACKOUT') DEFPSIST(YES) MAXMSGL(4194304)",
                "ALTER QLOCAL('E') BOTHRESH(5) BOQNAME('E.BACKOUT')",
            ],
        ),
        "F": (["BOQNAME F.BACKOUT is not a local queue, so that no handler can serve it"], []),
        "FINE": ([], []),
        "ORDERS": (
            [ENDLESS],
            [
                "DEFINE QLOCAL('ORDERS.BACKOUT') DEFPSIST(YES) MAXMSGL(4194304)",
                "ALTER QLOCAL('ORDERS') BOTHRESH(3) BOQNAME('ORDERS.BACKOUT')",
            ],
        ),
    }
    commands = [command for _, commands in found.values() for command in commands]
    embedded_mq.run_mqsc("QM1", "\n".join(commands))
    assert [one["findings"] for one in json.loads(advise("--format", "json").stdout)["queues"]] == [
        [],
        [],
        [],
        [],
        [],
        ["BOQNAME F.BACKOUT is not a local queue, so that no handler can serve it"],
        [],
        [],
    ]


def test_a_pattern_selects_queues_by_their_names() -> None:
    embedded_mq.run_mqsc("QM1", FAULTY)

    assert advise("OR*").stdout.startswith("BACKOUT ADVICE  OR* @ QM1: 1 queue, 1 with findings")
    assert advise("OR*").exit_code == 1
    assert advise("FI*").exit_code == 0
    assert advise("NONE*").exit_code == 0


def test_a_backout_queue_is_left_out_if_only_the_queue_that_names_it_is_outside_the_pattern() -> (
    None
):
    embedded_mq.run_mqsc("QM1", FAULTY)

    done = advise("B.BACKOUT")

    assert done.stdout == "BACKOUT ADVICE  B.BACKOUT @ QM1: 0 queues, 0 with findings\n"
    assert done.exit_code == 0


def test_handlers_of_other_queue_managers_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(OTHER.STATE) BOTHRESH(3) BOQNAME(FINE.BACKOUT)")
    extra = {"queue_manager": "QM2", "transport": "embedded"}
    connection = json.dumps({"conn_type": "ibmmq", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_MQ_OTHER", connection)
    other = HANDLER.replace("mq_test", "mq_other") + "state_queue: OTHER.STATE\n"
    by_input_q_mgr = HANDLER.replace("FINE.BACKOUT", "FINE.BACKOUT, input_q_mgr: QM2")
    (tmp_path / "rules/other.yaml").write_text(other, encoding="utf-8")
    (tmp_path / "rules/elsewhere.yaml").write_text(by_input_q_mgr, encoding="utf-8")
    (tmp_path / "rules/again.yaml").write_text(
        other.replace("FINE.BACKOUT", "FINE.BACKOUT, input_q_mgr: QM1").replace("OTHER.", "MQDLQ."),
        encoding="utf-8",
    )

    done = advise("--format", "json")

    found = {one["queue"]: one["handlers"] for one in json.loads(done.stdout)["queues"]}
    assert found == {"FINE": ["again", "fine"], "OTHER.STATE": ["again", "fine"]}


def test_a_queue_manager_that_does_not_answer_is_an_error_with_exit_code_1() -> None:
    embedded_mq.faults.set("MQCONNX:1:2059:before")

    done = advise()

    assert done.exit_code == 1
    assert "MQRC_Q_MGR_NOT_AVAILABLE (2059)" in done.stderr
