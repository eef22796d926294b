"""The table of docs/reference/metrics.md, from the declared metrics."""

from __future__ import annotations

from mqdlq.airflow.metrics import Metric
from tests.support.docs.handler import docstrings_below
from tests.support.docs.tables import table


def metrics() -> str:
    """Return a table of the metrics."""
    meanings = docstrings_below(Metric)
    rows = (
        (
            f"`{metric}`",
            f"`{metric.in_prometheus}`",
            f"{metric.kind}, {metric.unit}",
            ", ".join(f"`{label}`" for label in metric.labels),
            meanings[metric.name],
        )
        for metric in Metric
    )
    columns = ("metric", "in Prometheus", "kind and unit", "labels", "meaning")
    return table(columns, rows)
