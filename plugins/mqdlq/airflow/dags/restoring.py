"""Restores messages that a handler has discarded, from the archive.

| task | does |
|---|---|
| select | finds the requested copies in the archive, and records them |
| restore_*handler* | puts them on a queue, in units of work with markers; the others are skipped |

Trigger it with the handler and the run that discarded the messages. The report names the run, and
`mqdlq restore list` lists the copies in the archive. Without `to_queue` each message returns to its
dead-letter queue, with its MQDLH. The handler's next run meets it there again: first change the
rules that discarded it. With `dry_run` the task only reads the copies, and logs its plan.

A message that was restored is put again only with `again`. Any task may be cleared and run again:
the selection of a DAG run stays the same, and no copy is put twice. Copies stay in the archive. A
run fails if it could not restore every requested copy, and its log gives the cause; remove the
cause, then clear the restore task.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow.sdk import DAG, chain

from mqdlq.airflow.dags.handler_runs import params_of
from mqdlq.airflow.operators.restore import Restore, Select, task_id_of
from mqdlq.airflow.params import schemas
from mqdlq.airflow.retries import RETRY_DELAY, RetryTransient
from mqdlq.handlers import Handler
from mqdlq.handlers.operation import TASK_RETRIES


def build_restore_dag(
    handlers: Sequence[Handler], pools: Mapping[str, str], directory: Path | None
) -> DAG:
    """Return the DAG with a task for each handler, which takes its slot from the handler's pool.

    `directory` is where tasks read the handlers' files, None for MQDLQ_RULES_DIR.
    """
    with DAG(
        "mq_dlq_restore",
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,  # it has no schedule: who triggers it means it
        default_args={
            "retry_policy": RetryTransient(waits_for_people=False),
            "retry_delay": RETRY_DELAY,
        },
        tags=["mq", "dead-letter-queue", "restore"],
        description="Restores messages that were discarded from the archive",
        doc_md=__doc__,
        auto_register=False,
    ) as dag:
        # In the pool of the handler it takes turns with that one's evaluations and passes.
        chain(
            Select(task_id="select", directory=directory, retries=TASK_RETRIES),
            [
                Restore(
                    task_id=task_id_of(handler.name),
                    handler=handler.name,
                    directory=directory,
                    pool=pools[handler.name],
                    max_active_tis_per_dag=1,
                    owner=handler.owner,
                    retries=handler.task_retries,
                )
                for handler in handlers
            ],
        )
    dag.params = params_of(schemas([handler.name for handler in handlers]))
    return dag
