"""History of the dead-letter queues, from all stored snapshots.

| task | does |
|---|---|
| export | writes the outcomes of all runs beside the snapshots |
| history | reads all snapshots, plans and outcomes in Spark: causes, arrivals, resolution, rules |
| prune | removes archive copies and runs that the handlers keep no longer |

No task connects to a queue manager. A repeated run writes the history again, and prunes again.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, Context, chain, get_parsing_context
from airflow.sdk.exceptions import AirflowFailException

from mqdlq import directories
from mqdlq.airflow.dags.handler_runs import LONG_AGO, spark_task
from mqdlq.airflow.hooks.connections import open_ledger
from mqdlq.airflow.operators.base import HandlerTask, progress, result_of, started_by, utc_now
from mqdlq.errors import HandlerError
from mqdlq.evaluation.spark_conf import submit_conf
from mqdlq.handlers import load_handlers
from mqdlq.handlers.kept import load_kept


class ExportOutcomes(HandlerTask):
    """Write the outcomes of all runs where the history in Spark reads them.

    Reads the ledger and touches no MQ. Run twice, it writes the file again.
    """

    def execute(self, context: Context) -> dict[str, str | int]:
        """Write the file; returns where lake and history stand, and how much there is to read."""
        del context
        from mqdlq import lake  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)
        from mqdlq.reading.outcome_files import export_outcomes  # noqa: PLC0415 (Arrow)

        history = f"{directories.lake().rstrip('/')}/history"
        with open_ledger() as ledger:
            outcomes = export_outcomes(ledger, history)
        stored = lake.finished_snapshots(directories.lake())
        messages = sum(snapshot.manifest.messages for snapshot in stored)
        progress.info("%d outcomes, %d messages in all snapshots", outcomes, messages)
        return {"lake": directories.lake(), "history": history, "messages": messages}


class Prune(HandlerTask):
    """Remove archive copies and runs by `keep_archive_for` and `keep_runs_for` of each handler.

    Changes ledger and lake, and touches no MQ. The ledger records what goes before it goes and the
    result afterwards. It removes nothing that a restoration or an unfinished run may need, and
    nothing under a legal hold. A handler whose file has an error is not pruned.

    Run twice, it completes the prune that the first one began, and removes runs and copies that
    have expired since. Two at once remove the same, once.
    """

    def execute(self, context: Context) -> dict[str, int]:
        """Prune; returns how many copies and runs were removed. Fails if the clock looks wrong."""
        from mqdlq.stages.retention import Pruner, policy_of  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

        handlers, faults = load_handlers(self.directory)
        for fault in faults:
            progress.warning("not pruned: %s [MQDLQ-257]", fault.text)
        with open_ledger() as ledger:
            pruner = Pruner(ledger, directories.lake(), utc_now, started_by(context), progress.info)
            found = pruner.prune(handlers)
        for one in found:
            progress.info(
                "%s (%s): %d archive copies and %d runs removed; %d copies and %d runs are kept"
                " beyond it",
                one.handler.name,
                policy_of(one.handler),
                one.copies,
                len(one.run_ids),
                one.kept_copies.total(),
                one.kept_runs.total(),
            )
        return {
            "copies": sum(one.copies for one in found),
            "runs": sum(len(one.run_ids) for one in found),
        }


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
# An import error takes all DAGs of its file out of use, also those of valid handlers. So it is
# raised in a DAG file without DAGs; where all DAGs are in one file, a DAG reports the faults.

DAG_ID: Final = "mq_dlq_broken_handlers"

_PAGE: Final = """Reports handlers that are not valid and so have no DAG.

Each run reads the files again and fails while one of them has a fault. Correct the files: this DAG
disappears, and the DAGs of the handlers appear.

```text
{faults}
```
"""


def raise_faults() -> None:
    """Raise the faults of all handlers, except in a process that wants the DAG of one."""
    if faults := get_parsing_context().dag_id is None and load_kept().faults:
        first, *others = faults
        raise HandlerError(first.error_id, "\n\n".join([first.text, *map(str, others)]))


def build_broken_handlers_dag(faults: Sequence[HandlerError], directory: Path | None) -> DAG:
    dag = DAG(
        DAG_ID,
        schedule="@hourly",
        start_date=LONG_AGO,  # the first run begins as soon as Airflow has seen the DAG
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
        del context
        if faults := load_handlers(self.directory)[1]:
            raise AirflowFailException("\n\n".join(map(str, faults)))
