"""Test that each alert of a run is sent once, and again when its condition ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from mqdlq.failures import Failure
from mqdlq.handlers.operation import Alerts, Event
from mqdlq.ledger.tables import Look, Run, alerts, causes
from mqdlq.model import Verdict
from mqdlq.reading.alerts import Alert, alerts_of, send_start_failure
from mqdlq.reading.report.building import read_report
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.world import World

pytestmark = pytest.mark.slow

RULES = "WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n"


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    return World(tmp_path)


def ended(world: World, rules: str = RULES, **options: Any) -> Run:
    """Complete a run, an hour after the last one."""
    world.clock.now += timedelta(hours=1)
    execution = world.plan(rules, **options)
    record_causes(execution.run, ledger=world.ledger)
    make_pass(execution)
    settle(execution)
    return execution.run


def events(
    world: World, run: Run, *, failed: bool = False, adds_up: bool = True, growth: int = 99
) -> list[Alert]:
    """Send the alerts of a run, and record them as sent."""
    report = read_report(
        run.run_id,
        ledger=world.ledger,
        lake_root=world.lake_root,
        stages={},
        now=world.clock(),
    )
    oldest = world.ledger.accounts.oldest_that_stays(run, report.oldest_left)
    account = report.account
    if account is not None:
        account = replace(account, differences=() if adds_up else ("a message is missing",))
    report = replace(
        report,
        account=account,
        oldest_left=oldest,
        verdict=Verdict.FAILED if failed else Verdict.OK,
        headline="a short text",
        why="",
    )
    thresholds = Alerts(growth=growth, oldest_age=timedelta(hours=20))
    found, lasting = alerts_of(run, report, thresholds, ledger=world.ledger, now=world.clock())
    names = [alert.event for alert in found]
    world.ledger.alerts.record(run.run_id, names, lasting, world.clock())
    assert world.ledger.alerts.sent(run.run_id) == set(names)
    return found


def names(world: World, run: Run, **how: Any) -> list[str]:
    return [alert.event for alert in events(world, run, **how)]


def titles(
    world: World, *, failed: bool = False, adds_up: bool = True, growth: int = 2
) -> list[str]:
    """Complete a run, send its alerts, and return their titles."""
    found = events(world, ended(world), failed=failed, adds_up=adds_up, growth=growth)
    assert all(alert.text == "a short text" for alert in found)
    return [alert.title.removeprefix("test: ").removesuffix(" (DLQ @ QM1)") for alert in found]


def test_the_first_messages_and_their_cause_raise_alerts(world: World) -> None:
    world.dead_letter()

    assert titles(world) == [
        "1 message arrived on an empty queue",
        "new cause: MQRC_Q_FULL (2053) for PAYMENTS @ QM1",
    ]


def test_a_known_cause_raises_one_alert(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    titles(world)
    world.dead_letter(dest_q="ELSEWHERE", reason=2053)
    world.dead_letter(dest_q="ELSEWHERE", reason=2085)

    assert titles(world, growth=9) == [
        "new cause: MQRC_UNKNOWN_OBJECT_NAME (2085) for ELSEWHERE @ QM1"
    ]


def test_a_known_reason_at_another_destination_is_a_new_cause(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    titles(world)
    for number in range(5):
        world.dead_letter(dest_q=f"OTHER.{number}")

    (title,) = titles(world, growth=9)
    assert title == (
        "new causes: MQRC_Q_FULL (2053) for OTHER.0 @ QM1, MQRC_Q_FULL (2053) for OTHER.1 @ QM1,"
        " MQRC_Q_FULL (2053) for OTHER.2 @ QM1, and 2 more"
    )


def test_queues_with_generated_names_are_one_new_cause_once(world: World) -> None:
    for number in range(3):
        world.dead_letter(dest_q=f"AMQ.{number:016X}", reason=2085)
    assert titles(world)[1:] == [
        "new cause: MQRC_UNKNOWN_OBJECT_NAME (2085) for AMQ.* @ QM1 (3 queues)"
    ]
    world.dead_letter(dest_q="AMQ.5F2A6C7E21034B02", reason=2085)

    assert titles(world) == []


def test_no_cause_of_a_reason_is_new_after_a_run_that_knows_no_destinations(world: World) -> None:
    """The run met too many causes."""
    world.dead_letter(dest_q="ELSEWHERE")
    titles(world)
    with world.ledger.engine.begin() as connection:
        connection.execute(update(causes).values(cause_id="", dest_q_name=None, queues=None))
    world.dead_letter(dest_q="OTHER")
    world.dead_letter(dest_q="OTHER", reason=2085)

    assert titles(world, growth=9) == ["new cause: MQRC_UNKNOWN_OBJECT_NAME (2085) for OTHER @ QM1"]


def test_growth_raises_an_alert_from_its_threshold_on(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    titles(world)
    world.dead_letter(dest_q="ELSEWHERE", body=b"2")
    assert titles(world) == []
    world.dead_letter(dest_q="ELSEWHERE", body=b"3")
    world.dead_letter(dest_q="ELSEWHERE", body=b"4")

    assert titles(world) == ["2 more messages than in the last run"]


def test_a_lasting_condition_raises_an_alert_when_it_begins_and_when_it_ends(world: World) -> None:
    world.put("DLQ", b"no dead letter", PutDate=b"20261121")
    world.dead_letter(dest_q="ELSEWHERE")
    assert titles(world)[-1] == "1 message unprocessable"
    assert titles(world) == []
    world.mqsc("CLEAR QLOCAL(DLQ)")
    world.dead_letter(dest_q="ELSEWHERE")

    assert titles(world) == ["over: unprocessable"]


def test_an_old_message_that_stays_raises_an_alert(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    titles(world)
    world.clock.now += timedelta(hours=30)

    assert titles(world) == ["a message has been on the queue since 2026-11-21 11:00 UTC"]


def test_a_failed_run_and_a_wrong_account_raise_alerts_and_a_recovery(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    titles(world)

    assert titles(world, failed=True) == ["the run failed"]
    assert titles(world, failed=True) == []
    assert titles(world, failed=True, adds_up=False) == ["the account does not add up"]
    assert titles(world) == ["over: unaccounted"]


def test_messages_that_come_when_all_were_handled_are_a_first_arrival(world: World) -> None:
    world.dead_letter()
    titles(world)
    world.dead_letter(body=b"the next")

    assert titles(world) == ["1 message arrived on an empty queue"]


def test_a_run_without_work_reports_no_recovery(world: World) -> None:
    world.put("DLQ", b"no dead letter", PutDate=b"20261121")
    names(world, ended(world))

    assert names(world, world.start(RULES)) == []
    assert names(world, ended(world)) == []


def test_an_interrupted_run_keeps_lasting_conditions(world: World) -> None:
    world.put("DLQ", b"no dead letter", PutDate=b"20261121")
    names(world, ended(world))
    world.clock.now += timedelta(hours=1)

    assert names(world, world.start(RULES), failed=True) == ["failed"]
    assert names(world, ended(world)) == []
    world.mqsc("CLEAR QLOCAL(DLQ)")
    assert names(world, ended(world)) == ["recovery"]


def test_a_dry_run_reports_no_recovery_of_exhausted_messages(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    rules = "WAIT(NO) RETRYINT(60)\nDESTQ(CLOSED) ACTION(RETRY) RETRY(1)\n"
    assert "exhausted" in names(world, ended(world, rules))

    assert names(world, ended(world, rules, dry_run=True)) == []
    assert names(world, ended(world, rules)) == []


def test_an_old_message_that_was_settled_before_is_still_there(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    names(world, ended(world))
    world.clock.now += timedelta(hours=20)
    world.put("DLQ", b"a newer one", PutDate=b"20261122")

    assert names(world, ended(world)) == ["oldest_age", "unprocessable"]
    assert names(world, ended(world)) == []


def nothing_new(world: World, depth: int) -> Run:
    """Make a run that inquired its queue and found no work."""
    run = world.start(RULES)
    world.ledger.runs.record_look(run.run_id, Look(depth, False, "", world.clock()))
    return run


def test_a_settled_message_becomes_old_while_runs_find_no_work(world: World) -> None:
    """These runs read no message; the last account has the age of the oldest one."""
    world.dead_letter(dest_q="ELSEWHERE")
    assert "oldest_age" not in names(world, ended(world))
    assert names(world, nothing_new(world, 1)) == []
    world.clock.now += timedelta(hours=20)

    assert names(world, nothing_new(world, 1)) == ["oldest_age"]
    assert names(world, nothing_new(world, 1)) == []
    world.mqsc("CLEAR QLOCAL(DLQ)")
    assert names(world, ended(world)) == ["recovery"]
    assert names(world, nothing_new(world, 0)) == []


def test_a_run_that_begins_to_wait_does_not_know_the_age(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    first = ended(world)
    oldest = world.ledger.accounts.oldest_that_stays(first, world.clock())
    waits = world.start(RULES)

    assert world.ledger.accounts.oldest_that_stays(waits, None) is None
    assert world.ledger.accounts.oldest_that_stays(nothing_new(world, 1), None) == oldest
    backfill = replace(nothing_new(world, 1), run_type="backfill")
    assert world.ledger.accounts.oldest_that_stays(backfill, None) is None


def test_an_old_message_that_was_delivered_raises_no_alert(world: World) -> None:
    world.dead_letter()
    world.clock.now += timedelta(hours=30)
    world.put("DLQ", b"a newer one", PutDate=b"20261122", PutTime=b"17000000")

    assert names(world, ended(world)) == ["first_arrival", "new_cause", "unprocessable"]


def test_overlapping_runs_raise_one_alert_for_a_lasting_condition(world: World) -> None:
    rules = "WAIT(NO) RETRYINT(60)\nDESTQ(CLOSED) ACTION(RETRY) RETRY(2)\n"
    world.dead_letter(dest_q="CLOSED")
    world.put("DLQ", b"no dead letter", PutDate=b"20261121")
    waits = world.plan(rules)
    record_causes(waits.run, ledger=world.ledger)
    make_pass(waits)
    assert names(world, ended(world, rules)) == ["first_arrival", "unprocessable"]
    world.clock.now += timedelta(seconds=61)
    make_pass(waits)
    settle(waits)

    assert names(world, waits.run) == ["new_cause", "exhausted"]


def test_an_alert_recorded_again_is_recorded_once(world: World) -> None:
    run = world.start(RULES)
    for _ in range(2):
        world.ledger.alerts.record(run.run_id, ["failed"], ["failed"], world.clock())

    with world.ledger.engine.connect() as connection:
        assert len(connection.execute(select(alerts)).all()) == 2


def refuse(world: World, run_id: str, *, is_heard: bool = True) -> list[str]:
    """Let a run fail before it begins, send its alerts, and return their titles."""
    world.clock.now += timedelta(hours=1)
    world.ledger.runs.record_failure(
        run_id, "test", Failure("sense", "MQCONN failed"), world.clock()
    )
    sent: list[Alert] = []

    def notify(found: Sequence[Alert]) -> list[Event]:
        sent.extend(found)
        return [alert.event for alert in found] if is_heard else []

    of_run, now = ("test", run_id, "a short text", notify), world.clock()
    send_start_failure(*of_run, ledger=world.ledger, now=now)
    return [alert.title for alert in sent]


def test_runs_that_cannot_begin_raise_one_alert_and_a_recovery(world: World) -> None:
    titles(world)

    assert refuse(world, "one") == ["test: the run could not start"]
    assert refuse(world, "two") == []
    assert titles(world) == ["over: failed"]
    assert titles(world) == []
    assert refuse(world, "three") == ["test: the run could not start"]


def test_a_run_without_work_ends_the_alert_that_runs_cannot_begin(world: World) -> None:
    world.put("DLQ", b"no dead letter", PutDate=b"20261121")
    names(world, ended(world))
    refuse(world, "one")
    world.clock.now += timedelta(hours=1)

    assert names(world, world.start(RULES)) == ["recovery"]
    assert names(world, ended(world)) == []


def test_an_undelivered_alert_is_sent_by_the_next_run(world: World) -> None:
    refuse(world, "one", is_heard=False)

    assert refuse(world, "two") == ["test: the run could not start"]


def named(world: World, body: bytes, **fields: Any) -> str:
    """Put a message for ELSEWHERE, or a bare one, and return its key."""
    world.put("DLQ", body, **fields) if fields else world.dead_letter(body, dest_q="ELSEWHERE")
    run = world.plan(RULES, dry_run=True).run
    return max(
        world.ledger.messages.of_run(run.run_id), key=lambda m: m.browse_seq
    ).message_key.hex()


def test_a_run_for_named_messages_raises_no_alert_about_the_queue(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE", reason=2085)
    key = named(world, b"no dead letter", PutDate=b"20261121")

    run = ended(world, message_keys=(key,), action="ACTION(FWD) FWDQ(PARKED)")

    assert names(world, run, growth=1) == []
    assert titles(world) == [
        "1 message arrived on an empty queue",
        "new cause: MQRC_UNKNOWN_OBJECT_NAME (2085) for ELSEWHERE @ QM1",
    ]


def test_a_run_for_another_message_ends_no_lasting_condition(world: World) -> None:
    world.put("DLQ", b"no dead letter", PutDate=b"20261121")
    key = named(world, b"another")
    assert titles(world)[-1] == "1 message unprocessable"

    run = ended(world, message_keys=(key,), action="ACTION(FWD) FWDQ(PARKED)")

    assert names(world, run) == []
    assert titles(world) == []


def test_growth_is_measured_between_runs_over_all_messages(world: World) -> None:
    world.dead_letter(dest_q="ELSEWHERE")
    titles(world)
    key = named(world, b"2")
    names(world, ended(world, message_keys=(key,)))
    world.dead_letter(dest_q="ELSEWHERE", body=b"3")

    assert titles(world) == ["2 more messages than in the last run"]
