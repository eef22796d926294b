"""What a handler's runs produce, as Airflow assets that the DAGs of others can follow."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, Context


def asset(handler: str, product: str) -> Asset:
    """Return the asset of a handler's `product`: "snapshot", "plan" or "report".

    A DAG with ``schedule=[Asset(name="mq_dlq_demo.report", uri="mqdlq://demo/report")]`` runs
    after each report. What an event stands for is in its extra: ids, counts and places.
    """
    return Asset(name=f"mq_dlq_{handler}.{product}", uri=f"mqdlq://{handler}/{product}")


def tell(context: Context, handler: str, product: str, **extra: Any) -> None:
    """Say of the event that this task adds to an asset what it stands for."""
    context["outlet_events"][asset(handler, product)].extra = extra
