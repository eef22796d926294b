"""The metrics of the demo's runs, from Airflow by StatsD to a real Prometheus.

MQDLQ_PICTURES names the directory that the picture goes to, docs/images for the project's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from mqdlq.airflow.metrics import Metric
from tests.e2e.running.browser import browser
from tests.e2e.test_demo import DLQ, fill, run_demo
from tests.support.observability import kit
from tests.support.observability.prometheus import Prometheus, prometheus
from tests.support.observability.statsd_exporter import Exporter, statsd_exporter

pytestmark = [pytest.mark.e2e, pytest.mark.long]

RUNS = 2
PLACE = {"handler": "demo", "qmgr": "QM1", "queue": DLQ}
SHOWN = ("Messages on the queue", "Dead letters by reason")
"""The panels in the picture."""


@pytest.fixture(scope="module", name="collected")
def _collected(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Exporter, Prometheus]]:
    """Run the demo some times, with Airflow's metrics sent to an exporter."""
    home = tmp_path_factory.mktemp("observability")
    with (
        statsd_exporter(kit.MAPPING) as (exporter, statsd_port, http_port),
        prometheus(home, f"127.0.0.1:{http_port}") as server,
    ):
        for number in range(RUNS):
            fill(home, "ibmmq")
            ended = run_demo(
                home,
                "ibmmq",
                AIRFLOW__METRICS__STATSD_ON="True",
                AIRFLOW__METRICS__STATSD_HOST="127.0.0.1",
                AIRFLOW__METRICS__STATSD_PORT=str(statsd_port),
                AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED="True",
            )
            assert ended.returncode == 0, ended.stdout + ended.stderr
            server.wait_for(f'mqdlq_outcomes_total{{outcome="delivered"}} >= {25 * (number + 1)}')
        server.wait_for('mqdlq:outcomes:increase1h{outcome="delivered"} > 0')
        yield exporter, server


def test_each_declared_metric_arrives_with_its_kind_and_labels(
    collected: tuple[Exporter, Prometheus],
) -> None:
    exporter, _ = collected

    assert not [line for line in exporter.invalid if "mqdlq" in line]
    arrived = {
        name: (kind, {label for labels in series for label, _ in labels})
        for (name, kind), series in exporter.values.items()
        if name.startswith("mqdlq")
    }
    assert arrived == {m.in_prometheus: (m.kind, set(m.labels)) for m in Metric}


def test_the_series_of_a_queue_are_few_and_have_its_names(
    collected: tuple[Exporter, Prometheus],
) -> None:
    _, server = collected
    found = server.get("/series", **{"match[]": '{__name__=~"mqdlq_.+"}'})

    assert len(found) < 60
    for labels in found:
        name = labels["__name__"]
        metric = next(one for one in Metric if one.in_prometheus == name)
        own = {label: PLACE[label] for label in metric.labels if label in PLACE}
        assert own.items() <= labels.items()


@pytest.mark.parametrize("title", kit.panel_queries())
def test_a_panel_of_the_dashboard_has_data(
    title: str, collected: tuple[Exporter, Prometheus]
) -> None:
    _, server = collected

    assert server.query(in_prometheus(kit.panel_queries()[title]))


def test_prometheus_evaluates_all_rules_without_an_error(
    collected: tuple[Exporter, Prometheus],
) -> None:
    _, server = collected
    rules = [rule for group in server.get("/rules")["groups"] for rule in group["rules"]]

    assert {rule["name"] for rule in rules} == {*kit.alerts(), *kit.records()}
    assert {rule["name"]: rule["health"] for rule in rules if rule["health"] != "ok"} == {}
    states = {rule["name"]: rule["state"] for rule in rules if rule["type"] == "alerting"}
    # Seven messages of the demo need attention, and some of its old messages stay.
    assert {name for name, state in states.items() if state != "inactive"} == {
        "MqdlqMessageTooOld",
        "MqdlqNeedsAttention",
    }


def test_prometheus_draws_the_queries_of_the_dashboard(
    collected: tuple[Exporter, Prometheus], tmp_path: Path
) -> None:
    _, server = collected
    pictures = Path(os.environ.get("MQDLQ_PICTURES") or tmp_path)
    words = {}
    for number, title in enumerate(SHOWN):
        words[f"g{number}.expr"] = in_prometheus(kit.panel_queries()[title])
        words |= {f"g{number}.tab": "0", f"g{number}.range_input": "10m"}
        words[f"g{number}.stacked"] = "1" if number else "0"
    with browser(tmp_path / "browser") as page:
        size = {"width": 1280, "height": 1640, "deviceScaleFactor": 1, "mobile": False}
        page.ask("Emulation.setDeviceMetricsOverride", **size)
        page.open(f"{server.address}/graph?{urlencode(words)}", "MQRC_Q_FULL")
        page.run("window.scrollTo(0, 0)")
        page.picture(pictures / "observability.webp")
    assert (pictures / "observability.webp").stat().st_size


def in_prometheus(query: str) -> str:
    """Return a panel's query with all values chosen in each variable."""
    for variable in ("handler", "qmgr", "queue"):
        query = query.replace(f"${variable}", ".*")
    return query
