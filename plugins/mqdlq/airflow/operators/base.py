"""What tasks share: base classes, a DAG run's parameters and who started it, assets, clock, log."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Final, NoReturn

from airflow.sdk import Asset, BaseOperator, Context
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
    DownstreamTasksSkipped,
)

from mqdlq import directories
from mqdlq.airflow.copying import Original
from mqdlq.airflow.hooks.connections import open_ledger
from mqdlq.airflow.hooks.ibmmq import MqHook
from mqdlq.airflow.listeners import XCOM_KEY
from mqdlq.airflow.params import fault, named_messages, wait_seconds
from mqdlq.airflow.run_ids import backfill_run_id, ledger_run_id
from mqdlq.errors import ExecutionError, HandlerError, LedgerError, LedgerUnavailableError
from mqdlq.failures import Failure, describe
from mqdlq.handlers import Handler, load_handler
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.resources import Execution
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense import BackfillWindow, select_queue_manager

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


log = logging.getLogger(__name__)


def utc_now() -> datetime:
    """Return the time; the clock that every stage is given."""
    return datetime.now(UTC)  # noqa: TID251 (tasks are entry points)


def in_the_foreground() -> bool:
    """Whether this task runs within ``airflow dags test``: without a scheduler, nobody answers."""
    from airflow.sdk.execution_time import task_runner  # noqa: PLC0415 (only within a task)

    comms = getattr(task_runner, "SUPERVISOR_COMMS", None)
    return type(comms).__name__ == "InProcessSupervisorComms"


def result_of(ti: Any, task_id: str) -> dict[str, Any]:
    """Return the result of an earlier task, asked by a task instance; raises ExecutionError."""
    left: dict[str, Any] | None = ti.xcom_pull(task_ids=task_id)
    if left is None:
        raise ExecutionError(
            "MQDLQ-606",
            f"the task {task_id} has left no result: it was marked as done by hand, or its XCom"
            f" was removed; clear {task_id}, and the run continues from the ledger",
        )
    return left


def asset(handler: str, product: str) -> Asset:
    """Return the asset of a handler's `product`: "snapshot", "plan" or "report".

    A DAG with ``schedule=[Asset(name="mq_dlq_demo.report", uri="mqdlq://demo/report")]`` runs
    after each report. The extra of an event has ids, counts and places.
    """
    own = {"name": f"mq_dlq_{handler}.{product}", "uri": f"mqdlq://{handler}/{product}"}
    found: Asset = _ANY.copy(own)  # Airflow's checks would take a tenth of a parse of many handlers
    return found


_ANY: Final = Original(Asset(name="mq_dlq_handler.product", uri="mqdlq://handler/product"))


def tell(context: Context, handler: str, product: str, **extra: Any) -> None:
    """Write ids, counts and places into the event that this task adds to an asset."""
    context["outlet_events"][asset(handler, product)].extra = extra


FAILURE: Final = "failure"
"""The key of the XCom in which a task that failed leaves why."""


class HandlerTask(BaseOperator):
    """A task that leaves word of why it failed, for the report, the run's note and the page.

    The word is an XCom of the task, which Airflow removes when the next attempt begins, and a row
    of the ledger, if that can be written. A task whose process is killed leaves none.

    :param handler: name of the handler, the stem of its YAML file
    :param directory: directory of the handlers' files, None for MQDLQ_RULES_DIR
    """

    def __init__(self, *, handler: str = "", directory: Path | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.handler, self.directory = handler, directory

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "execute" not in vars(cls):
            return
        execute = cls.execute

        @wraps(execute)
        def told(self: HandlerTask, context: Context) -> Any:
            with self.leaving_word(context):
                return execute(self, context)

        cls.execute = told  # type: ignore[assignment, method-assign]

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        with self.leaving_word(context):
            return super().resume_execution(next_method, next_kwargs, context)

    def render_template_fields(self, context: Context, jinja_env: Any = None) -> None:
        with self.leaving_word(context):
            super().render_template_fields(context, jinja_env)

    @contextmanager
    def leaving_word(self, context: Context) -> Iterator[None]:
        try:
            yield
        except (DownstreamTasksSkipped, AirflowSkipException):
            raise
        except (Exception, AirflowTaskTimeout) as error:
            # The report raises AirflowFailException alone for a run that failed: no fault of its.
            if not isinstance(error, AirflowFailException) or error.__cause__ is not None:
                self._leave_word(context, error)
            raise

    def describe_failure(self, error: BaseException) -> Failure:
        return describe(self.task_id, error)

    def names(self, context: Context) -> tuple[str, str]:
        return self.handler, self.run_id(context)

    def run_id(self, context: Context) -> str:
        """Return the id under which ledger, lake and report know this DAG run."""
        dag_run = context["dag_run"]
        if dag_run.run_type.value != BACKFILL:
            return ledger_run_id(self.handler, dag_run.run_id)
        run_id = backfill_run_id(self.handler, dag_run.run_id, dag_run.clear_number or 0)
        if self.task_id != SENSE:
            # Clearing any task raises the number. A sense that failed early has not said any.
            return str(context["ti"].xcom_pull(task_ids=SENSE, key=BACKFILL) or run_id)
        context["ti"].xcom_push(key=BACKFILL, value=run_id)
        return run_id

    def _leave_word(self, context: Context, error: BaseException) -> None:
        from mqdlq.reading.report.markdown import failure_note  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

        failure = self.describe_failure(error)
        try:
            context["ti"].xcom_push(key=FAILURE, value=asdict(failure))
            if self.task_id != REPORT:  # which says more
                words = {"note": failure_note(failure), "attention": ""}
                context["ti"].xcom_push(key=XCOM_KEY, value=words)
            handler, run_id = self.names(context)
            if handler and not isinstance(error, LedgerUnavailableError):
                with open_ledger() as ledger:
                    ledger.runs.record_failure(run_id, handler, failure, utc_now())
        except Exception:  # the task's own failure counts
            log.warning("the reason of a failure could not be recorded [MQDLQ-927]", exc_info=True)


class Stage(HandlerTask):
    """A stage of a handler's workflow: passes arguments to the stage's function.

    Tasks pass ids and counts to each other, never a message. A stage records its work in the
    ledger and the lake, under an id made of the handler and the DAG run; a task that runs again
    finds it there.
    """

    def configuration(self) -> Handler:
        return load_handler(self.handler, self.directory)

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
        return MqHook(self.configuration().connection).settings()

    def skip_what_follows(self) -> NoReturn:
        """End this task as a success, and skip all tasks after it but the report."""
        after = self.get_flat_relative_ids(upstream=False)
        raise DownstreamTasksSkipped(tasks=sorted(after - {REPORT}))

    @contextmanager
    def execution(self, context: Context) -> Iterator[Execution]:
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
            yield Execution(
                run=run,
                settings=select_queue_manager(self.settings(), run.queue_manager),
                ledger=ledger,
                lake_root=directories.lake(),
                clock=utc_now,
                sleep=time.sleep,
                log=progress,
            )


TRIGGERED = "operator_triggered"
"""The run type of a run that a task has started."""

NOBODY = "somebody"
"""Airflow does not know the user, for example without an auth manager's login."""

SKIPPED = "which Airflow skips unless the backfill reprocesses completed runs"


def options_of(context: Context, handler: Handler) -> RunOptions:
    """Return the options of a DAG run; raises HandlerError for invalid parameters."""
    asked, dag_run = context["params"], context["dag_run"]
    run_type = dag_run.run_type.value
    if wrong := fault(dag_run.conf or {}):
        raise HandlerError("MQDLQ-115", wrong)
    if asked["apply"] and run_type != BACKFILL:
        raise HandlerError(
            "MQDLQ-116", f"apply is for backfills, and this is a {run_type} run; leave it out"
        )
    follows = asked.get("follows") or ""
    if follows and run_type != TRIGGERED and not in_the_foreground():
        raise HandlerError(
            "MQDLQ-191",
            f"follows is for the runs that a run with WAIT starts, and this is a {run_type} run;"
            " leave it out",
        )
    if follows and run_type == TRIGGERED and not dag_run.triggering_user_name:
        run_type = "scheduled"  # as the run that it follows
    # A backfill without `apply` evaluates only.
    only_evaluates = run_type == BACKFILL and not asked["apply"]
    return RunOptions(
        input_q=asked["input_q"],
        input_q_mgr=asked["input_q_mgr"],
        rules=asked["rules"],
        dry_run=asked["dry_run"] or handler.dry_run or only_evaluates,
        message_keys=named_messages(asked["message_keys"]),
        where=(asked.get("where") or "").strip(),
        as_of=asked.get("as_of") or "",
        action=asked["action"],
        repair=asked.get("repair"),
        until_fixed=bool(asked.get("until_fixed")),
        given_wait=wait_seconds(asked["wait"]),
        dag_run_id=dag_run.run_id,
        run_type=run_type,
        started_by=started_by(context),
        # An answer to an approval has the user's name in the same form.
        started_by_user="" if in_the_foreground() else dag_run.triggering_user_name or "",
        why=(asked.get("why") or "").strip(),
        follows=follows,
    )


def started_by(context: Context) -> str:
    """Return the run's starter: a user and where, the schedule, a backfill, or an asset.

    A run that a task of another DAG has triggered carries that run's user. The run of a backfill
    over an interval that had a run names that run.
    """
    dag_run = context["dag_run"]
    user, kind = dag_run.triggering_user_name, dag_run.run_type.value
    if in_the_foreground():
        return f"{directories.account()} from the command line"
    if kind == "scheduled":
        return "the schedule"
    if kind == "asset_triggered":
        names = sorted({str(event.asset.name) for event in dag_run.consumed_asset_events})
        return f"the asset {', '.join(names)}" if names else "an asset"
    if kind == BACKFILL:
        over = f" over {dag_run.run_id}, {SKIPPED}" if dag_run.clear_number else ""
        return f"a backfill of {user or NOBODY}{over}"
    if kind == TRIGGERED:
        follows = context["params"].get("follows")
        starter = f"the WAIT of {follows}" if follows else "another DAG"
        return f"{starter}, for {user}" if user else starter
    return f"{user or NOBODY} in Airflow"
