"""The first files of a handler: they are valid, and no existing file is overwritten."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mqdlq.cli import app
from mqdlq.errors import HandlerError
from mqdlq.handlers import check_handler, load_handler
from mqdlq.handlers.starter_files import (
    AIRFLOW_SERVICES,
    add_command,
    name_for,
    starter_files,
    write_new_files,
)
from mqdlq.mqi.airflow_connections import AirflowConnection
from tests.support.paths import ROOT

CONNECTION = AirflowConnection(
    "mq_qm1",
    "mqdlq",
    {"queue_manager": "QM1", "channel": "DLQ.SVRCONN", "hosts": "mq2(1415), mq3"},
    host="mq1.example.com",
    port=1415,
    login="dlq",
)


def write(directory: Path, name: str = "orders", **given: Any) -> list[str]:
    """Write the files; return the names of the new ones."""
    files = starter_files(directory, name, CONNECTION, **given)
    return [path.relative_to(directory).as_posix() for path in write_new_files(files)]


def failure(directory: Path, **given: Any) -> str:
    with pytest.raises(HandlerError) as caught:
        write(directory, **given)
    return str(caught.value).replace(f"{directory}/", "")


@pytest.mark.parametrize("given", [{}, {"queue": "ORDERS.DLQ/1", "retry_interval": 5}], ids=str)
def test_the_written_handler_is_valid_without_a_warning(
    given: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path, **given)

    path = tmp_path / "handlers" / "orders.yaml"
    checked = check_handler(path, path.read_bytes())
    assert checked.table is not None
    assert [*checked.diagnostics, *checked.table.diagnostics] == []
    assert checked.table.table is not None
    assert checked.table.table.control.input_q.strip() == given.get("queue", "")
    assert checked.table.table.control.retry_interval_s == given.get("retry_interval", 60)


def test_the_handler_asks_before_it_acts_and_has_no_schedule(tmp_path: Path) -> None:
    write(tmp_path)

    handler = load_handler("orders", tmp_path / "handlers")
    assert (handler.connection, handler.schedule) == ("mq_qm1", None)
    assert handler.approval.messages == 0


def test_the_dag_file_has_three_lines_and_names_its_own_directory(tmp_path: Path) -> None:
    write(tmp_path)

    text = (tmp_path / "mq_dlq.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) == 3
    assert 'handler_dags(Path(__file__).resolve().with_name("handlers"))' in text


def test_the_command_that_adds_the_connection_has_all_its_settings() -> None:
    words = shlex.split(add_command(CONNECTION))

    printed = CliRunner().invoke(app, [*words[1:], "--print", "json"])

    assert json.loads(printed.stdout) == CONNECTION.document()


def test_the_example_of_the_connection_has_no_password(tmp_path: Path) -> None:
    write(tmp_path)

    text = (tmp_path / "orders.connections.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == {"mq_qm1": CONNECTION.document()}
    assert f"#   {add_command(CONNECTION)}\n" in text


def test_the_override_is_for_the_services_of_airflows_own_compose_file(tmp_path: Path) -> None:
    write(tmp_path)

    override = yaml.safe_load((tmp_path / "docker-compose.mqdlq.yaml").read_text())
    assert tuple(override["services"]) == AIRFLOW_SERVICES
    assert override["volumes"] == {"mqdlq-state": None}


def test_the_override_is_for_the_airflow_services_of_a_compose_file(tmp_path: Path) -> None:
    text = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
    (tmp_path / "docker-compose.yaml").write_text(text, encoding="utf-8")

    write(tmp_path)

    override = yaml.safe_load((tmp_path / "docker-compose.mqdlq.yaml").read_text())
    assert {"airflow-scheduler", "airflow-triggerer"} <= set(override["services"])
    assert "postgres" not in override["services"]
    assert override["services"]["airflow-scheduler"]["environment"]["MQDLQ_HOME"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: [", "is not a compose file: ParserError; correct it [MQDLQ-322]"),
        ("- a", "is not a compose file: TypeError; correct it [MQDLQ-322]"),
        (
            "services: {db: {image: postgres}}",
            (
                "has no service of Airflow: none sets a variable AIRFLOW__…; give another directory"
                " [MQDLQ-323]"
            ),
        ),
    ],
)
def test_another_compose_file_is_an_error(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(text, encoding="utf-8")

    assert failure(tmp_path) == f"compose.yaml {fault}"


def test_files_with_another_text_are_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path)
    table = tmp_path / "handlers" / "orders.rules"
    table.write_text("ACTION(IGNORE)\n", encoding="utf-8")
    (tmp_path / "handlers" / "orders.yaml").unlink()
    (tmp_path / "handlers" / "orders.yaml").mkdir()

    assert failure(tmp_path) == (
        "nothing is written, because these files exist: handlers/orders.yaml,"
        " handlers/orders.rules; remove or rename them, or give another directory or --handler"
        " [MQDLQ-321]"
    )
    assert table.read_text(encoding="utf-8") == "ACTION(IGNORE)\n"


def test_a_second_handler_shares_the_dag_file(tmp_path: Path) -> None:
    write(tmp_path)

    assert write(tmp_path) == []
    assert write(tmp_path, "payments") == [
        "handlers/payments.yaml",
        "handlers/payments.rules",
        "payments.connections.yaml",
    ]


def test_a_name_comes_from_the_queue_manager() -> None:
    assert [name_for(name) for name in ("QM1", "PAY.QM/1%")] == ["qm1", "pay_qm_1_"]


def test_invalid_names_are_errors(tmp_path: Path) -> None:
    assert failure(tmp_path, name="history") == (
        "'history': mq_dlq_history is another DAG of this project: give the handler another name;"
        " give --handler [MQDLQ-320]"
    )
    assert failure(tmp_path, queue="A B") == (
        "'A B' is not the name of a queue; use up to 48 letters, digits and . _ / % [MQDLQ-324]"
    )
