"""Test runs that a person asks to stop: they end after a unit of work, with their account."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mqdlq.errors import ExecutionError
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.tables import Run
from mqdlq.model import AuditKind, Outcome
from mqdlq.stages.execute import Execution, make_pass, settle
from mqdlq.stages.sense import find_watch
from mqdlq.stages.stopping import ask_to_stop
from tests.support.world import World

pytestmark = pytest.mark.stages

STOPPED = "the run was stopped by alice: ticket 4711"


def ask(world: World, run: Run, who: str = "alice") -> str:
    asked = ask_to_stop(run, world.ledger, who, "ticket 4711", world.clock())
    return asked.who


def stopped_after(world: World, execution: Execution, moved: int) -> Execution:
    """Return an execution whose clock ticks, and which is asked to stop after so many moves."""

    def tick() -> datetime:
        world.clock.sleep(1)
        booked = world.ledger.outcomes.counts(execution.run.run_id)
        if booked[Outcome.DELIVERED] >= moved:
            ask(world, execution.run)
        return world.clock()

    return replace(execution, clock=tick)


def reasons(world: World, execution: Execution) -> Counter[str]:
    facts = world.ledger.outcomes.of_run(execution.run.run_id).values()
    return Counter(fact.why.words for fact in facts)


@pytest.mark.parametrize("connections", [1, 3])
def test_a_run_stops_after_a_unit_of_work_and_its_account_adds_up(
    world: World, connections: int
) -> None:
    for number in range(30):
        world.dead_letter(dest_q=("PAYMENTS", "ORDERS", "PARKED")[number % 3])
    execution = world.plan("ACTION(RETRY)", connections=connections)

    result = make_pass(stopped_after(world, execution, 4))
    outcomes = settle(execution)

    assert (result.pending, result.next_pass_at) == (0, None)
    assert 4 <= outcomes[Outcome.DELIVERED] < 30
    assert outcomes.total() == 30
    assert outcomes[Outcome.NOT_ATTEMPTED] == world.depths("DLQ")[0]
    assert reasons(world, execution)[STOPPED] == outcomes[Outcome.NOT_ATTEMPTED]


def test_a_run_that_is_asked_before_its_first_pass_moves_and_archives_nothing(
    world: World,
) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(DISCARD)")
    ask(world, execution.run)

    make_pass(execution)

    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 1}
    assert reasons(world, execution) == {STOPPED: 1}
    assert world.ledger.archive.digests(execution.run.run_id) == {}


def test_a_message_that_was_tried_and_one_that_stays_by_rule_say_so(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    world.dead_letter(dest_q="PAYMENTS")
    table = "RETRYINT(60)\nDESTQ(CLOSED) ACTION(RETRY) RETRY(3)\nACTION(IGNORE)"
    execution = world.plan(table)
    make_pass(execution)
    ask(world, execution.run)

    outcomes = settle(execution)

    assert outcomes == {Outcome.RETRY_PENDING: 1, Outcome.LEFT_BY_RULE: 1}


def test_a_run_whose_worker_was_killed_settles_its_open_unit_and_then_stops(
    world: World,
) -> None:
    for _ in range(5):
        world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    world.interrupted_pass(execution, "MQCMIT:2:2009:after")
    ask(world, execution.run)

    make_pass(execution)
    outcomes = settle(execution)

    assert outcomes.total() == 5
    assert outcomes[Outcome.DELIVERED] == world.depths("PAYMENTS")[0]
    assert outcomes[Outcome.NOT_ATTEMPTED] == world.depths("DLQ")[0]


def test_only_the_first_request_counts_and_the_audit_has_it(world: World) -> None:
    run = world.plan("ACTION(RETRY)").run

    assert [ask(world, run), ask(world, run, who="bob")] == ["alice", "alice"]
    found = world.ledger.audit_trail.page(AuditFilter(what=AuditKind.STOP_ASKED))
    assert [(one.who, one.run_id, one.why) for one in found] == [
        ("alice", run.run_id, "ticket 4711")
    ]


def test_a_run_that_has_ended_cannot_be_stopped(world: World) -> None:
    world.dead_letter()
    world.handle("ACTION(RETRY)")
    run = world.ledger.runs.get("run-1")
    assert run is not None

    with pytest.raises(ExecutionError, match="run run-1 has ended at"):
        ask(world, run)
    assert world.ledger.audit.stop_of("run-1") is None


def test_the_next_run_of_a_schedule_tries_at_once_what_was_left(world: World) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    ask(world, execution.run)
    make_pass(execution)
    settle(execution)

    following = replace(execution.run, run_id="run-2", run_type="scheduled")
    watch = find_watch(following, world.ledger.accounts.last("QM1", "DLQ"), None)

    found = watch.find_work(1, world.clock() + timedelta(seconds=1))
    assert found == "1 messages, and some of them may be tried now"
