"""Handles a dead-letter queue as IBM's `runmqdlq` does, by the same rules tables.

| task | does |
|---|---|
| sense | reads and freezes the rules; skips all the rest if the queue holds no message |
| snapshot | browses the queue into the lake; every message stays where it is |
| evaluate | decides in Spark what is to be done with each message |
| approve | checks the plan and says what it would do |
| execute | does it, each message in a unit of work of its own |
| retry | tries again every RETRYINT what could not be done; settles the account |
| report | says what became of every message; fails if anything before it did |

Run it with the defaults to handle the queue, with `dry_run` to see what would be done. Any task
may be cleared and run again: what was done is in the ledger and is not done twice.
"""

from __future__ import annotations

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Param, TriggerRule, chain

from mqdlq import home
from mqdlq.airflow.approve import Approve
from mqdlq.airflow.execute import Execute
from mqdlq.airflow.report import Report
from mqdlq.airflow.retry import Retry
from mqdlq.airflow.sense import Sense
from mqdlq.airflow.snapshot import Snapshot
from mqdlq.airflow.spark_conf import SUBMIT_CONF, submit_environment
from mqdlq.handlers import handler_names, load_handler

PARAMS = {
    "input_q": Param(
        None,
        type=["null", "string"],
        pattern=r"^[A-Za-z0-9._/%]{0,48}$",
        description="The queue to handle, in place of the table's INPUTQ;"
        " empty text means the queue manager's own dead-letter queue",
    ),
    "input_q_mgr": Param(
        None,
        type=["null", "string"],
        pattern=r"^[A-Za-z0-9._/%]{0,48}$",
        description="Its queue manager, in place of the table's INPUTQM and the connection's",
    ),
    "rules": Param(
        None,
        type=["null", "string"],
        pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$",
        description="Another rules table for this run: a file beside the handler's own",
    ),
    "message_keys": Param(
        [],
        type="array",
        items={"type": "string", "pattern": "^[0-9a-f]{64}$"},
        description="Act on these messages only, by their message_key (64 hex digits, in the"
        " report's JSON); none means all",
    ),
    "dry_run": Param(
        False,
        type="boolean",
        description="Only say what would be done: snapshot, evaluate and report, but move nothing",
    ),
}

for name in handler_names():
    handler = load_handler(name)
    with DAG(
        f"mq_dlq_{name}",
        schedule=handler.schedule,
        catchup=False,
        max_active_runs=1,  # until runs own their messages, two of them would share them
        params=PARAMS,
        tags=["mq", "dead-letter-queue"],
        doc_md=__doc__,
    ):
        sense = Sense(task_id="sense", handler=name)
        snapshot = Snapshot(task_id="snapshot", handler=name)
        evaluate = SparkSubmitOperator(
            task_id="evaluate",
            application=str(home.PROJECT / "spark" / "evaluate_rules.py"),
            application_args=[
                "--snapshot",
                "{{ ti.xcom_pull(task_ids='snapshot')['snapshot'] }}",
                "--plan",
                "{{ ti.xcom_pull(task_ids='snapshot')['plan'] }}",
            ],
            conf=SUBMIT_CONF,
            env_vars=submit_environment(),
            name=f"mq_dlq_{name}",
        )
        approve = Approve(task_id="approve", handler=name)
        execute = Execute(task_id="execute", handler=name)
        retry = Retry(task_id="retry", handler=name)
        report = Report(task_id="report", handler=name, trigger_rule=TriggerRule.ALL_DONE)
        chain(sense, snapshot, evaluate, approve, execute, retry, report)
