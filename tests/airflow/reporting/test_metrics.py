"""Metrics through Airflow's own: what StatsD and a collector get of a run."""

from __future__ import annotations

import atexit
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from airflow.sdk._shared.observability.metrics import otel_logger
from airflow.sdk._shared.observability.metrics.stats import _get_backend
from airflow.sdk._shared.observability.metrics.statsd_logger import SafeStatsdLogger
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from opentelemetry import metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from mqdlq.airflow.metrics import REASONS, emit
from mqdlq.ledger import Look, Run
from mqdlq.stages.execute import Execution, make_pass, settle
from mqdlq.stages.report import write_report
from tests.support.world import World

TAGS = "handler=test,queue_manager=QM1,queue=DLQ"


@pytest.fixture(name="server")
def _server(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Listen as a StatsD server does, and have Airflow send its metrics here."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(1)
        settings = {
            "STATSD_ON": "True",
            "STATSD_HOST": "127.0.0.1",
            "STATSD_PORT": str(server.getsockname()[1]),
            "STATSD_INFLUXDB_ENABLED": "True",
        }
        for name, value in settings.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        yield server
        logger = _get_backend()
        assert isinstance(logger, SafeStatsdLogger)
        logger.statsd.close()
        monkeypatch.undo()
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


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


def tell(world: World | Execution, run: Run) -> None:
    """Emit the metrics of a run as its report does, 90 seconds after its end."""
    ledger, now = world.ledger, world.clock() + timedelta(seconds=90)
    files = write_report(
        run.run_id, ledger=ledger, lake_root=world.lake_root, stages={}, clock=world.clock
    )
    emit(run, ledger, now, files.reasons, ledger.accounts.oldest_that_stays(run, files.oldest_left))


def handled(tmp_path: Path, *reasons: int) -> Execution:
    """Make a run over a message with each of these reasons; the first can be delivered."""
    world = World(tmp_path)
    for number, reason in enumerate(reasons):
        dest_q = "ELSEWHERE" if number else "PAYMENTS"
        world.dead_letter(dest_q=dest_q, reason=reason, body=str(number).encode())
    execution = world.plan("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n")
    make_pass(execution)
    settle(execution)
    return execution


def test_the_metrics_of_a_run_have_queue_outcome_and_reason(
    tmp_path: Path, server: socket.socket
) -> None:
    execution = handled(tmp_path, 2053, 2085)

    tell(execution, execution.run)

    assert {server.recv(4096).decode() for _ in range(7)} == {
        f"airflow.mqdlq.depth,{TAGS}:1|g",
        f"airflow.mqdlq.outcomes,{TAGS},outcome=delivered:1|c",
        f"airflow.mqdlq.outcomes,{TAGS},outcome=unmatched:1|c",
        f"airflow.mqdlq.messages,{TAGS},reason=MQRC_Q_FULL:1|g",
        f"airflow.mqdlq.messages,{TAGS},reason=MQRC_UNKNOWN_OBJECT_NAME:1|g",
        f"airflow.mqdlq.oldest_age_seconds,{TAGS}:3690.0|g",
        f"airflow.mqdlq.run_duration,{TAGS}:90000.000000|ms",
    }


def test_opentelemetry_has_the_metrics_when_the_task_ends(
    tmp_path: Path, collector: Collector
) -> None:
    """Airflow ends a task's process at once; the next export would be ten minutes later."""
    execution = handled(tmp_path, 2053, 2085)

    tell(execution, execution.run)

    tags = (("handler", "test"), ("queue_manager", "QM1"), ("queue", "DLQ"))
    assert collector.points() == {
        ("airflow.mqdlq.depth", frozenset(tags)): 1,
        ("airflow.mqdlq.outcomes", frozenset((*tags, ("outcome", "delivered")))): 1,
        ("airflow.mqdlq.outcomes", frozenset((*tags, ("outcome", "unmatched")))): 1,
        ("airflow.mqdlq.messages", frozenset((*tags, ("reason", "MQRC_Q_FULL")))): 1,
        ("airflow.mqdlq.messages", frozenset((*tags, ("reason", "MQRC_UNKNOWN_OBJECT_NAME")))): 1,
        ("airflow.mqdlq.oldest_age_seconds", frozenset(tags)): 3690,
        ("airflow.mqdlq.run_duration", frozenset(tags)): 90000,
    }


def test_the_number_of_reason_labels_is_bounded(tmp_path: Path, collector: Collector) -> None:
    """Reason codes come from messages, and anybody may put a message: twenty have a label."""
    execution = handled(tmp_path, *range(2030, 2060))

    tell(execution, execution.run)

    reasons = [dict(labels)["reason"] for name, labels in collector.points() if "messages" in name]
    assert len(reasons) == REASONS + 1
    assert "other" in reasons


def test_settled_messages_count_in_the_metrics_of_reasons_and_age(
    tmp_path: Path, server: socket.socket
) -> None:
    world = World(tmp_path)
    world.dead_letter(dest_q="ELSEWHERE", reason=2085)
    world.handle("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n")
    world.dead_letter(dest_q="ELSEWHERE", reason=2085, body=b"another")
    world.clock.now += timedelta(minutes=10)
    execution = world.plan("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n")
    make_pass(execution)
    settle(execution)

    tell(world, execution.run)

    assert {server.recv(4096).decode() for _ in range(5)} >= {
        f"airflow.mqdlq.messages,{TAGS},reason=MQRC_UNKNOWN_OBJECT_NAME:2|g",
        f"airflow.mqdlq.oldest_age_seconds,{TAGS}:4290.0|g",
    }


def test_settled_messages_have_an_age_if_no_message_is_new(
    tmp_path: Path, server: socket.socket
) -> None:
    execution = handled(tmp_path, 2053, 2085)
    tell(execution, execution.run)
    for _ in range(7):
        server.recv(4096)
    world = World(tmp_path)
    world.clock.now += timedelta(minutes=10)
    run = world.start("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n", run_id="later")
    world.ledger.runs.record_look(run.run_id, Look(1, False, "", world.clock()))

    tell(world, run)

    found = {server.recv(4096).decode() for _ in range(3)}
    assert f"airflow.mqdlq.oldest_age_seconds,{TAGS}:4290.0|g" in found


def test_the_age_metric_is_zero_if_no_message_stays(tmp_path: Path, server: socket.socket) -> None:
    execution = handled(tmp_path, 2053)

    tell(execution, execution.run)

    found = {server.recv(4096).decode() for _ in range(5)}
    assert f"airflow.mqdlq.oldest_age_seconds,{TAGS}:0.0|g" in found


def test_a_backfill_sends_no_depth_metric(tmp_path: Path, server: socket.socket) -> None:
    world = World(tmp_path)
    run = replace(world.start("WAIT(NO)\nACTION(IGNORE)\n"), run_type="backfill")
    world.ledger.runs.record_look(run.run_id, Look(3, True, "a backfill", world.clock()))

    tell(world, run)

    assert server.recv(4096).decode().startswith(f"airflow.mqdlq.run_duration,{TAGS}:")


def test_a_run_for_named_messages_sends_no_metrics_about_the_others(
    tmp_path: Path, server: socket.socket
) -> None:
    world = World(tmp_path)
    for number in range(3):
        world.dead_letter(dest_q="ELSEWHERE", body=b"%d" % number)
    run = world.plan("WAIT(NO)\nACTION(RETRY)\n", dry_run=True).run
    key = world.ledger.messages.of_run(run.run_id)[0].message_key.hex()
    execution = world.plan(
        "WAIT(NO)\nACTION(RETRY)\n", message_keys=(key,), action="ACTION(FWD) FWDQ(PARKED)"
    )
    make_pass(execution)
    settle(execution)

    tell(world, execution.run)

    sent = {server.recv(4096).decode() for _ in range(3)}
    assert sent == {
        f"airflow.mqdlq.depth,{TAGS}:2|g",
        f"airflow.mqdlq.outcomes,{TAGS},outcome=forwarded:1|c",
        f"airflow.mqdlq.run_duration,{TAGS}:90000.000000|ms",
    }
    with pytest.raises(TimeoutError):
        server.recv(4096)
