"""Test the extra links of the task report."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk import DAG

from mqdlq.airflow.links import LINKS, airflow_address
from mqdlq.airflow.operators.stages import Report

RUN = "/mqdlq/dags/mq_dlq_demo/runs/demo-manual__2026-11-21T02-49-22"
TI = SimpleNamespace(run_id="manual__2026-11-21T02:49:22+00:00")


def report_task() -> Report:
    with DAG("mq_dlq_demo", schedule=None, auto_register=False):
        return Report(task_id="report", handler="demo")


@pytest.fixture(autouse=True)
def _without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__API__BASE_URL", raising=False)


def links(task: Report) -> list[str]:
    return [link.get_link(task, ti_key=TI) for link in LINKS]


def test_the_links_lead_to_the_report_and_to_the_run() -> None:
    assert airflow_address() == ""
    assert links(report_task()) == [f"{RUN}/report", RUN]


def test_the_links_name_the_run_of_a_backfill_as_the_ledger_does() -> None:
    task = report_task()
    task.reported_run_id = "demo-x-backfill-2"

    assert links(task)[1] == "/mqdlq/dags/mq_dlq_demo/runs/demo-x-backfill-2"


def test_the_links_begin_with_the_address_of_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.com/airflow/")

    assert links(report_task()) == [
        f"https://example.com/airflow{RUN}/report",
        f"https://example.com/airflow{RUN}",
    ]


def test_airflow_finds_the_links_in_the_serialized_task() -> None:
    from airflow.serialization.serialized_objects import DagSerialization  # noqa: PLC0415

    task = report_task()
    data = DagSerialization.to_dict(task.dag)
    read = DagSerialization.from_dict(data).get_task("report")

    assert read.extra_links == ["Report", "Run in Dead letters"]
    assert [link.xcom_key for link in read.operator_extra_links] == [
        "_link_ReportLink",
        "_link_RunPageLink",
    ]
