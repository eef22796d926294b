"""Airflow assets for the products of a handler's runs; other DAGs can follow them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, Context


def asset(handler: str, product: str) -> Asset:
    """Return the asset of a handler's `product`: "snapshot", "plan" or "report".

    A DAG with ``schedule=[Asset(name="mq_dlq_demo.report", uri="mqdlq://demo/report")]`` runs
    after each report. The extra of an event has ids, counts and places.
    """
    return Asset(name=f"mq_dlq_{handler}.{product}", uri=f"mqdlq://{handler}/{product}")


def tell(context: Context, handler: str, product: str, **extra: Any) -> None:
    """Write ids, counts and places into the event that this task adds to an asset."""
    context["outlet_events"][asset(handler, product)].extra = extra
