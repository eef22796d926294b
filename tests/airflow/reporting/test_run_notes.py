"""Test the notes that the listener writes, over Airflow's own tables."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.types import DagRunType
from sqlalchemy import create_engine, event
from sqlalchemy.orm import Session

from mqdlq.airflow.listeners import (
    AUTHOR,
    MOST,
    XCOM_KEY,
    on_dag_run_failed,
    on_dag_run_success,
)

WORDS = {"note": "Needs attention. 3 messages.", "attention": "2 messages to act on."}
LINE = "mqdlq: Needs attention. 3 messages."


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    import_all_models()
    Base.metadata.create_all(engine)
    with Session(engine) as opened:
        yield opened


def ended_run(session: Session, words: Any = WORDS, dag_id: str = "mq_dlq_demo") -> DagRun:
    """Return a run whose task report has left these words."""
    run = DagRun(dag_id=dag_id, run_id="manual__1", run_type=DagRunType.MANUAL)
    session.add(run)
    session.flush()
    columns = TaskInstance.__table__.columns
    given = {
        "task_id": "report",
        "dag_id": dag_id,
        "run_id": run.run_id,
        "map_index": -1,
        "pool": "default_pool",
        "pool_slots": 1,
        "executor_config": b"",
        "try_number": 1,
        "max_tries": 0,
        "priority_weight": 1,
        "custom_operator_name": "",
    }
    given = {name: value for name, value in given.items() if name in columns}
    session.execute(TaskInstance.__table__.insert().values(**given))
    if words is not None:
        session.add(
            XComModel(
                dag_run_id=run.id,
                dag_id=dag_id,
                run_id=run.run_id,
                task_id="report",
                map_index=-1,
                key=XCOM_KEY,
                value=json.dumps(words),
            )
        )
    session.commit()
    return run


def mark_of(run: DagRun, session: Session) -> str | None:
    task = run.get_task_instance("report", session=session)
    assert task is not None
    note: str | None = task.note
    return note


@pytest.mark.parametrize("ends", [on_dag_run_success, on_dag_run_failed])
def test_a_run_that_ends_gets_the_note_of_its_report(session: Session, ends: Any) -> None:
    run = ended_run(session)

    ends(run)
    session.commit()

    assert run.note == LINE
    assert run.dag_run_note.user_id == AUTHOR
    assert mark_of(run, session) == "mqdlq: 2 messages to act on."


def test_only_a_run_that_needs_attention_marks_its_task(session: Session) -> None:
    run = ended_run(session, {"note": "Everything is handled.", "attention": ""})

    on_dag_run_success(run)
    session.commit()

    assert run.note == "mqdlq: Everything is handled."
    assert mark_of(run, session) is None


def test_a_run_that_ends_again_replaces_its_own_line(session: Session) -> None:
    run = ended_run(session)
    on_dag_run_success(run)
    session.commit()
    (xcom,) = session.query(XComModel)
    xcom.value = json.dumps({"note": "Everything is handled.", "attention": ""})
    session.commit()

    on_dag_run_success(run)
    session.commit()

    assert run.note == "mqdlq: Everything is handled."
    assert mark_of(run, session) is None


def test_the_text_of_a_person_stays(session: Session) -> None:
    run = ended_run(session)
    run.note = ("CHG-17: the queue is open again\nask Bob", "alice")
    on_dag_run_success(run)
    session.commit()
    run.dag_run_note.content += "\n\nDone, Bob"
    (xcom,) = session.query(XComModel)
    xcom.value = json.dumps({"note": "Everything is handled.", "attention": ""})
    session.commit()

    on_dag_run_success(run)
    session.commit()

    assert run.note == (
        "CHG-17: the queue is open again\nask Bob\n\nmqdlq: Everything is handled.\n\nDone, Bob"
    )
    assert run.dag_run_note.user_id == "alice"


def test_a_note_without_room_stays_as_it_is(session: Session) -> None:
    run = ended_run(session)
    run.note = ("x" * (MOST - 10), "alice")

    on_dag_run_success(run)

    assert run.note == "x" * (MOST - 10)


def test_a_failed_run_without_a_report_gets_the_words_of_its_failed_tasks(
    session: Session,
) -> None:
    """A restoration has no report; a task whose process was killed has left no words."""
    run = ended_run(session, {"note": "Why: `it broke`", "attention": ""})
    session.execute(XComModel.__table__.update().values(task_id="restore_demo"))
    session.execute(TaskInstance.__table__.update().values(task_id="restore_demo", state="failed"))
    session.commit()

    on_dag_run_failed(run)
    noted = run.note
    session.execute(XComModel.__table__.delete())
    on_dag_run_failed(run)

    assert noted == "mqdlq: Failed. Why: `it broke`"
    assert run.note == (
        "mqdlq: Failed. stage restore_demo failed: it was stopped, marked as failed by a person, or"
        " its process ended before it could say why; see the log of task restore_demo in Airflow"
        " [MQDLQ-850]"
    )


@pytest.mark.parametrize("words", [None, "text", ["a"]])
def test_a_run_without_a_report_gets_no_note(session: Session, words: Any) -> None:
    run = ended_run(session, words)

    on_dag_run_failed(run)

    assert run.note is None


def test_the_runs_of_other_dags_get_no_note(session: Session) -> None:
    run = ended_run(session, dag_id="another")

    on_dag_run_success(run)

    assert run.note is None


def test_the_listener_reads_a_handful_of_rows_by_their_keys(session: Session) -> None:
    run = ended_run(session)
    statements: list[str] = []
    event.listen(session.get_bind(), "before_cursor_execute", lambda *a: statements.append(a[2]))

    on_dag_run_success(run)

    reads = [statement for statement in statements if statement.startswith("SELECT")]
    assert len(reads) <= 5
    assert statements == reads  # the scheduler writes with its own commit


def test_an_error_never_stops_the_scheduler(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    run = ended_run(session)
    XComModel.__table__.drop(session.get_bind())

    with caplog.at_level(logging.INFO, logger="mqdlq"):
        on_dag_run_success(run)

    assert caplog.messages == [
        "the note of run manual__1 of mq_dlq_demo could not be written [MQDLQ-966]"
    ]


def test_a_run_outside_a_session_is_left_alone() -> None:
    on_dag_run_success(DagRun(dag_id="mq_dlq_demo", run_id="r", run_type=DagRunType.MANUAL))
