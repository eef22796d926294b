"""The base class of all stages' operators: handler, run id, settings, clock, log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from airflow.providers.common.compat.sdk import DownstreamTasksSkipped
from airflow.sdk import Context

from mqdlq.airflow.hooks.ibmmq import MqHook
from mqdlq.airflow.hooks.ledger import open_ledger
from mqdlq.airflow.older_versions import PolicedOperator
from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.errors import ExecutionError, HandlerError, LedgerError
from mqdlq.handlers import Handler, load_handler
from mqdlq.ledger import Ledger, Run
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.stages.sense.backfill_window import BackfillWindow
from mqdlq.stages.sense.start_run import select_queue_manager

DEFER_FROM_S = 10
"""Waits below this are slept in the worker: the scheduler takes a task that is resumed sooner than
its worker has wound up for a failed one."""

SENSE = "sense"
APPROVE = "approve"
REPORT = "report"
"""The task that runs whatever becomes of the tasks before it."""

BACKFILL = "backfill"
"""The run type of a backfill's runs. A run that a backfill takes over keeps its id, so that no id
says what kind of run it is."""

progress = logging.getLogger("mqdlq.progress")
"""One line per fact a person follows a run by; `mqdlq run` shows these lines."""


def utc_now() -> datetime:
    """Return the time; the clock that every stage is given."""
    return datetime.now(UTC)  # noqa: TID251 (tasks are entry points)


def in_the_foreground() -> bool:
    """Whether this task runs within ``airflow dags test``: without a scheduler, nobody answers."""
    from airflow.sdk.execution_time import task_runner  # noqa: PLC0415 (only within a task)

    comms = getattr(task_runner, "SUPERVISOR_COMMS", None)
    return type(comms).__name__ == "InProcessSupervisorComms"


def result_of(ti: Any, task_id: str) -> dict[str, Any]:
    """Return the result of an earlier task; raise ExecutionError if it has none.

    A task that is marked as success by hand has run nothing. `ti` is the task instance that asks.
    """
    left: dict[str, Any] | None = ti.xcom_pull(task_ids=task_id)
    if left is None:
        raise ExecutionError(
            "MQDLQ-606",
            f"the task {task_id} has left no result: it was marked as done by hand, or its XCom"
            f" was removed; clear {task_id}, and the run continues from the ledger",
        )
    return left


@dataclass(frozen=True, slots=True)
class Work:
    """Arguments of a stage's function: the recorded run, its queue manager, the ledger."""

    run: Run
    settings: ConnectionSettings
    ledger: Ledger


class Stage(PolicedOperator):
    """A stage of a handler's workflow: passes arguments to the stage's function.

    Tasks pass ids and counts to each other, never a message. A stage records its work in the
    ledger and the lake, under an id made of the handler and the DAG run; a task that runs again
    finds it there.

    :param handler: name of the handler, the stem of its YAML file
    :param directory: directory of that file, None for MQDLQ_RULES_DIR
    """

    def __init__(self, *, handler: str, directory: Path | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.handler = handler
        self.directory = directory

    def configuration(self) -> Handler:
        """Read the handler's file; raises HandlerError."""
        return load_handler(self.handler, self.directory)

    def run_id(self, context: Context) -> str:
        """Return the id under which ledger, lake and report know this DAG run."""
        dag_run = context["dag_run"]
        own = ledger_run_id(self.handler, dag_run.run_id)
        if dag_run.run_type.value != BACKFILL:
            return own
        # A backfill may take over a run that has been before, again and again, under its old id.
        run_id = f"{own}-backfill-{dag_run.clear_number}"
        if self.task_id != SENSE:
            # Clearing any task raises the number. A sense that failed early has not said any.
            return str(context["ti"].xcom_pull(task_ids=SENSE, key=BACKFILL) or run_id)
        context["ti"].xcom_push(key=BACKFILL, value=run_id)
        return run_id

    def window(self, context: Context) -> BackfillWindow | None:
        """Return the interval of a backfill's run, None for other runs; raises HandlerError."""
        dag_run = context["dag_run"]
        if dag_run.run_type.value != BACKFILL:
            return None
        if dag_run.data_interval_start is None or dag_run.data_interval_end is None:
            raise HandlerError(
                "MQDLQ-117",
                f"{self.handler} has no cron schedule, so a backfill has no interval with"
                " snapshots to evaluate; give the handler a cron schedule",
            )
        return BackfillWindow(dag_run.data_interval_start, dag_run.data_interval_end)

    def settings(self) -> ConnectionSettings:
        """Return the settings of the handler's connection."""
        return MqHook(self.configuration().connection).settings()

    def skip_what_follows(self) -> NoReturn:
        """End this task as a success, and skip all tasks after it but the report."""
        after = self.get_flat_relative_ids(upstream=False)
        raise DownstreamTasksSkipped(tasks=sorted(after - {REPORT}))

    @contextmanager
    def work(self, context: Context) -> Iterator[Work]:
        """Open the ledger and find this DAG run in it; raises LedgerError if it is not there."""
        run_id = self.run_id(context)
        with open_ledger() as ledger:
            run = ledger.runs.get(run_id)
            if run is None:
                raise LedgerError(
                    "MQDLQ-240",
                    f"run {run_id} is not in the ledger; clear the task sense, which records a run"
                    " at its start",
                )
            yield Work(run, select_queue_manager(self.settings(), run.queue_manager), ledger)
