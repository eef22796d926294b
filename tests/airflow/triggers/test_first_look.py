"""The task sense where its first look fails, and where another handler looks at the same queue."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped, TaskDeferred

import embedded_mq
from mqdlq.airflow.operators.stages import POLL_S, Sense
from mqdlq.airflow.params import SCHEMAS
from mqdlq.airflow.triggers.waiting import RULES_CHANGED, AnswerTrigger, DepthTrigger, RetryTrigger
from mqdlq.errors import QueueManagerError
from mqdlq.ledger import open_ledger
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.rules import RulesError
from mqdlq.stages import sense

GONE = "MQCONN of queue manager QMT failed: MQRC_Q_MGR_NOT_AVAILABLE (2059)"


@pytest.fixture(name="place")
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create a queue manager with the queue DLQ, and the directory of handlers' files."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    extra = {"queue_manager": "QMT", "transport": "embedded"}
    monkeypatch.setenv("AIRFLOW_CONN_MQ", json.dumps({"conn_type": "ibmmq", "extra": extra}))
    embedded_mq.create("QMT")
    embedded_mq.run_mqsc("QMT", "DEFINE QLOCAL(DLQ)\nALTER QMGR DEADQ(DLQ)")
    yield tmp_path
    embedded_mq.faults.set("")


def handler(place: Path, wait: str, name: str = "night", keys: str = "") -> Sense:
    (place / f"{name}.yaml").write_text(f"connection: mq\nrules: {name}.rules\n{keys}")
    (place / f"{name}.rules").write_text(f"INPUTQ(DLQ) WAIT({wait})\nACTION(IGNORE)\n")
    return Sense(task_id="sense", handler=name)


def context(run_id: str = "one", run_type: str = "manual", **params: Any) -> Any:
    run = SimpleNamespace(
        run_id=run_id,
        run_type=SimpleNamespace(value=run_type),
        conf=params,
        triggering_user_name="alice",
    )
    defaults = {name: schema.get("default") for name, schema in SCHEMAS.items()}
    return {"params": {**defaults, **params}, "dag_run": run}


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (the task under test compares with the wall clock)


def wait_of(task: Sense, run: Any) -> AnswerTrigger:
    """Look for the first time, at a queue manager that is away; return what is waited for."""
    embedded_mq.faults.set("MQCONNX:1:2059:before")
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(run)
    assert deferred.value.method_name == "look_again"
    assert isinstance(deferred.value.trigger, AnswerTrigger)
    assert deferred.value.trigger.poll_s == POLL_S
    return deferred.value.trigger


@pytest.mark.parametrize(("wait", "seconds"), [("600", 600), ("YES", 3600)])
def test_sense_waits_for_a_queue_manager_that_is_not_available(
    place: Path, caplog: pytest.LogCaptureFixture, wait: str, seconds: int
) -> None:
    """As long as WAIT says, or for max_run_time, which is an hour."""
    before = now()

    with caplog.at_level("INFO"):
        trigger = wait_of(handler(place, wait), context())

    assert before <= trigger.wait.until - timedelta(seconds=seconds) <= now()
    until = f"{trigger.wait.until:%Y-%m-%d %H:%M:%S}"
    assert (
        f"{GONE}; the run waits for the queue manager until {until} UTC [MQDLQ-127]"
    ) in caplog.messages


def test_the_run_parameter_wait_overrides_the_table(place: Path) -> None:
    before = now()

    trigger = wait_of(handler(place, "NO"), context(wait="60"))

    assert before <= trigger.wait.until - timedelta(seconds=60) <= now()


def test_a_run_with_wait_no_fails_with_the_reason_code(place: Path) -> None:
    task = handler(place, "NO")
    embedded_mq.faults.set("MQCONNX:1:2059:before")

    with pytest.raises(QueueManagerError) as failed:
        task.execute(context())

    assert str(failed.value) == f"{GONE} [MQDLQ-100]"


def test_sense_does_not_wait_if_the_connection_is_refused(place: Path) -> None:
    task = handler(place, "YES")
    embedded_mq.faults.set("MQCONNX:1:2035:before")

    with pytest.raises(QueueManagerError, match="MQRC_NOT_AUTHORIZED"):
        task.execute(context())


def test_sense_inquires_the_queue_again_after_the_wait(place: Path) -> None:
    task, run = handler(place, "600"), context()
    trigger = wait_of(task, run)
    embedded_mq.faults.set("")

    with pytest.raises(TaskDeferred) as deferred:
        task.look_again(run, {"until": trigger.wait.until.isoformat()})

    assert deferred.value.method_name == "resume"  # nothing on the queue: it is waited for messages


def test_a_resumed_wait_keeps_its_time_limit(place: Path) -> None:
    task, until = handler(place, "600"), now() + timedelta(seconds=60)
    embedded_mq.faults.set("MQCONNX:1:2059:before")

    with pytest.raises(TaskDeferred) as deferred:
        task.look_again(context(), {"until": until.isoformat()})

    assert isinstance(deferred.value.trigger, AnswerTrigger)
    assert deferred.value.trigger.wait.until == until


def test_an_interrupted_wait_for_messages_ends_at_its_original_time(place: Path) -> None:
    task, run = handler(place, "600"), context()
    until = (now() + timedelta(seconds=60)).isoformat()
    embedded_mq.faults.set("MQCONNX:1:2059:before")

    with pytest.raises(TaskDeferred) as away:
        task.resume(run, {"depth": 0, "why": "", "until": until})
    embedded_mq.faults.set("")
    wait = away.value.trigger.serialize()[1]["wait"]
    with pytest.raises(TaskDeferred) as back:
        task.look_again(run, {"until": wait["until"].isoformat(), "waited": wait["waited"]})

    assert isinstance(back.value.trigger, DepthTrigger)
    assert back.value.trigger.wait.until == datetime.fromisoformat(until)


def test_a_continuous_run_that_cannot_begin_does_not_fail_at_once(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow starts the next one as soon as it has failed, and that would fail, too."""
    task, run = handler(place, "NO", keys="schedule: '@continuous'\n"), context()
    (place / "night.rules").write_text("ACTION(DISCRAD)\n")
    before = now()

    with pytest.raises(TaskDeferred) as deferred:
        task.execute(run)

    assert deferred.value.method_name == "look_once_more"
    assert isinstance(deferred.value.trigger, RetryTrigger)
    assert before <= deferred.value.trigger.moment - timedelta(minutes=1) <= now()
    assert caplog.messages[-1].endswith(
        "; the run looks once more in 0:01:00, then it fails [MQDLQ-133]"
    )
    with pytest.raises(RulesError):
        task.look_once_more(run, {})


def test_a_continuous_run_pauses_after_a_failed_run(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow starts it at once, and what failed after sense would fail again, and again."""
    task = handler(place, "NO", keys="schedule: '@continuous'\n")
    put("DLQ")
    before = now()
    task.execute(context())

    with pytest.raises(TaskDeferred) as deferred:
        task.execute(context("two"))

    assert deferred.value.method_name == "look_once_more"
    assert isinstance(deferred.value.trigger, RetryTrigger)
    assert before <= deferred.value.trigger.moment - timedelta(minutes=1) <= now()
    told = "the previous run has left no account of the queue; this run continues in "
    assert caplog.messages[-1].startswith(told)


def test_a_continuous_run_continues_after_its_pause(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = handler(place, "NO", keys="schedule: '@continuous'\n")
    put("DLQ")
    task.execute(context())
    monkeypatch.setattr(sense, "FAILURE_DELAY", timedelta(0))

    task.look_once_more(context("two"), {})

    with open_ledger() as ledger:
        look = ledger.runs.last_look("night-two")
    assert look is not None
    assert look.is_work


def test_a_run_fails_without_retry_if_the_queue_manager_stays_unavailable(place: Path) -> None:
    """Another attempt of the task would wait as long again."""
    task = handler(place, "600")
    embedded_mq.faults.set("MQCONNX:1:2059:before")

    with pytest.raises(AirflowFailException) as failed:
        task.look_again(context(), {"until": (now() - timedelta(seconds=1)).isoformat()})

    assert str(failed.value) == f"{GONE} [MQDLQ-100]"


def wait_for_messages(task: Sense, run: Any) -> DepthTrigger:
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(run)
    assert isinstance(deferred.value.trigger, DepthTrigger)
    return deferred.value.trigger


def event_of(trigger: DepthTrigger, why: str) -> dict[str, Any]:
    assert trigger.wait.until is not None
    return {"depth": 1, "why": why, "until": trigger.wait.until.isoformat()}


def test_rules_that_change_during_the_wait_are_those_of_the_run(place: Path) -> None:
    """The rules that a run reads when it stops waiting hold to its end."""
    task, run = handler(place, "600"), context()
    trigger = wait_for_messages(task, run)
    (place / "night.rules").write_text("INPUTQ(DLQ) WAIT(600)\nACTION(DISCARD)\n")
    put("DLQ")

    task.resume(run, event_of(trigger, RULES_CHANGED))

    with open_ledger() as ledger:
        begun, look = ledger.runs.get("night-one"), ledger.runs.last_look("night-one")
    assert begun is not None
    assert "ACTION(DISCARD)" in begun.rules_text
    assert look is not None
    assert (look.depth, look.is_work, look.why) == (1, True, "1 messages")


def test_a_run_over_an_empty_queue_waits_with_the_changed_rules(place: Path) -> None:
    task, run = handler(place, "600"), context()
    first = wait_for_messages(task, run)
    (place / "night.rules").write_text("INPUTQ(DLQ) WAIT(600)\nACTION(DISCARD)\n")

    with pytest.raises(TaskDeferred) as deferred:
        task.resume(run, event_of(first, RULES_CHANGED))

    second = deferred.value.trigger
    assert isinstance(second, DepthTrigger)
    assert second.wait.until == first.wait.until
    assert second.wait.rules_digest != first.wait.rules_digest
    with open_ledger() as ledger:
        assert ledger.runs.get("night-one") is None


def test_sense_waits_again_if_the_messages_have_gone(place: Path) -> None:
    """Another run has taken what the trigger saw."""
    task, run = handler(place, "600"), context()
    trigger = wait_for_messages(task, run)

    with pytest.raises(TaskDeferred) as deferred:
        task.resume(run, event_of(trigger, "1 messages"))

    assert isinstance(deferred.value.trigger, DepthTrigger)
    assert deferred.value.trigger.wait.until == trigger.wait.until


def test_a_wait_without_messages_skips_the_other_tasks_and_says_so(place: Path) -> None:
    task, run = handler(place, "600"), context()
    wait_for_messages(task, run)
    over = (now() - timedelta(seconds=1)).isoformat()

    with pytest.raises(DownstreamTasksSkipped):
        task.resume(run, {"depth": 0, "why": "", "until": over})

    with open_ledger() as ledger:
        look = ledger.runs.last_look("night-one")
    assert look is not None
    assert (look.depth, look.is_work) == (0, False)


@pytest.mark.parametrize("wait", ["NO", "600"])
def test_full_snapshot_takes_a_snapshot_of_an_empty_queue(place: Path, wait: str) -> None:
    """To show that it was empty: `mqdlq shadow` compares with it."""
    handler(place, wait).execute(context(full_snapshot=True))

    with open_ledger() as ledger:
        look = ledger.runs.last_look("night-one")
    assert look is not None
    assert (look.depth, look.is_work, look.why) == (0, True, "a full snapshot is requested")


@pytest.mark.parametrize(("keys", "is_dry"), [("dry_run: yes\n", True), ("", False)])
def test_dry_run_in_the_handlers_file_holds_for_every_run(
    place: Path, keys: str, *, is_dry: bool
) -> None:
    """Nobody gives a scheduled run its params."""
    put("DLQ")

    handler(place, "NO", keys=keys).execute(context(dry_run=False))

    with open_ledger() as ledger:
        run = ledger.runs.get("night-one")
    assert run is not None
    assert run.dry_run is is_dry


def test_a_cleared_run_keeps_its_rules_while_it_waits(place: Path) -> None:
    task, run = handler(place, "600"), context()
    trigger = wait_for_messages(task, run)
    put("DLQ")
    task.resume(run, event_of(trigger, "1 messages"))
    embedded_mq.run_mqsc("QMT", "CLEAR QLOCAL(DLQ)")

    assert wait_for_messages(task, run).wait.rules_digest == ""


def put(queue: str) -> None:
    with connect(ConnectionSettings("QMT", transport="embedded")) as connected:
        connected.handle.put1(queue.encode(), b"a message")


def warnings(task: Sense, caplog: pytest.LogCaptureFixture) -> list[str]:
    with pytest.raises(DownstreamTasksSkipped):
        task.execute(context())
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize(
    ("night", "day", "is_sent"),
    [
        ("", "", False),  # they share one that is made for them
        ("dlq", "", True),
        ("dlq", "dlq", False),
        ("default_pool", "default_pool", True),  # it has many slots
    ],
)
def test_two_handlers_of_one_queue_need_one_pool(
    place: Path, caplog: pytest.LogCaptureFixture, night: str, day: str, is_sent: bool
) -> None:
    handler(place, "NO", "day", f"pool: {day}\n" if day else "")

    told = warnings(handler(place, "NO", "night", f"pool: {night}\n" if night else ""), caplog)

    assert told == ([warning(night, day or "mq_dlq_day")] if is_sent else [])


def test_sense_warns_if_two_connections_lead_to_one_queue_manager(
    place: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MQ_TOO", os.environ["AIRFLOW_CONN_MQ"])
    handler(place, "NO", "day")
    (place / "day.yaml").write_text("connection: mq_too\nrules: day.rules\n")

    told = warnings(handler(place, "NO"), caplog)

    assert told == [warning("mq_dlq_night", "mq_dlq_day")]


def warning(night: str, day: str) -> str:
    return (
        f"night (pool: {night}) and day (pool: {day}) both handle DLQ of QMT; give both one pool"
        " of one slot, or one waits in a worker while the other executes [MQDLQ-129]"
    )


def test_one_handler_of_a_queue_needs_no_pool(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler(place, "NO", "day")
    (place / "day.rules").write_text("INPUTQ(ORDERS.DLQ) WAIT(NO)\nACTION(IGNORE)\n")

    assert warnings(handler(place, "NO"), caplog) == []
