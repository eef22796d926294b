"""The paths of the operator's page."""

from __future__ import annotations

import pytest

from mqdlq.reading.page_paths import Paths, dag_of, handler_of

HERE = Paths("/airflow")


@pytest.mark.parametrize(
    ("dag_id", "handler"),
    [
        ("mq_dlq_demo", "demo"),
        ("mq_dlq_mq_dlq_x", "mq_dlq_x"),
        ("mq_dlq_history", None),
        ("mq_dlq_restore", None),
        ("mq_dlq_broken_handlers", None),
        ("mq_dlq_", None),
        ("another", None),
        ("", None),
    ],
)
def test_a_dag_of_the_project_names_its_handler(dag_id: str, handler: str | None) -> None:
    assert handler_of(dag_id) == handler


def test_the_dag_of_a_handler_names_that_handler() -> None:
    assert handler_of(dag_of("orders")) == "orders"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (HERE.overview(), "/fleet"),
        (HERE.search({"text": "a b&c", "state": ""}), "/search?text=a+b%26c"),
        (HERE.audit({"page": 0}), "/audit?page=0"),
        (HERE.audit({"who": "x"}), "/audit?who=x"),
        (HERE.licences(), "/licences"),
        (HERE.static("page.css", {"v": "1f"}), "/static/page.css?v=1f"),
        (HERE.handler("demo"), "/dags/mq_dlq_demo"),
        (HERE.causes("demo", {"kind": ["a", "b"]}), "/dags/mq_dlq_demo/causes?kind=a&kind=b"),
        (HERE.cause("demo", "c1"), "/dags/mq_dlq_demo/causes/c1"),
        (HERE.cause_rule("demo", "c1"), "/dags/mq_dlq_demo/causes/c1/rule"),
        (
            HERE.cause_rule_file("demo", "c1", "diff", {"before": 0}),
            "/dags/mq_dlq_demo/causes/c1/rule.diff?before=0",
        ),
        (HERE.message("demo", "0a"), "/dags/mq_dlq_demo/messages/0a"),
        (HERE.runs("demo"), "/dags/mq_dlq_demo/runs"),
        (HERE.run("demo", "a+b/c"), "/dags/mq_dlq_demo/runs/a%2Bb%2Fc"),
        (HERE.run_report("demo", "r"), "/dags/mq_dlq_demo/runs/r/report"),
        (HERE.rules("demo"), "/dags/mq_dlq_demo/rules"),
        (HERE.history("demo"), "/dags/mq_dlq_demo/history"),
        (HERE.act("demo", {"cause": "c1"}), "/dags/mq_dlq_demo/act?cause=c1"),
        (HERE.handler_audit("demo"), "/dags/mq_dlq_demo/audit"),
    ],
)
def test_a_path_of_the_page_begins_where_airflow_shows_it(path: str, expected: str) -> None:
    assert path == f"/airflow/mqdlq{expected}"


def test_a_path_outside_the_page_names_the_address_of_airflow() -> None:
    paths = Paths("https://airflow.example.com")

    assert paths.handler("demo") == "https://airflow.example.com/mqdlq/dags/mq_dlq_demo"
    assert paths.airflow_run("demo", "manual__1") == (
        "https://airflow.example.com/dags/mq_dlq_demo/runs/manual__1"
    )
