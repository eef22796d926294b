"""Create the missing pools of a DAG run when it starts, and write its note when it ends.

A service of Airflow also imports what its tasks and parses need, before it forks their processes.

Airflow leaves a task without an existing pool scheduled without a limit, and reports that in the
scheduler's log only. A note is the headline of the report, which the task report leaves in an XCom:
a task cannot write a note without an account for Airflow's API. These listeners of the plugin run
in the scheduler, within the transaction that starts or ends the run, or where a person sets the
run's state. They read rows by their keys, and nothing else.
"""

from __future__ import annotations

import json
import logging
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from airflow.listeners import hookimpl
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import object_session

from mqdlq.failures import left_no_word

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun


OURS: Final = "mq_dlq_"
REPORT: Final = "report"
XCOM_KEY: Final = "run_note"
"""The key of the XCom of the task report: `note` of the run, and `attention` of the task.

A task that failed leaves one, too, for a run without a report, such as a restoration.
"""
AUTHOR: Final = "mqdlq"
"""The author of a note that no person has written or changed."""
MOST: Final = 1000
"""The length of a note in Airflow's metadata."""
_OUR_LINE: Final = re.compile(r"^mqdlq: .*$", re.MULTILINE)

log = logging.getLogger(__name__)


@hookimpl
def on_starting(component: object) -> None:
    """Import what our DAG files import, so that the processes that a service forks do not have to.

    Under LocalExecutor the scheduler forks the processes of tasks; the dag-processor forks parses.
    """
    if type(component).__name__ == "Job":  # a task calls this, too, and may be one of others
        import_module("mqdlq.airflow.dags")
        import_module("mqdlq.airflow.operators.submit")


@hookimpl
def on_dag_run_running(dag_run: DagRun) -> None:
    if not dag_run.dag_id.startswith(OURS) or dag_run.dag is None:
        return
    for name in sorted({task.pool for task in dag_run.dag.tasks}):
        _make_pool(name, dag_run.dag_id)


def _make_pool(name: str, dag_id: str) -> None:
    """Create a pool unless it exists: its one slot runs one evaluation or execution at a time.

    Never raises: the scheduler calls this. Repeated calls, also by two schedulers, create one pool.
    """
    from airflow.models.pool import Pool  # noqa: PLC0415 (tasks load this, and need no models)
    from airflow.utils.session import create_session  # noqa: PLC0415 (the same)

    try:
        # Not the scheduler's own session: a failure here must leave its transaction intact.
        with create_session(scoped=False) as session:
            if session.scalar(select(Pool.id).where(Pool.pool == name)) is not None:
                return
            about = f"One handler of a dead-letter queue at a time; made for {dag_id}"
            pool = Pool(pool=name, slots=1, description=about, include_deferred=False)
            session.add(pool)
    except IntegrityError:
        return  # another scheduler was quicker
    except OperationalError as error:
        log.warning(
            "pool %s of %s does not exist and could not be created (%s); its tasks wait until"
            " `airflow pools set %s 1 %s` creates it [MQDLQ-801]",
            name,
            dag_id,
            error.orig,
            name,
            dag_id,
        )
    else:
        log.info("pool %s was made with one slot, for %s", name, dag_id)


@hookimpl
def on_dag_run_success(dag_run: DagRun) -> None:
    _write_notes(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: DagRun) -> None:
    _write_notes(dag_run)


def _write_notes(dag_run: DagRun) -> None:
    """Write the note of a run, and mark its task report if messages need attention.

    A fault of the database or of the XCom is logged: the scheduler calls this, and the run has
    ended. Airflow itself logs any other error of a listener.

    A second call replaces what the first has written.
    """
    if not dag_run.dag_id.startswith(OURS):
        return
    try:
        if (session := object_session(dag_run)) is None:
            return
        with session.no_autoflush:
            if (words := _words(session, dag_run)) is None:
                return
            _write(dag_run, "dag_run_note", words["note"])
            if task := dag_run.get_task_instance(REPORT, session=session):
                _write(task, "task_instance_note", words["attention"])
    except (SQLAlchemyError, ValueError):  # ValueError: the XCom is not JSON
        log.warning(
            "the note of run %s of %s could not be written [MQDLQ-966]",
            dag_run.run_id,
            dag_run.dag_id,
            exc_info=True,
        )


def _words(session: Any, dag_run: DagRun) -> dict[str, str] | None:
    """Return what the task report has left, else what failed tasks have; None without either."""
    if (found := _left(session, dag_run, REPORT)) is not None:
        return {name: str(found.get(name, "")) for name in ("note", "attention")}
    failed = dag_run.get_task_instances(state=[TaskInstanceState.FAILED], session=session)
    notes = []
    for task in sorted(ti.task_id for ti in failed):
        left = _left(session, dag_run, task)
        notes.append(left_no_word(task).summary if left is None else str(left.get("note", "")))
    return {"note": f"Failed. {' '.join(notes)}", "attention": ""} if notes else None


def _left(session: Any, dag_run: DagRun, task_id: str) -> dict[str, Any] | None:
    from airflow.models.xcom import XComModel  # noqa: PLC0415 (tasks do not need models)

    chosen = select(XComModel.value).filter_by(
        dag_run_id=dag_run.id, task_id=task_id, map_index=-1, key=XCOM_KEY
    )
    value = session.scalar(chosen)
    found = json.loads(value) if isinstance(value, str) else value
    return found if isinstance(found, dict) else None


def _write(owner: Any, relation: str, ours: str) -> None:
    """Set our line of a note; the lines that people have written stay.

    A note without any line is removed. If there is no room for our line, the note stays as it is.
    """
    note = getattr(owner, relation)
    before = "" if note is None else note.content or ""
    line = f"mqdlq: {ours}" if ours else ""
    if _OUR_LINE.search(before):
        after = _OUR_LINE.sub(lambda _: line, before, count=1).strip()
    else:
        after = "\n\n".join(filter(None, (before, line)))
    if after == before or len(after) > MOST:
        return
    if not after:
        setattr(owner, relation, None)
    elif note is None:
        owner.note = (after, AUTHOR)
    else:
        note.content = after
