"""History of the dead-letter queues, from all stored snapshots.

| task | does |
|---|---|
| export | writes the outcomes of all runs beside the snapshots |
| history | reads all snapshots, plans and outcomes in Spark: causes, arrivals, resolution, rules |

No task connects to a queue manager. A repeated run writes the history again.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain

from mqdlq.airflow.dags.spark_tasks import spark_task
from mqdlq.airflow.operators.base import result_of
from mqdlq.airflow.operators.export import ExportOutcomes
from mqdlq.evaluation.spark_conf import submit_conf


def build_history_dag() -> DAG:
    """Return the DAG that writes the history."""
    with DAG(
        "mq_dlq_history",
        schedule="@daily",
        catchup=False,
        max_active_runs=1,
        user_defined_macros={"submit_conf": submit_conf, "result_of": result_of},
        tags=["mq", "dead-letter-queue"],
        doc_md=__doc__,
        auto_register=False,
    ) as dag:
        export = ExportOutcomes(task_id="export")
        history = spark_task(
            "history",
            "dlq_history",
            [
                "--lake",
                "{{ result_of(ti, 'export')['lake'] }}",
                "--history",
                "{{ result_of(ti, 'export')['history'] }}",
            ],
            "result_of(ti, 'export')['messages']",
            name="mq_dlq_history",
        )
        chain(export, history)
    return dag
