"""Write docs/reference/metrics.md from the declared metrics."""

from __future__ import annotations

from mqdlq.airflow.metrics import Metric
from tests.support.docs.tables import table

_HEAD = """\
# Metrics

Look up the metrics that runs send through Airflow, by StatsD or OpenTelemetry.
[Monitor with Prometheus and Grafana](../how-to/observability.md) shows how to collect them.

A run sends `mqdlq.depth` and `mqdlq.max_depth` when it looks at its queue, and
`mqdlq.approvals_waiting` when it asks for an approval. It sends the others at its end. A run for
named messages, or of a backfill, sends only metrics that it knows enough about.

"""
_LABELS = """
## Labels

`qmgr` and `queue` have the names and values of IBM's exporter for Prometheus. A `%` in a name is
sent as `_`. `outcome` is one of the [outcomes](../how-to/runbook.md#outcomes). `reason` is the name
of a reason code, or `none` or `other`.

No label has a part of a message. The number of series of a queue is bounded: there are fixed
numbers of outcomes and of reasons.

StatsD has labels only with `[metrics] statsd_influxdb_enabled`. OpenLineage is not supported. The
events of a run's assets name its snapshot, plan and report.
"""


def document() -> str:
    """Return the page."""
    rows = (
        (
            f"`{metric}`",
            f"`{metric.in_prometheus}`",
            f"{metric.kind}, {metric.unit}",
            ", ".join(f"`{label}`" for label in metric.labels),
            metric.meaning,
        )
        for metric in Metric
    )
    columns = ("metric", "in Prometheus", "kind and unit", "labels", "meaning")
    return "".join((_HEAD, table(columns, rows), _LABELS))
