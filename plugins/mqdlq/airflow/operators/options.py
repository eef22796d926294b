"""Who or what has started a DAG run, in words that follow "started by"."""

from __future__ import annotations

from airflow.sdk import Context

from mqdlq import home
from mqdlq.airflow.operators.base import BACKFILL, in_the_foreground

NOBODY = "somebody"
"""Airflow knows no user, as where it runs without an auth manager's login."""


def started_by(context: Context) -> str:
    """Return the run's starter: a user and where, the schedule, a backfill, or an asset.

    A run that a task of another DAG has triggered carries that run's user.
    """
    dag_run = context["dag_run"]
    user, kind = dag_run.triggering_user_name, dag_run.run_type.value
    if in_the_foreground():
        return f"{home.account()} from the command line"
    if kind == "scheduled":
        return "the schedule"
    if kind == "asset_triggered":
        names = sorted({str(event.asset.name) for event in dag_run.consumed_asset_events})
        return f"the asset {', '.join(names)}" if names else "an asset"
    if kind == BACKFILL:
        return f"a backfill of {user or NOBODY}"
    if kind == "operator_triggered":
        return f"another DAG, for {user}" if user else "another DAG"
    return f"{user or NOBODY} in Airflow"
