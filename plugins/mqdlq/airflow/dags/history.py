"""History of the dead-letter queues, from all stored snapshots.

| task | does |
|---|---|
| export | writes the outcomes of all runs beside the snapshots |
| history | reads all snapshots, plans and outcomes in Spark: causes, arrivals, resolution, rules |
| prune | removes archive copies and runs that the handlers keep no longer |

No task connects to a queue manager. A repeated run writes the history again, and prunes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, Context, chain
from airflow.sdk.exceptions import AirflowFailException

from mqdlq.airflow.dags.handler_runs import spark_task
from mqdlq.airflow.operators.base import result_of
from mqdlq.airflow.operators.history import ExportOutcomes, Prune
from mqdlq.errors import HandlerError
from mqdlq.evaluation.spark_conf import submit_conf
from mqdlq.handlers import load_handlers


def build_history_dag(directory: Path | None = None) -> DAG:
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


# Report handlers that are not valid: by an import error, or by a DAG whose runs fail.
#
# An import error takes all DAGs of its file out of use, also those of valid handlers. So the
# import
# error is raised in a DAG file without DAGs; where all DAGs are in one file, a DAG reports the
# faults.

DAG_ID: Final = "mq_dlq_broken_handlers"
LONG_AGO: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""With a start in the past, the first run begins as soon as Airflow has seen the DAG."""

_PAGE: Final = """Reports handlers that are not valid and so have no DAG.

Each run reads the files again and fails while one of them has a fault. Correct the files: this DAG
disappears, and the DAGs of the handlers appear.

```text
{faults}
```
"""


def raise_faults(faults: Sequence[HandlerError]) -> None:
    """Raise one HandlerError with all these faults, if there are any."""
    if faults:
        first, *others = faults
        raise HandlerError(first.error_id, "\n\n".join([first.text, *map(str, others)]))


def build_broken_handlers_dag(faults: Sequence[HandlerError], directory: Path | None) -> DAG:
    """Return the DAG that reports these faults on its page, and by failing runs."""
    dag = DAG(
        DAG_ID,
        schedule="@hourly",
        start_date=LONG_AGO,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,  # a paused DAG would report nothing
        default_args={"retries": 0},
        tags=["mq", "dead-letter-queue"],
        description="Handlers that are not valid and so have no DAG",
        doc_md=_PAGE.format(faults="\n\n".join(map(str, faults))),
    )
    CheckHandlers(task_id="check", directory=directory, dag=dag)
    return dag


class CheckHandlers(BaseOperator):
    """Fail while a handler of a directory is not valid.

    Reads files only. Run twice, it reads them twice.

    :param directory: the handlers' directory, None for MQDLQ_RULES_DIR
    """

    def __init__(self, *, directory: Path | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.directory = directory

    def execute(self, context: Context) -> None:
        """Raise AirflowFailException with file, line and column of each fault."""
        del context
        if faults := load_handlers(self.directory)[1]:
            raise AirflowFailException("\n\n".join(map(str, faults)))
