"""Write docs/reference/metrics.md from the declared metrics."""

from __future__ import annotations

from mqdlq.airflow.metrics import Metric
from tests.support.docs.tables import table

_HEAD = """\
# Metrics

At its end a run sends these metrics through Airflow: by StatsD or OpenTelemetry, as Airflow is set
up. Each has the tags `handler`, `queue_manager` and `queue`. A run for named messages sends neither
`mqdlq.messages` nor `mqdlq.oldest_age_seconds`.

"""
_SET_UP = """
## Set up StatsD

Plain StatsD has no tags. Set `[metrics] statsd_influxdb_enabled` to send them in InfluxDB's form.

## Set up OpenTelemetry

Set `[metrics] otel_on`, `otel_host` and `otel_port`. A run sends its metrics before its last task
ends. Each task is a process; for counters that add up across tasks, set
`OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=delta`.

OpenLineage is not supported. The events of a run's assets name its snapshot, plan and report.
"""


def document() -> str:
    """Return the page."""
    rows = ((f"`{metric}`", metric.kind, metric.meaning) for metric in Metric)
    return "".join((_HEAD, table(("metric", "kind", "meaning"), rows), _SET_UP))
