"""Metrics through Airflow's own: what an OpenTelemetry collector gets of a run."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from airflow.sdk._shared.observability.metrics import otel_logger
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from opentelemetry import metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from mqdlq.airflow.metrics import CAUSES, REASONS, Metric
from tests.airflow.reporting.ended_runs import handled, tell


class Collector(HTTPServer):
    """A collector of OpenTelemetry's that keeps what is exported to it."""

    def __init__(self) -> None:
        self.got: list[ExportMetricsServiceRequest] = []
        super().__init__(("127.0.0.1", 0), _Export)

    def points(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Return the values of the project's metrics, by name and labels."""
        found = {}
        scopes = (s for one in self.got for r in one.resource_metrics for s in r.scope_metrics)
        for scope in scopes:
            for metric in scope.metrics:
                kind = getattr(metric, str(metric.WhichOneof("data")))
                for point in kind.data_points:
                    labels = frozenset((a.key, a.value.string_value) for a in point.attributes)
                    is_number = hasattr(point, "as_double")
                    value = (point.as_double or point.as_int) if is_number else point.sum
                    found[metric.name, labels] = float(value)
        return found


class _Export(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        del words


@pytest.fixture(name="collector")
def _collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Listen as a collector does, and have Airflow export its metrics here, once in ten minutes."""
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        settings = {
            "OTEL_ON": "True",
            "OTEL_HOST": "127.0.0.1",
            "OTEL_PORT": str(collector.server_port),
            "OTEL_INTERVAL_MILLISECONDS": "600000",
        }
        for name, value in settings.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        yield collector
        metrics.get_meter_provider().shutdown()  # type: ignore[attr-defined]
        atexit.unregister(otel_logger.flush_otel_metrics)
        collector.shutdown()
        thread.join()
        monkeypatch.undo()
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


def test_opentelemetry_has_the_metrics_when_the_task_ends(
    tmp_path: Path, collector: Collector
) -> None:
    """Airflow ends a task's process at once; the next export would be ten minutes later."""
    execution = handled(tmp_path, 2053, 2085)

    tell(execution, execution.run)

    points = collector.points()
    place = {"handler": "test", "qmgr": "QM1", "queue": "DLQ"}
    delivered = frozenset({**place, "outcome": "delivered"}.items())
    assert points["airflow.mqdlq.depth", frozenset(place.items())] == 1
    assert points["airflow.mqdlq.outcomes", delivered] == 1
    assert points["airflow.mqdlq.run_failed", frozenset({("handler", "test")})] == 0
    for name, labels in points:
        assert {label for label, _ in labels} == set(
            Metric(name.removeprefix("airflow.")).labels
        ), name
    names = {name.removeprefix("airflow.") for name, _ in points}
    assert names == set(Metric) - {Metric.MAX_DEPTH}


def test_the_numbers_of_reason_and_cause_labels_are_bounded(
    tmp_path: Path, collector: Collector
) -> None:
    """Reason codes come from messages, and anybody may put a message: twenty have a label."""
    execution = handled(tmp_path, *range(2030, 2060))

    tell(execution, execution.run)

    points = [(name.removeprefix("airflow."), dict(labels)) for name, labels in collector.points()]
    reasons = [labels["reason"] for name, labels in points if name == Metric.MESSAGES]
    causes = [labels["cause_id"] for name, labels in points if name == Metric.CAUSE_MESSAGES]
    assert (len(reasons), len(causes)) == (REASONS + 1, CAUSES + 1)
    assert "other" in reasons
    assert "other" in causes
