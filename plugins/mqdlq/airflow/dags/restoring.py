"""Restores messages that a handler has discarded, from the archive.

| task | does |
|---|---|
| select | finds the archived copies that are asked for, and writes down which they are |
| restore_*handler* | puts them on a queue, in units of work with markers; the others are skipped |

Trigger it with the handler and the run that discarded the messages (the report names it, and
`mqdlq restore list` shows what is in the archive). Without `to_queue` they go back to the
dead-letter queue they were on, with their MQDLH, as they were. The next run of the handler meets
them there again: change the rules that discarded them first. With `dry_run` the copies are only
read, and the log says what would be restored.

Restored messages are put again only with `again`. Any task may be cleared and run again:
the copies a DAG run selected stay the same, and what it has put it never puts twice. Copies stay
in the archive. A run fails where not all that was asked for could be restored, and says why; clear
its restore task once the cause is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow.sdk import DAG, Param, chain

from mqdlq.airflow.operators.restore import Restore, Select, task_id_of
from mqdlq.airflow.params import form
from mqdlq.airflow.restore_params import schemas
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
        params={
            key: Param(**schema)
            for key, schema in form(schemas([handler.name for handler in handlers])).items()
        },
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
    return dag
