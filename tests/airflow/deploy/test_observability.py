"""The files of deploy/observability use only metrics that runs send, and agree with the pages."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import yaml

from mqdlq.airflow.metrics import Metric
from tests.support.observability import kit
from tests.support.observability.statsd_exporter import Mapping
from tests.support.paths import ROOT

RUNBOOK = (ROOT / "docs" / "how-to" / "runbook.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "how-to" / "observability.md").read_text(encoding="utf-8")
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus"
)


@pytest.mark.parametrize("name", kit.alerts())
def test_an_alert_has_a_severity_words_and_an_entry_in_the_runbook(name: str) -> None:
    alert = kit.alerts()[name]
    notes = alert["annotations"]

    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert notes["summary"]
    assert notes["description"].endswith(".")
    assert notes["runbook_url"] == f"https://mqdlq.example.com/how-to/runbook.html#{name.lower()}"
    assert f"\n### {name}\n" in RUNBOOK
    row = rf"\| \[{name}\]\(runbook\.md#{name.lower()}\) \| .+ \| {alert['labels']['severity']} \|"
    assert re.search(row, PAGE)


@pytest.mark.parametrize("name", kit.alerts())
def test_an_alert_uses_declared_metrics_and_labels(name: str) -> None:
    assert not list(kit.faults_of(kit.alerts()[name]["expr"]))


@pytest.mark.parametrize("name", kit.records())
def test_a_recording_rule_uses_declared_metrics_and_labels(name: str) -> None:
    assert not list(kit.faults_of(kit.records()[name]))


@pytest.mark.parametrize("title", kit.panel_queries())
def test_a_panel_uses_declared_metrics_and_labels(title: str) -> None:
    assert not list(kit.faults_of(kit.panel_queries()[title]))


def test_a_metric_or_label_that_no_run_sends_is_found() -> None:
    expression = 'sum by (qmgr, color) (mqdlq_deph{queue="A"} + mqdlq_run_failed)'

    assert list(kit.faults_of(expression)) == [
        "no metric mqdlq_deph",
        "no label queue",
        "no label qmgr",
        "no label color",
    ]


def test_each_metric_has_a_panel_or_an_alert() -> None:
    queries = [*kit.panel_queries().values(), *kit.records().values()]
    queries += [alert["expr"] for alert in kit.alerts().values()]

    unused = [one for one in Metric if not any(one.in_prometheus in query for query in queries)]
    assert not unused


def test_each_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    tests = yaml.safe_load(kit.RULES_TEST.read_text(encoding="utf-8"))["tests"]
    for name in kit.alerts():
        found = {
            bool(check["exp_samples"])
            for test in tests
            if test["name"].startswith(f"{name} ")
            for check in test["promql_expr_test"]
            if f'alertname="{name}"' in check["expr"]
        }
        assert found == {True, False}, name


@needs_promtool
def test_promtool_finds_no_fault_in_the_rules() -> None:
    checked = subprocess.run(
        [str(PROMTOOL), "check", "rules", str(kit.RULES)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
@needs_promtool
def test_the_unit_tests_of_the_rules_pass() -> None:
    tested = subprocess.run(
        [str(PROMTOOL), "test", "rules", str(kit.RULES_TEST)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_dashboard_takes_its_data_source_from_a_variable() -> None:
    dashboard = kit.dashboard()
    source = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}

    assert list(variables) == ["DS_PROMETHEUS", "qmgr", "queue", "handler"]
    assert variables["DS_PROMETHEUS"]["type"] == "datasource"
    for panel in dashboard["panels"]:
        assert panel["datasource"] == source
        assert [target["datasource"] for target in panel["targets"]] == [source]
        assert panel["description"]
    for variable in ("qmgr", "queue", "handler"):
        assert variables[variable]["datasource"] == source
        found = re.fullmatch(
            rf"label_values\((.+), {variable}\)", variables[variable]["definition"]
        )
        assert found
        assert not list(kit.faults_of(found[1]))


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in kit.dashboard()["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23


@pytest.mark.parametrize("metric", Metric)
def test_the_mapping_for_statsd_gives_each_metric_its_name_in_prometheus(metric: Metric) -> None:
    assert Mapping(kit.MAPPING).name(f"airflow.{metric}", metric.kind) == metric.in_prometheus


@pytest.mark.parametrize("metric", Metric)
def test_the_collector_gives_each_metric_its_name_in_prometheus(metric: Metric) -> None:
    """The exporter then writes an underscore for a dot, and adds `_total` to a counter."""
    collector = yaml.safe_load(kit.COLLECTOR.read_text(encoding="utf-8"))
    (rename,) = collector["processors"]["metricstransform"]["transforms"]
    pattern = rename["include"].replace("$$", "$")  # $ begins a variable of the environment

    renamed = re.sub(pattern, rename["new_name"].replace("$${1}", r"\1"), f"airflow.{metric}")

    total = "_total" if metric.kind == "counter" else ""
    assert renamed.replace(".", "_") + total == metric.in_prometheus


def test_the_collector_keeps_one_series_for_all_tasks_until_the_next_run() -> None:
    collector = yaml.safe_load(kit.COLLECTOR.read_text(encoding="utf-8"))
    (pipeline,) = collector["service"]["pipelines"].values()

    for kind in ("receivers", "processors", "exporters"):
        assert pipeline[kind] == list(collector[kind])
    (removed,) = collector["processors"]["resource"]["attributes"]
    assert removed == {"key": "service.instance.id", "action": "delete"}
    assert pipeline["processors"][-1] == "deltatocumulative"
    assert collector["processors"]["deltatocumulative"]["max_stale"] == "720h"
    assert collector["exporters"]["prometheus"]["metric_expiration"] == "720h"
