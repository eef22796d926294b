"""Start a backfill of a handler's DAG in the Airflow that has its runs, and follow it.

It works over Airflow's metadata database, as Airflow's own command line does.
"""

import json
import signal
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import click
import pendulum
from airflow import settings
from airflow.cli.cli_parser import get_parser
from airflow.jobs.job import most_recent_job
from airflow.models.backfill import Backfill as AirflowBackfill
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.sdk import TaskInstanceState
from airflow.sdk.exceptions import AirflowException
from airflow.utils.session import create_session
from sqlalchemy import event, func, select
from sqlalchemy.exc import SQLAlchemyError

from mqdlq.airflow.hooks.connections import open_ledger
from mqdlq.airflow.operators.base import APPROVE, utc_now
from mqdlq.airflow.run_ids import backfill_run_id
from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler, load_handler
from mqdlq.lake import snapshot_stands
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import TakenSnapshot
from mqdlq.local.environment import read_settings, unusable
from mqdlq.mqi.connect import connect
from mqdlq.reading.page_paths import dag_of
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense import BackfillWindow, find_scheduled_queue
from mqdlq.words import count, moment, period, place

POLL_S: Final = 2
ENDED: Final = ("success", "failed")


class BackfillError(MqDlqError):
    """There is nothing to evaluate, or Airflow does not run the backfill."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of the handler's schedule, and the snapshots of the queue taken within it."""

    window: BackfillWindow
    snapshots: list[TakenSnapshot] = field(default_factory=list)
    pruned: list[TakenSnapshot] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill that was asked for: the options of the command, and what they come to."""

    handler: Handler
    since: datetime
    until: datetime
    conf: dict[str, Any]

    @property
    def dag_id(self) -> str:
        return dag_of(self.handler.name)

    def queue(self) -> tuple[str, str]:
        """Return queue manager and queue; the queue manager is asked for its DEADQ only."""
        settings = read_settings(self.handler.connection)
        options = RunOptions(rules=self.conf.get("rules"))
        where, named = find_scheduled_queue(self.handler, settings, options)
        if not named.strip():
            with connect(where) as queue_manager:
                named = queue_manager.dead_letter_q_name()
        return where.queue_manager, named.strip()

    def intervals(self, ledger: Ledger, now: datetime) -> list[Interval]:
        """Return the intervals that have ended, from the first to the last one with snapshots.

        Raises BackfillError if there is none.
        """
        found = [Interval(window) for window in ended_intervals(self, now)]
        starts = [one.window.start for one in found]
        queue_manager, queue = self.queue()
        end = found[-1].window.end if found else self.since
        for taken in ledger.snapshots.taken_between(queue_manager, queue, self.since, end):
            if index := bisect_right(starts, taken.taken_at):
                one = found[index - 1]
                (one.snapshots if snapshot_stands(taken.location) else one.pruned).append(taken)
        within = [index for index, one in enumerate(found) if one.snapshots]
        if not within:
            pruned = sum(len(one.pruned) for one in found)
            why = f"all {pruned} taken there are pruned" if pruned else "no run took one there"
            raise BackfillError(
                "MQDLQ-446",
                f"there is no snapshot of {place(queue, queue_manager)} in the"
                f" {count(len(found), 'interval')} of {self.dag_id} from {moment(self.since)} to"
                f" {moment(self.until)} that {'has' if len(found) == 1 else 'have'} ended"
                f" ({why}): nothing to evaluate; `mqdlq snapshots list` shows when snapshots were"
                " taken",
            )
        found = found[within[0] : within[-1] + 1]
        click.echo(f"{place(queue, queue_manager)}: {_describe(found)}")
        return found


def _describe(found: list[Interval]) -> str:
    taken = [snapshot for one in found for snapshot in one.snapshots]
    with_some = sum(bool(one.snapshots) for one in found)
    numbers = f"{count(len(taken), 'snapshot')}, {_messages(taken)}"
    if pruned := sum(len(one.pruned) for one in found):
        numbers += f"; {pruned} more are pruned"
    times = period(found[0].window.start, found[-1].window.end)
    return f"{count(len(found), 'interval')}, {times}; {with_some} with snapshots ({numbers})"


def _messages(taken: Iterable[TakenSnapshot]) -> str:
    return count(sum(one.messages for one in taken), "message")


def ended_intervals(asked: Backfill, now: datetime) -> Iterator[BackfillWindow]:
    """Yield the intervals that Airflow backfills; raises BackfillError for an unknown DAG."""
    dag = SerializedDagModel.get_dag(asked.dag_id)
    if dag is None:
        raise BackfillError(
            "MQDLQ-843",
            f"Airflow's metadata {_metadata()} have no DAG {asked.dag_id}; set AIRFLOW_HOME or"
            " AIRFLOW__DATABASE__SQL_ALCHEMY_CONN to the Airflow that has the runs",
        )
    since, until = pendulum.instance(asked.since), pendulum.instance(asked.until)
    for info in dag.iter_dagrun_infos_between(since, until):
        if info.data_interval is not None and info.data_interval.end < now:
            yield BackfillWindow(info.data_interval.start, info.data_interval.end)


def _metadata() -> str:
    engine: Any = settings.engine
    return str(engine.url.render_as_string(hide_password=True))


def require_airflow(asked: Backfill) -> None:
    """Raise BackfillError if Airflow would begin none of the runs."""
    with create_session() as session:
        dag = session.get(DagModel, asked.dag_id)
        if dag is not None and dag.is_paused:
            raise BackfillError(
                "MQDLQ-844",
                f"{asked.dag_id} is paused, so Airflow would begin no run of the backfill;"
                f" `mqdlq airflow dags unpause {asked.dag_id}` starts the DAG",
            )
        job = most_recent_job("SchedulerJob", session=session)
        if job is None or not job.is_alive():
            raise BackfillError(
                "MQDLQ-845",
                f"no scheduler runs over Airflow's metadata {_metadata()}, so none would begin a"
                " run of the backfill; start Airflow's services, or set AIRFLOW_HOME or"
                " AIRFLOW__DATABASE__SQL_ALCHEMY_CONN to the Airflow that has the runs",
            )


def create(asked: Backfill, found: list[Interval]) -> int:
    """Have Airflow create the backfill, over intervals that have runs as well; return its id."""
    _lock_sqlite_before_reading()
    options = {
        "--dag-id": asked.dag_id,
        "--from-date": found[0].window.start.isoformat(),
        "--to-date": found[-1].window.start.isoformat(),
        "--max-active-runs": "1",
        "--reprocess-behavior": "completed",
        "--dag-run-conf": json.dumps(asked.conf),
    }
    words = [word for option in options.items() for word in option]
    arguments = get_parser().parse_args(["backfill", "create", *words])
    try:
        arguments.func(arguments)
    except AirflowException as error:
        raise BackfillError("MQDLQ-448", f"Airflow does not begin the backfill: {error}") from None
    newest = select(func.max(AirflowBackfill.id)).where(AirflowBackfill.dag_id == asked.dag_id)
    with create_session() as session:
        return int(session.scalar(newest) or 0)


def _lock_sqlite_before_reading() -> None:
    """Have each transaction of this process that Airflow begins by a savepoint wait for SQLite.

    For each run Airflow reads and then writes within a savepoint. If another process, such as the
    scheduler, has written in between, SQLite refuses the write at once: "database is locked". An
    update of nothing, as the first statement, waits until no other process writes.
    """
    engine: Any = settings.engine
    if engine.dialect.name != "sqlite":
        return

    @event.listens_for(engine, "after_cursor_execute")
    def _lock(connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("SAVEPOINT"):
            connection.exec_driver_sql("PRAGMA busy_timeout = 60000")
            connection.exec_driver_sql("UPDATE backfill SET id = id WHERE 0")


def follow(asked: Backfill, backfill_id: int, found: list[Interval], ledger: Ledger) -> None:
    """Tell how the runs end; raises BackfillError if snapshots were not evaluated."""
    told: dict[str, bool] = {}
    asking: set[str] = set()
    while True:
        runs, waiting, is_complete = _state_of(backfill_id)
        for run in runs:
            if run.run_id not in told and run.state in ENDED:
                text, told[run.run_id] = _end_of(run, asked, ledger)
                click.echo(f"{len(told)} of {len(runs)}: {text}")
            elif run.run_id in waiting - asking:
                asking.add(run.run_id)
                click.echo(f"{run.run_id} waits for an approval in Airflow")
        # Airflow refuses another backfill of the DAG until it has marked this one as complete.
        if is_complete and len(told) == len(runs):
            break
        time.sleep(POLL_S)
    done = {run.logical_date for run in runs if told[run.run_id]}
    wanted = [one.window.start for one in found if one.snapshots]
    missing = [start for start in wanted if start not in done]
    if missing:
        raise BackfillError(
            "MQDLQ-447",
            f"{len(missing)} of {count(len(wanted), 'interval')} with snapshots were not evaluated,"
            f" the first from {moment(missing[0])}: a run of it has failed, or is under way, which"
            f" Airflow skips; see the runs of {asked.dag_id} in Airflow, and start the backfill"
            " again",
        )
    click.echo(f"Evaluated {_describe(found)}.")


def _state_of(backfill_id: int) -> tuple[list[Any], set[str], bool]:
    """Return a backfill's DAG runs, the ids of runs that wait for an approval, and its end."""
    with create_session() as session:
        of_backfill = select(DagRun).where(DagRun.backfill_id == backfill_id)
        runs = list(session.scalars(of_backfill.order_by(DagRun.logical_date)))
        asking = select(TaskInstance.run_id).where(
            TaskInstance.dag_id.in_([run.dag_id for run in runs]),
            TaskInstance.run_id.in_([run.run_id for run in runs]),
            TaskInstance.task_id == APPROVE,
            TaskInstance.state == TaskInstanceState.AWAITING_INPUT,
        )
        backfill = session.get(AirflowBackfill, backfill_id)
        is_complete = backfill is None or backfill.completed_at is not None
        return runs, set(session.scalars(asking)), is_complete


def _end_of(run: Any, asked: Backfill, ledger: Ledger) -> tuple[str, bool]:
    """Return how a run has ended in words, and whether it has evaluated snapshots."""
    window = BackfillWindow(run.data_interval_start, run.data_interval_end)
    run_id = backfill_run_id(asked.handler.name, run.run_id, run.clear_number)
    look = ledger.runs.last_look(run_id)
    if run.state == "failed" or look is None:
        failures = [one.why for _, one in ledger.runs.failures(run_id)]
        why = failures[-1] if failures else f"`mqdlq report {run_id}` says why"
        return f"{window}: failed: {why}", False
    if not look.is_work:
        return look.why, look.depth > 0
    facts = Counter(fact.outcome.words for fact in ledger.outcomes.of_run(run_id).values())
    booked = ", ".join(f"{number:,} {words}" for words, number in facts.items())
    return f"{window}: {booked or 'none of the messages is on the queue now'}", True


def backfill(
    handler: str, since: datetime, until: datetime, conf: dict[str, Any], *, is_dry_run: bool
) -> int:
    """Evaluate the snapshots taken between two times by a backfill; return the exit code.

    Raises BackfillError, and HomeError if Airflow's metadata cannot be used.
    """
    asked = Backfill(load_handler(handler), since, until, conf)
    try:
        with open_ledger() as ledger:
            found = asked.intervals(ledger, utc_now())
            if is_dry_run:
                for one in found:
                    if one.snapshots:
                        taken = count(len(one.snapshots), "snapshot")
                        click.echo(f"  {one.window}: {taken}, {_messages(one.snapshots)}")
                click.echo("Nothing was started.")
                return 0
            require_airflow(asked)
            backfill_id = create(asked, found)
            click.echo(
                f"Backfill {backfill_id} of {asked.dag_id} runs, one interval after the other"
            )
            follow(asked, backfill_id, found, ledger)
    except SQLAlchemyError as error:
        why = " ".join(str(getattr(error, "orig", None) or type(error).__name__).split())
        raise unusable(why) from None
    except KeyboardInterrupt:
        click.echo("interrupted; a backfill that has begun continues in Airflow")
        return 128 + signal.SIGINT
    return 0
