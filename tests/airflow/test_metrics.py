"""Metrics through Airflow's own: what a StatsD server gets of a run."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.sdk._shared.observability.metrics.stats import _get_backend
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from mqdlq.airflow.metrics import emit
from mqdlq.execute import make_pass, settle
from mqdlq.guards import note_causes
from world import World

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
        _get_backend().statsd.close()
        monkeypatch.undo()
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


def test_a_run_is_told_by_queue_outcome_and_reason(tmp_path: Path, server: socket.socket) -> None:
    world = World(tmp_path)
    world.dead_letter()
    world.dead_letter(dest_q="ELSEWHERE", reason=2085)
    execution = world.plan("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n")
    note_causes(execution.run, ledger=world.ledger)
    make_pass(execution)
    settle(execution)

    emit(execution.run, world.ledger, world.clock() + timedelta(seconds=90))

    assert {server.recv(4096).decode() for _ in range(7)} == {
        f"airflow.mqdlq.depth,{TAGS}:1|g",
        f"airflow.mqdlq.outcomes,{TAGS},outcome=delivered:1|c",
        f"airflow.mqdlq.outcomes,{TAGS},outcome=left_no_rule:1|c",
        f"airflow.mqdlq.messages,{TAGS},reason=MQRC_Q_FULL:1|g",
        f"airflow.mqdlq.messages,{TAGS},reason=MQRC_UNKNOWN_OBJECT_NAME:1|g",
        f"airflow.mqdlq.oldest_age_seconds,{TAGS}:3690.0|g",
        f"airflow.mqdlq.run_duration,{TAGS}:90000.000000|ms",
    }
