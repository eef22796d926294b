"""History of the dead-letter queues, from all stored snapshots.

| task | does |
|---|---|
| export | writes the outcomes of all runs beside the snapshots |
| history | reads all snapshots, plans and outcomes in Spark: causes, arrivals, resolution, rules |
| prune | removes archive copies and runs that the handlers keep no longer |

No task connects to a queue manager. A repeated run writes the history again, and prunes again.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, chain

from mqdlq.airflow.dags.spark_tasks import spark_task
from mqdlq.airflow.operators.base import result_of
from mqdlq.airflow.operators.export import ExportOutcomes
from mqdlq.airflow.operators.prune import Prune
from mqdlq.evaluation.spark_conf import submit_conf


def build_history_dag(directory: Path | None = None) -> DAG:
    """Return the DAG that writes the history, then prunes archive and ledger."""
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
        chain(export, history, Prune(task_id="prune", directory=directory))
    return dag
