"""Handles a dead-letter queue as IBM's `runmqdlq` does, by the same rules tables.

| task | does |
|---|---|
| sense | reads and freezes the rules; if the queue needs no handling, only `report` follows |
| snapshot | browses the queue into the lake; every message stays where it is |
| evaluate | decides in Spark what to do with each message |
| approve | checks the plan, summarizes it, and asks for approval if a guard requires it |
| execute | acts on the plan, each message in the unit of work that puts it elsewhere |
| retry | repeats failed attempts every RETRYINT; settles the account |
| report | reports the outcome of every message; fails if a task before it failed |

Run it with the defaults to handle the queue, or with `dry_run` to see the plan without acting. Any
task may be cleared and run again: the ledger records each completed action, and no task repeats it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, TriggerRule, chain

from mqdlq.airflow.assets import asset
from mqdlq.airflow.dags.documentation import page
from mqdlq.airflow.dags.schedules import schedule_of, start_of
from mqdlq.airflow.dags.spark_tasks import spark_task
from mqdlq.airflow.operators.approve import Approve
from mqdlq.airflow.operators.base import result_of
from mqdlq.airflow.operators.execute import Execute
from mqdlq.airflow.operators.report import Report
from mqdlq.airflow.operators.retry import Retry
from mqdlq.airflow.operators.sense import Sense
from mqdlq.airflow.operators.snapshot import Snapshot
from mqdlq.airflow.params import form
from mqdlq.airflow.retries import RETRY_DELAY, RetryTransient
from mqdlq.evaluation.spark_conf import submit_conf
from mqdlq.handlers import Handler


def build_handler_dag(handler: Handler, pool: str, directory: Path | None) -> DAG:
    """Return the DAG that runs a handler; its evaluations and passes take slots from `pool`.

    `directory` is where tasks and triggers read the handler's files, None for MQDLQ_RULES_DIR.
    """
    name = handler.name
    # One at a time, however many runs overlap, even in a pool with more slots. A retry that is
    # deferred would count there, and keep those of other runs from their passes.
    one_at_a_time: dict[str, Any] = {"pool": pool, "max_active_tis_per_dag": 1}
    place: dict[str, Any] = {"handler": name, "directory": directory}
    with DAG(
        f"mq_dlq_{name}",
        schedule=schedule_of(handler, directory),
        start_date=start_of(handler),
        catchup=False,
        max_active_runs=handler.runs_at_once,
        params={key: Param(**schema) for key, schema in form().items()},
        user_defined_macros={"submit_conf": submit_conf, "result_of": result_of},
        default_args={
            "owner": handler.owner,
            "retries": handler.task_retries,  # every task is safe to run again
            "retry_policy": RetryTransient(),
            "retry_delay": RETRY_DELAY,
        },
        tags=["mq", "dead-letter-queue", *handler.tags],
        description=f"Handles the dead-letter queue behind connection {handler.connection}",
        doc_md=page(handler, __doc__ or "", pool),
        auto_register=False,
    ) as dag:
        sense = Sense(task_id="sense", retry_policy=RetryTransient(waits_for_people=False), **place)
        snapshot = Snapshot(task_id="snapshot", outlets=[asset(name, "snapshot")], **place)
        evaluate = spark_task(
            "evaluate",
            "evaluate_rules",
            [
                "--snapshot",
                "{{ result_of(ti, 'snapshot')['snapshot'] }}",
                "--plan",
                "{{ result_of(ti, 'snapshot')['plan'] }}",
                *(["--explain"] if handler.explain else []),
            ],
            "result_of(ti, 'snapshot')['messages']",
            execution_timeout=handler.evaluate_timeout,
            name=f"mq_dlq_{name}",
            handler=name,
            **one_at_a_time,
        )
        approve = Approve(task_id="approve", outlets=[asset(name, "plan")], **place)
        execute = Execute(task_id="execute", **place, **one_at_a_time)
        retry = Retry(task_id="retry", pool=pool, **place)
        report = Report(
            task_id="report",
            retry_policy=RetryTransient(waits_for_people=False),
            outlets=[asset(name, "report")],
            trigger_rule=TriggerRule.ALL_DONE,
            **place,
        )
        chain(sense, snapshot, evaluate, approve, execute, retry, report)
    return dag
