"""Airflow assets for the products of a handler's runs; other DAGs can follow them."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from airflow.sdk import Asset, Context
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import TriggerDagRun

from mqdlq.airflow.operators.base import in_the_foreground, progress
from mqdlq.stages.sense.start_run import follower_of


def asset(handler: str, product: str) -> Asset:
    """Return the asset of a handler's `product`: "snapshot", "plan" or "report".

    A DAG with ``schedule=[Asset(name="mq_dlq_demo.report", uri="mqdlq://demo/report")]`` runs
    after each report. The extra of an event has ids, counts and places.
    """
    return Asset(name=f"mq_dlq_{handler}.{product}", uri=f"mqdlq://{handler}/{product}")


def tell(context: Context, handler: str, product: str, **extra: Any) -> None:
    """Write ids, counts and places into the event that this task adds to an asset."""
    context["outlet_events"][asset(handler, product)].extra = extra


# Start the run that follows a run whose WAIT continues.

KEPT: Final = ("rules", "input_q", "input_q_mgr", "wait", "why")
"""The parameters that a follower has from the run that it follows."""

following = logging.getLogger("mqdlq.following")
"""The parameters of the next run as JSON; `mqdlq run` starts it."""


def start_follower(context: Context) -> None:
    """Start the run that follows this DAG run; a second call starts nothing.

    In the foreground nobody would run it: `mqdlq run` does. If Airflow refuses, the messages wait
    for the next run of the schedule.
    """
    dag_run = context["dag_run"]
    conf = {key: value for key, value in (dag_run.conf or {}).items() if key in KEPT}
    conf["follows"] = dag_run.run_id
    if in_the_foreground():
        following.info("%s", json.dumps(conf))
        return
    run_id = follower_of(dag_run.run_id)
    asked = TriggerDagRun(dag_id=dag_run.dag_id, run_id=run_id, conf=conf)
    try:
        task_runner.SUPERVISOR_COMMS.send(asked)
    except AirflowRuntimeError as error:
        progress.warning(
            "%s, which would wait for messages, did not start: %s [MQDLQ-192]", run_id, error
        )
    else:
        progress.info("%s waits for messages that arrive after this run", run_id)
