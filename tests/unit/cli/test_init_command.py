"""Test `mqdlq init` for connections that the environment defines; it starts no Airflow for them.

tests/e2e/documents/test_long_installed.py creates an embedded queue manager, and handles its queue.
"""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import embedded_mq
from mqdlq.cli import app

EXTRA = {"queue_manager": "QM1", "transport": "embedded", "client": "ibmmq"}
SPARK = (
    "airflow connections add spark_default --conn-type spark --conn-host 'local[*]'"
    ' --conn-extra \'{"deploy-mode": "client"}\'  # unless it is defined'
)

TRIGGER = (
    "  airflow dags trigger mq_dlq_{} --conf '{{\"dry_run\": true}}'"
    "  # reports, and moves no message"
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Define the connection mq_one to the queue manager QM1, in a shell without an Airflow."""
    for name in ("AIRFLOW_HOME", "MQDLQ_RULES_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path / "state"))
    document = {"conn_type": "ibmmq", "extra": EXTRA}
    monkeypatch.setenv("AIRFLOW_CONN_MQ_ONE", json.dumps(document))
    monkeypatch.chdir(tmp_path)
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(ONE.DLQ); ALTER QMGR DEADQ(ONE.DLQ)")
    return tmp_path


def in_own_airflow(place: Path, handler: str, *connection: str) -> list[str]:
    return [
        f"  export AIRFLOW_HOME={place}/airflow AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL=1",
        f"  mkdir -p {place}/airflow/dags",
        f"  ln -s {place}/dlq/mq_dlq.py {place}/airflow/dags/mq_dlq.py",
        *connection,
        f"  {SPARK}",
        "  airflow standalone  # or restart your services, in this shell; the rest in another one",
        f"  airflow dags unpause mq_dlq_{handler}",
        TRIGGER.format(handler),
    ]


def call(place: str, **options: str) -> Result:
    words = [[f"--{name.replace('_', '-')}", value] for name, value in options.items()]
    return CliRunner().invoke(app, ["init", place, *chain(*words)])


def init(place: str, **options: str) -> list[str]:
    done = call(place, **options)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def failure(place: str, **options: str) -> str:
    done = call(place, **options)
    assert done.exit_code == 1
    return done.output.removeprefix("mqdlq: ").rstrip("\n")


def test_the_only_connection_names_queue_manager_and_queue(place: Path) -> None:
    printed = init("dlq")

    assert printed == [
        "Wrote:",
        "  dlq/handlers/qm1.yaml",
        "  dlq/handlers/qm1.rules",
        "  dlq/mq_dlq.py",
        "  dlq/.airflowignore",
        "  dlq/qm1.connections.yaml",
        "  dlq/docker-compose.mqdlq.yaml",
        "The dead-letter queue of QM1 is ONE.DLQ.",
        "Next:",
        f"  export MQDLQ_RULES_DIR={place}/dlq/handlers",
        "  mqdlq run qm1 --conf '{\"dry_run\": true}'  # reports, and moves no message",
        "  mqdlq run qm1",
        "Or in your own Airflow:",
        f"  export MQDLQ_RULES_DIR={place}/dlq/handlers",
        *in_own_airflow(place, "qm1"),
    ]
    assert "connection: mq_one\n" in (place / "dlq/handlers/qm1.yaml").read_text(encoding="utf-8")


def test_a_queue_manager_that_does_not_answer_is_reported(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_HOME", str(place / "elsewhere"))

    printed = init("dlq", connection="mq_one", handler="orders")

    assert printed[1] == "  dlq/handlers/orders.yaml"
    assert printed[7] == (
        "The dead-letter queue is not known yet: MQCONN of queue manager QM1 failed:"
        " MQRC_Q_MGR_NAME_ERROR (2058) [MQDLQ-100]"
    )


def test_without_a_connection_the_next_command_defines_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MQDLQ_HOME")

    printed = init("dlq", queue_manager="QM2", queue="TWO.DLQ")

    assert "\nINPUTQ('TWO.DLQ') " in Path("dlq/handlers/qm2.rules").read_text()
    assert printed[7:] == [
        "The connection mq_qm2 is not defined: host, channel and user below are examples.",
        "Next:",
        f"  export MQDLQ_HOME={place}/dlq/var MQDLQ_RULES_DIR={place}/dlq/handlers",
        (
            "  mqdlq connection add mq_qm2 --queue-manager QM2 --channel DLQ.SVRCONN"
            " --host mq.example.com --user dlq"
        ),
        "  mqdlq rules check dlq/handlers/qm2.yaml",
        "  mqdlq check qm2  # if the state queue is missing: DEFINE QLOCAL(MQDLQ.STATE)",
        "  mqdlq run qm2 --conf '{\"dry_run\": true}'  # reports, and moves no message",
        "  mqdlq run qm2",
        "Or in your own Airflow:",
        f"  export MQDLQ_HOME={place}/dlq/var MQDLQ_RULES_DIR={place}/dlq/handlers",
        *in_own_airflow(
            place,
            "qm2",
            "  mqdlq connection add mq_qm2 --queue-manager QM2 --channel DLQ.SVRCONN"
            " --host mq.example.com --user dlq",
        ),
    ]


def test_in_an_airflow_the_next_commands_are_airflows(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(place / "airflow"))

    outside = init("dlq")
    inside = init("airflow/dags/mqdlq")

    assert outside[9:] == [
        f"  export MQDLQ_RULES_DIR={place}/dlq/handlers",
        f"  ln -s {place}/dlq/mq_dlq.py {place}/airflow/dags/mq_dlq.py",
        f"  {SPARK}",
        "  airflow dags unpause mq_dlq_qm1",
        TRIGGER.format("qm1"),
    ]
    assert not [line for line in inside if "ln -s" in line]


def test_airflow_looks_for_no_dag_in_the_home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mqdlq run` of an installed package writes a DAG file with the same DAG ids there."""
    monkeypatch.delenv("MQDLQ_HOME")
    monkeypatch.delenv("AIRFLOW_CONN_MQ_ONE")
    beside = init("dlq", queue_manager="QM5")
    monkeypatch.delenv("MQDLQ_HOME")
    inside = init("airflow/dags/mqdlq", queue_manager="QM6")

    assert any(f"MQDLQ_HOME={place}/dlq/var " in line for line in beside)
    assert (place / "dlq" / ".airflowignore").read_text(encoding="utf-8").splitlines()[1:] == [
        "var/"
    ]
    assert any(f"MQDLQ_HOME={place}/airflow/mqdlq " in line for line in inside)
    assert not [line for line in inside if "ln -s" in line]


def test_with_a_compose_file_the_next_command_is_dockers(place: Path) -> None:
    (place / "compose.yaml").write_text(
        "services: {scheduler: {environment: [AIRFLOW__CORE__EXECUTOR=LocalExecutor]}}\n",
        encoding="utf-8",
    )

    printed = init(".")

    assert printed[-1] == (
        f"  cd {place} && docker compose -f compose.yaml -f docker-compose.mqdlq.yaml up --detach"
    )


def test_a_second_call_writes_nothing() -> None:
    init("dlq")

    assert init("dlq")[0] == "All files exist already, with the same text:"


def test_an_embedded_queue_manager_of_that_name_is_not_touched(place: Path) -> None:
    assert failure("dlq", embedded="QM1") == (
        "the embedded queue manager QM1 already exists; give another name [MQDLQ-153]"
    )
    assert not (place / "dlq" / "mq_dlq.py").exists()


def test_the_queue_manager_must_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    end = "; give --connection, --queue-manager or --embedded [MQDLQ-154]"
    begin = "no option names the queue manager, and the environment defines "

    monkeypatch.setenv("AIRFLOW_CONN_MQ_TWO", json.dumps({"conn_type": "ibmmq", "extra": EXTRA}))
    assert failure("dlq") == f"{begin}mq_one, mq_two{end}"
    monkeypatch.delenv("AIRFLOW_CONN_MQ_ONE")
    monkeypatch.delenv("AIRFLOW_CONN_MQ_TWO")
    assert failure("dlq") == f"{begin}no connection to a queue manager{end}"


def test_an_invalid_id_is_an_error() -> None:
    assert failure("dlq", connection="mq one").endswith("[MQDLQ-145]")
