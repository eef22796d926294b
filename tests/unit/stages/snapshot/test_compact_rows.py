"""Test that settled messages are not read in full again but have their outcomes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from mqdlq import lake
from mqdlq.ledger.tables import Run
from mqdlq.model import Outcome
from mqdlq.reading.report.building import read_report
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.sense import Watch, find_watch
from tests.support.settled_backlog import RULES, count_rows, put_backlog, run_to_end
from tests.support.world import World

pytestmark = pytest.mark.slow


def test_settled_messages_get_compact_rows(world: World) -> None:
    put_backlog(world)
    run_to_end(world)
    world.dead_letter(b"new", dest_q="PAYMENTS")

    run, outcomes = run_to_end(world)

    assert count_rows(world, run) == (1, 3)
    assert outcomes == {
        Outcome.DELIVERED: 1,
        Outcome.LEFT_BY_RULE: 1,
        Outcome.UNMATCHED: 1,
        Outcome.UNPROCESSABLE: 1,
    }


def test_compact_rows_name_the_snapshot_of_their_full_rows(world: World) -> None:
    put_backlog(world)
    first, _ = run_to_end(world)
    world.dead_letter(b"another unmatched", dest_q="NOWHERE")
    second, _ = run_to_end(world)
    third, _ = run_to_end(world)

    ids = [world.recorded_snapshot(run.run_id).snapshot_id for run in (first, second)]
    location = world.recorded_snapshot(third.run_id).location
    (batch,) = lake.settled_rows(location)
    assert batch.column("snapshot_id").to_pylist() == [ids[0]] * 3 + [ids[1]]
    assert batch.column("browse_seq").to_pylist() == [1, 2, 3, 4]
    assert lake.read_manifest(location).refers_to == tuple(sorted(ids))
    full = {
        row["message_key"]
        for row in lake.snapshot_rows(lake.find_snapshot(world.lake_root, ids[0]))
    }
    assert set(batch.column("message_key").to_pylist()[:3]) == full


def test_without_new_messages_a_run_settles_without_a_plan(world: World) -> None:
    put_backlog(world)
    run_to_end(world)
    run = world.start(RULES)
    manifest = world.snapshot(run)

    outcomes = settle(world.execution(run))

    assert (manifest.full, manifest.settled) == (0, 3)
    assert outcomes.total() == 3
    sighting = world.ledger.accounts.of_run(run.run_id)
    assert sighting is not None
    assert (sighting.seen, sighting.arrived) == (3, 0)
    assert settle(world.execution(run)) == outcomes


def test_the_report_of_a_run_with_settled_messages_adds_up(world: World) -> None:
    put_backlog(world)
    run_to_end(world)
    world.dead_letter(b"new", dest_q="PAYMENTS")
    run, _ = run_to_end(world)

    report = read_report(
        run.run_id,
        ledger=world.ledger,
        lake_root=world.lake_root,
        stages={},
        now=world.clock(),
    )

    assert report.account is not None
    assert (report.account.differences, report.account.settled) == ((), 3)
    assert report.account.messages == report.account.booked == 4
    people = [(row.browse_seq, row.outcome, row.why) for row in report.attention_messages]
    assert people == [
        (2, Outcome.UNMATCHED, "no rule matches"),
        (3, Outcome.UNPROCESSABLE, "no MQDLH"),
    ]
    assert sorted((one.cause.dest_q_name, one.messages) for one in report.causes) == [
        ("NOWHERE", 1),
        ("ORDERS", 1),
        ("PAYMENTS", 1),
    ]
    assert {(row.rule, row.outcome, row.messages) for row in report.rules} == {
        (1, Outcome.LEFT_BY_RULE, 1),
        (2, Outcome.DELIVERED, 1),
        (0, Outcome.UNMATCHED, 1),
        (0, Outcome.UNPROCESSABLE, 1),
    }


def test_the_report_names_a_settled_message_that_has_vanished(world: World) -> None:
    world.dead_letter(b"unmatched", dest_q="NOWHERE", MsgId=b"m" * 24)
    run_to_end(world)
    world.dead_letter(b"new", dest_q="PAYMENTS")
    run = world.start(RULES)
    world.snapshot(run)
    world.accept(run)
    with world.connect() as queue_manager:
        constants = queue_manager.client.CMQC
        held = queue_manager.open("DLQ", constants.MQOO_INPUT_AS_Q_DEF)
        options = queue_manager.client.module.GMO(Options=constants.MQGMO_SYNCPOINT)
        held.get(None, None, options)
        settle(world.execution(run))
        queue_manager.back_out()
        queue_manager.close(held)

    report = read_report(
        run.run_id, ledger=world.ledger, lake_root=world.lake_root, stages={}, now=world.clock()
    )

    assert report.sources.troubles == ()
    unknown = report.attention_messages[0]
    assert (unknown.browse_seq, unknown.outcome) == (1, Outcome.UNKNOWN)
    assert (unknown.msg_id, unknown.dest_q_name) == ((b"m" * 24).hex(), "NOWHERE")


@pytest.mark.parametrize(
    ("options", "full"),
    [({}, 0), ({"rescan": True}, 3), ({"full_every": timedelta(seconds=1)}, 3)],
)
def test_all_messages_are_read_in_full_on_demand_and_at_intervals(
    world: World, options: dict[str, Any], full: int
) -> None:
    put_backlog(world)
    run_to_end(world)

    run, _ = run_to_end(world, **options)

    assert count_rows(world, run) == (full, 3 - full)


@pytest.mark.parametrize(
    ("rules", "keys"),
    [(RULES + "DESTQ(X) ACTION(RETRY)\n", {}), (RULES, {"nul_as_blank": True})],
)
def test_changed_rules_read_every_message_in_full(
    world: World, rules: str, keys: dict[str, Any]
) -> None:
    put_backlog(world)
    run_to_end(world)

    run, _ = run_to_end(world, rules, **keys)

    assert count_rows(world, run) == (3, 0)


def test_a_changed_comment_keeps_compact_rows(world: World) -> None:
    put_backlog(world)
    run_to_end(world)

    run, _ = run_to_end(world, "* by Ann\n" + RULES)

    assert count_rows(world, run) == (0, 3)


@pytest.mark.parametrize(("attempts", "full"), [("per_run", 1), ("across_runs", 0)])
def test_exhausted_messages_are_settled_only_if_attempts_carry_on(
    world: World, attempts: str, full: int
) -> None:
    world.mqsc("ALTER QLOCAL(PAYMENTS) PUT(DISABLED)")
    world.dead_letter(dest_q="PAYMENTS")
    _, outcomes = run_to_end(world, count_attempts=attempts)
    assert outcomes == {Outcome.EXHAUSTED: 1}

    run, again = run_to_end(world, count_attempts=attempts)

    assert count_rows(world, run) == (full, 1 - full)
    assert again == {Outcome.EXHAUSTED: 1}


@pytest.mark.parametrize(("attempts", "full"), [("per_run", 1), ("across_runs", 0)])
def test_an_ignore_reached_by_attempts_is_reached_again_by_a_run_from_zero(
    world: World, attempts: str, full: int
) -> None:
    world.mqsc("ALTER QLOCAL(PAYMENTS) PUT(DISABLED)")
    world.dead_letter(dest_q="PAYMENTS")
    rules = "WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\nACTION(IGNORE)\n"
    _, outcomes = run_to_end(world, rules, count_attempts=attempts)
    assert outcomes == {Outcome.LEFT_BY_RULE: 1}

    run, _ = run_to_end(world, rules, count_attempts=attempts)

    assert count_rows(world, run) == (full, 1 - full)


def test_only_as_many_equal_messages_are_settled_as_were_seen(world: World) -> None:
    same: dict[str, Any] = {"MsgId": b"m" * 24, "dest_q": "ORDERS"}
    world.dead_letter(b"same", **same)
    run_to_end(world)
    world.dead_letter(b"same", **same)

    run, outcomes = run_to_end(world)

    assert count_rows(world, run) == (1, 1)
    assert outcomes == {Outcome.LEFT_BY_RULE: 2}
    assert [m.occurrence for m in world.ledger.messages.of_run(run.run_id)] == [1]
    third, _ = run_to_end(world)
    assert count_rows(world, third) == (0, 2)


ONE_OF_EACH = {
    Outcome.TAKEN: 1,
    Outcome.LEFT_BY_RULE: 1,
    Outcome.UNMATCHED: 1,
    Outcome.UNPROCESSABLE: 1,
}


def with_one_taken_meanwhile(world: World) -> Run:
    """Settle a backlog; return a run over it and a new message, with the first message gone."""
    put_backlog(world)
    run_to_end(world)
    return new_run_with_the_first_taken(world)


def new_run_with_the_first_taken(world: World) -> Run:
    world.dead_letter(b"new", dest_q="ORDERS")
    run = world.start(RULES)
    world.snapshot(run)
    world.accept(run)
    world.lose_first()
    return run


def test_a_settled_message_that_is_taken_meanwhile_is_recorded_separately(world: World) -> None:
    run = with_one_taken_meanwhile(world)

    outcomes = settle(world.execution(run))

    assert outcomes == ONE_OF_EACH
    assert settle(world.execution(run)) == outcomes


@pytest.mark.parametrize(
    "table",
    [
        "outcome_lots",
        "outcome_messages",
        "listed_messages",
        "settled_outcomes",
        "settled_lots",
        "settled_messages",
        "sightings",
    ],
)
def test_an_interrupted_settling_is_completed_by_the_next_call(world: World, table: str) -> None:
    run = with_one_taken_meanwhile(world)

    def break_connection(*values: Any) -> None:
        if values[2].startswith(f"INSERT INTO {table} "):
            raise BrokenPipeError(table)

    event.listen(world.ledger.engine, "before_cursor_execute", break_connection)
    with pytest.raises(BrokenPipeError):
        settle(world.execution(run))
    event.remove(world.ledger.engine, "before_cursor_execute", break_connection)

    assert settle(world.execution(run)) == ONE_OF_EACH


def test_a_settled_message_that_left_and_comes_back_is_read_in_full(world: World) -> None:
    put_backlog(world)
    run_to_end(world)
    ((descriptor, body),) = world.messages("DLQ")[:1]
    settle(world.execution(new_run_with_the_first_taken(world)))
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        options = constants.MQPMO_SET_ALL_CONTEXT | constants.MQPMO_NO_SYNCPOINT
        queue_manager.handle.put1(b"DLQ", body, descriptor, module.PMO(Options=options))

    last, _ = run_to_end(world)

    assert count_rows(world, last) == (1, 3)


def test_a_settled_message_that_expires_is_recorded_as_expired(world: World) -> None:
    world.dead_letter(b"short-lived", dest_q="ORDERS", Expiry=36000)
    run_to_end(world)
    world.dead_letter(b"new", dest_q="ORDERS")
    run = world.start(RULES)
    world.snapshot(run)
    world.accept(run)
    world.lose_first()
    world.clock.sleep(3700)

    assert settle(world.execution(run)) == {Outcome.EXPIRED: 1, Outcome.LEFT_BY_RULE: 1}


def test_a_settled_message_gets_a_new_full_row_if_the_old_one_is_gone(world: World) -> None:
    put_backlog(world)
    first, _ = run_to_end(world)
    location = world.recorded_snapshot(first.run_id).location
    (Path(location) / "_MANIFEST.json").unlink()

    run, _ = run_to_end(world)

    assert count_rows(world, run) == (3, 0)


def test_a_dry_run_settles_no_message_that_it_would_have_acted_on(world: World) -> None:
    put_backlog(world)
    world.dead_letter(dest_q="PAYMENTS")
    run = world.start(RULES, dry_run=True)
    world.snapshot(run)
    world.accept(run)
    settle(world.execution(run))

    after, _ = run_to_end(world)

    assert count_rows(world, after) == (2, 2)
    assert world.ledger.settled.outcomes(run.run_id) == {}


def test_a_message_that_grows_old_is_handled_by_a_later_run_of_the_same_rules(
    world: World,
) -> None:
    rules = (
        "table:\n"
        "  control: {retryint: 60, wait: no}\n"
        "  rules:\n"
        "    - extensions: {age: '>= 2h'}\n"
        "      action: FWD\n"
        "      fwdq: PARKED\n"
    )
    world.clear("DLQ")
    world.dead_letter()  # an hour old
    assert world.handle(rules) == {1: "unmatched"}
    run = replace(world.start(rules), run_type="scheduled")

    watch = find_watch(run, world.ledger.accounts.last(run.queue_manager, run.queue), None)
    due = world.clock() + timedelta(seconds=60)
    assert watch == Watch(1, due, "the rules compare ages, remaining expiry or attempts")
    assert world.handle(rules) == {1: "unmatched"}
    world.clock.sleep(3600)

    told: list[str] = []
    run = world.start(rules)
    world.snapshot(run, told)
    assert told[0] == (
        "every message is read in full: the rules compare ages, remaining expiry or attempts"
    )
    world.accept(run)
    make_pass(world.execution(run))
    assert world.depths("DLQ", "PARKED") == (0, 1)
