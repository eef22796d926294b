"""History of the dead-letter queues, from all stored snapshots.

| task | does |
|---|---|
| export | writes the outcomes of all runs beside the snapshots |
| history | reads all snapshots, plans and outcomes in Spark: causes, arrivals, resolution, rules |

No task connects to a queue manager. A repeated run writes the history again.
"""

from __future__ import annotations

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, chain

from mqdlq import directories
from mqdlq.airflow.operators.base import result_of
from mqdlq.airflow.operators.export import ExportOutcomes
from mqdlq.evaluation.spark_conf import submit_conf, submit_environment, templated_conf

with DAG(
    "mq_dlq_history",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    user_defined_macros={"submit_conf": submit_conf, "result_of": result_of},
    tags=["mq", "dead-letter-queue"],
    doc_md=__doc__,
):
    export = ExportOutcomes(task_id="export")
    history = SparkSubmitOperator(
        task_id="history",
        application=str(directories.PROJECT / "spark" / "dlq_history.py"),
        application_args=[
            "--lake",
            "{{ result_of(ti, 'export')['lake'] }}",
            "--history",
            "{{ result_of(ti, 'export')['history'] }}",
        ],
        conf=templated_conf("result_of(ti, 'export')['messages']"),
        env_vars=submit_environment(),
        name="mq_dlq_history",
    )
    chain(export, history)
