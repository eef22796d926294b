"""Metrics through Airflow's own: what StatsD gets of a run."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.sdk._shared.observability.metrics.stats import _get_backend
from airflow.sdk._shared.observability.metrics.statsd_logger import SafeStatsdLogger
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from mqdlq.airflow.metrics import emit_approvals, emit_depth, emit_start_failure
from mqdlq.causes import find_cause
from mqdlq.ledger.tables import Approval, Look
from mqdlq.model import Outcome, Trait
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.snapshot.taking import record_causes
from tests.airflow.reporting.ended_runs import handled, tell
from tests.support.world import World

TAGS = "handler=test,qmgr=QM1,queue=DLQ"
END = 1795262490  # 90 seconds after noon


@pytest.fixture(name="server")
def _server(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Listen as a StatsD server does, and have Airflow send its metrics here."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        settings = {
            "STATSD_ON": "True",
            "STATSD_HOST": "127.0.0.1",
            "STATSD_PORT": str(server.getsockname()[1]),
            "STATSD_INFLUXDB_ENABLED": "True",
        }
        for name, value in settings.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        yield server
        logger = _get_backend()
        assert isinstance(logger, SafeStatsdLogger)
        logger.statsd.close()
        monkeypatch.undo()
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


def sent(server: socket.socket) -> dict[str, str]:
    """Return what has been sent for the handler `test`: value and kind by name and other tags."""
    found: dict[str, str] = {}
    while True:
        try:
            line = server.recv(4096).decode()
        except BlockingIOError:
            return found
        name, _, value = line.removeprefix("airflow.mqdlq.").rpartition(":")
        found[name.replace(f",{TAGS}", "")] = value


def attention(**numbers: int) -> dict[str, str]:
    """Return the metrics about messages that need attention; the others are 0."""
    names = [one for one in Outcome if Trait.NEEDS_ATTENTION in one.traits]
    return {f"needs_attention,outcome={one}": f"{numbers.get(one, 0)}|g" for one in names}


def test_a_run_sends_each_declared_metric_but_maxdepth(
    tmp_path: Path, server: socket.socket
) -> None:
    execution = handled(tmp_path, 2053, 2085)

    tell(execution, execution.run)

    assert sent(server) == {
        "depth": "1|g",
        "outcomes,outcome=delivered": "1|c",
        "outcomes,outcome=unmatched": "1|c",
        "messages,reason=MQRC_Q_FULL": "1|g",
        "messages,reason=MQRC_UNKNOWN_OBJECT_NAME": "1|g",
        "cause_messages,reason=MQRC_Q_FULL,cause_id=0bc7646ee98b": "1|g",
        "cause_messages,reason=MQRC_UNKNOWN_OBJECT_NAME,cause_id=31f2b04672f7": "1|g",
        **attention(unmatched=1),
        "not_archived": "0|g",
        "open_breakers": "0|g",
        "oldest_age_seconds": "3690.0|g",
        "run_duration_seconds": "90.0|g",
        "run_failed,handler=test": "0|g",
        "run_unaccounted": "0|g",
        "last_success_timestamp_seconds": f"{END}.0|g",
        "overdue_timestamp_seconds": "0.0|g",
        "approvals_waiting": "0|g",
    }


def test_an_inquiry_sends_depth_and_maxdepth(tmp_path: Path, server: socket.socket) -> None:
    run = World(tmp_path).start("WAIT(NO)\nACTION(IGNORE)\n")

    emit_depth(run, 71, 5000)

    assert sent(server) == {"depth": "71|g", "max_depth": "5000|g"}


def test_a_queue_name_with_a_percent_sign_is_sent_with_an_underscore(
    tmp_path: Path, server: socket.socket
) -> None:
    """Airflow would drop the metric."""
    run = replace(World(tmp_path).start("WAIT(NO)\nACTION(IGNORE)\n"), queue="A%B/C.D_E")

    emit_depth(run, 1, 2)

    assert sent(server).keys() == {
        "depth,handler=test,qmgr=QM1,queue=A_B/C.D_E",
        "max_depth,handler=test,qmgr=QM1,queue=A_B/C.D_E",
    }


def test_a_run_that_cannot_start_sends_that_it_failed(server: socket.socket) -> None:
    emit_start_failure("orders")

    assert sent(server) == {"run_failed,handler=orders": "1|g"}


def test_a_handler_is_overdue_at_the_third_scheduled_start_after_a_success(
    tmp_path: Path, server: socket.socket
) -> None:
    execution = handled(tmp_path, 2053)

    tell(execution, execution.run, schedule="*/10 * * * *")

    assert sent(server)["overdue_timestamp_seconds"] == f"{END - 90 + 30 * 60}.0|g"


def test_a_failed_run_sends_no_success(tmp_path: Path, server: socket.socket) -> None:
    world = World(tmp_path)
    world.dead_letter()
    execution = world.plan("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n")
    make_pass(execution)

    tell(execution, execution.run, schedule="@hourly", failed="retry")

    found = sent(server)
    assert found["run_failed,handler=test"] == "1|g"
    assert not found.keys() & {"last_success_timestamp_seconds", "overdue_timestamp_seconds"}
    assert not [name for name in found if name.startswith("needs_attention")]


def test_messages_without_an_archive_copy_are_counted(
    tmp_path: Path, server: socket.socket
) -> None:
    world = World(tmp_path)
    world.dead_letter()
    execution = world.plan("WAIT(NO)\nACTION(DISCARD)\n")
    world.interrupted_pass(execution, "MQPUT1[MQDLQ.STATE]:1:2195:before")
    (file,) = Path(world.lake_root).glob("archive/run-1/*.parquet")
    file.unlink()
    make_pass(execution)
    settle(execution)

    tell(execution, execution.run)

    found = sent(server)
    assert found["not_archived"] == "1|g"
    assert found["needs_attention,outcome=not_attempted"] == "1|g"


def test_unanswered_questions_of_other_runs_count_as_waiting(
    tmp_path: Path, server: socket.socket
) -> None:
    world = World(tmp_path)
    asks, old, answered, last = (
        world.start("WAIT(NO)\nACTION(IGNORE)\n", run_id=name)
        for name in ("asks", "old", "answered", "last")
    )
    now = world.clock()
    for run, decision, at in (
        (asks, "asked", now),
        (old, "asked", now - timedelta(hours=13)),
        (answered, "asked", now),
        (answered, "approved", now),
    ):
        approval = Approval("hash", ("discard",), decision, "", at)
        world.ledger.plans.record_approval(run.run_id, approval)

    emit_approvals(last, timedelta(hours=12), world.ledger, now, ["a question"])
    assert sent(server) == {"approvals_waiting": "2|g"}

    emit_approvals(last, timedelta(hours=12), world.ledger, now, [])
    assert sent(server) == {"approvals_waiting": "1|g"}


def test_settled_messages_count_in_the_metrics_of_reasons_attention_and_age(
    tmp_path: Path, server: socket.socket
) -> None:
    world = World(tmp_path)
    world.dead_letter(dest_q="ELSEWHERE", reason=2085)
    world.handle("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n")
    world.dead_letter(dest_q="ELSEWHERE", reason=2085, body=b"another")
    world.clock.now += timedelta(minutes=10)
    execution = world.plan("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n")
    make_pass(execution)
    settle(execution)

    tell(world, execution.run)

    found = sent(server)
    assert found["messages,reason=MQRC_UNKNOWN_OBJECT_NAME"] == "2|g"
    assert found["needs_attention,outcome=unmatched"] == "2|g"
    assert found["oldest_age_seconds"] == "4290.0|g"


def test_settled_messages_have_an_age_if_no_message_is_new(
    tmp_path: Path, server: socket.socket
) -> None:
    execution = handled(tmp_path, 2053, 2085)
    tell(execution, execution.run)
    sent(server)
    world = World(tmp_path)
    world.clock.now += timedelta(minutes=10)
    run = world.start("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n", run_id="later")
    world.ledger.runs.record_look(run.run_id, Look(1, False, "", world.clock()))

    tell(world, run)

    found = sent(server)
    assert found["oldest_age_seconds"] == "4290.0|g"
    assert not [name for name in found if name.startswith("needs_attention")]  # as they were


def test_a_run_that_finds_an_empty_queue_sets_what_was_on_it_to_zero(
    tmp_path: Path, server: socket.socket
) -> None:
    """A gauge keeps its value until another is sent."""
    execution = handled(tmp_path, 2053, 2085)
    tell(execution, execution.run)
    sent(server)
    world = World(tmp_path)
    world.mqsc("CLEAR QLOCAL(DLQ)")
    run = world.start("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n", run_id="later")
    world.ledger.runs.record_look(run.run_id, Look(0, False, "", world.clock()))

    tell(world, run)

    found = sent(server)
    reasons = {name: value for name, value in found.items() if name.startswith("messages")}
    assert found | attention() == found
    assert found["oldest_age_seconds"] == "0.0|g"
    assert reasons == {
        "messages,reason=MQRC_Q_FULL": "0|g",
        "messages,reason=MQRC_UNKNOWN_OBJECT_NAME": "0|g",
    }


def test_messages_are_counted_by_cause_and_the_causes_of_the_last_run_set_to_zero(
    tmp_path: Path, server: socket.socket
) -> None:
    world = World(tmp_path)
    for number in range(3):
        world.dead_letter(reason=2085, dest_q=f"AMQ.{number:016X}")
    dynamic = find_cause("dead_letter", 2085, "AMQ.*", "QM1").cause_id
    execution = world.plan("WAIT(NO)\nREASON(2053) ACTION(RETRY)\n")
    record_causes(execution.run, ledger=world.ledger)
    make_pass(execution)
    settle(execution)

    tell(execution, execution.run)

    found = {name: value for name, value in sent(server).items() if "cause" in name}
    assert found == {f"cause_messages,reason=MQRC_UNKNOWN_OBJECT_NAME,cause_id={dynamic}": "3|g"}
    world.mqsc("CLEAR QLOCAL(DLQ)")
    run = world.start("WAIT(NO)\nREASON(2053) ACTION(RETRY)\n", run_id="later")
    world.ledger.runs.record_look(run.run_id, Look(0, False, "", world.clock()))
    tell(world, run)
    assert {name: value for name, value in sent(server).items() if "cause" in name} == (
        dict.fromkeys(found, "0|g")
    )


def test_the_age_metric_is_zero_if_no_message_stays(tmp_path: Path, server: socket.socket) -> None:
    execution = handled(tmp_path, 2053)

    tell(execution, execution.run)

    assert sent(server)["oldest_age_seconds"] == "0.0|g"


def test_a_backfill_sends_neither_depth_nor_success(tmp_path: Path, server: socket.socket) -> None:
    world = World(tmp_path)
    run = replace(world.start("WAIT(NO)\nACTION(IGNORE)\n"), run_type="backfill")
    world.ledger.runs.record_look(run.run_id, Look(3, True, "a backfill", world.clock()))

    tell(world, run)

    assert sent(server).keys() == {
        "not_archived",
        "open_breakers",
        "run_duration_seconds",
        "run_failed,handler=test",
        "run_unaccounted",
        "approvals_waiting",
    }


def test_a_run_for_named_messages_sends_no_metrics_about_the_others(
    tmp_path: Path, server: socket.socket
) -> None:
    world = World(tmp_path)
    for number in range(3):
        world.dead_letter(dest_q="ELSEWHERE", body=b"%d" % number)
    run = world.plan("WAIT(NO)\nACTION(RETRY)\n", dry_run=True).run
    key = world.ledger.messages.of_run(run.run_id)[0].message_key.hex()
    execution = world.plan(
        "WAIT(NO)\nACTION(RETRY)\n", message_keys=(key,), action="ACTION(FWD) FWDQ(PARKED)"
    )
    make_pass(execution)
    settle(execution)

    tell(world, execution.run)

    assert sent(server) == {
        "depth": "2|g",
        "outcomes,outcome=forwarded": "1|c",
        "not_archived": "0|g",
        "open_breakers": "0|g",
        "run_duration_seconds": "90.0|g",
        "run_failed,handler=test": "0|g",
        "run_unaccounted": "0|g",
        "approvals_waiting": "0|g",
    }
