"""Test whether a run has work, before it takes a snapshot."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq.ledger.tables import Look
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.sense import Watch, find_watch
from tests.support.world import World

pytestmark = pytest.mark.stages

RULES = (
    "RETRYINT(60) WAIT(NO)\nDESTQ(PAYMENTS) ACTION(IGNORE)\nDESTQ(CLOSED) ACTION(RETRY) RETRY(2)\n"
)


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    """Make a world with three messages: left by rule, unmatched, and without an MQDLH."""
    world = World(tmp_path)
    world.dead_letter(dest_q="PAYMENTS")
    world.dead_letter(dest_q="ELSEWHERE")
    world.put("DLQ", b"no dead letter")
    return world


def watch(world: World, rules: str = RULES, run_type: str = "scheduled") -> Watch:
    run = replace(world.start(rules), run_type=run_type)
    return find_watch(run, world.ledger.accounts.last(run.queue_manager, run.queue), None)


def test_every_message_is_work_for_the_first_run(world: World) -> None:
    assert watch(world) == Watch()
    assert Watch().find_work(3, world.clock()) == "3 messages"
    assert Watch().find_work(0, world.clock()) == ""


def test_messages_left_by_the_last_run_become_work_at_the_rescan(world: World) -> None:
    world.handle(RULES)
    ended = world.clock()

    found = watch(world)

    assert found == Watch(3, ended + timedelta(seconds=600), "it is time to rescan")
    assert found.find_work(3, ended) == ""
    assert (
        found.find_work(3, ended + timedelta(seconds=600)) == "3 messages, and it is time to rescan"
    )
    assert found.find_work(4, ended) == "4 messages, 3 of them were there when the last run ended"
    assert found.find_work(2, ended) == "2 messages, 3 of them were there when the last run ended"


def test_messages_that_arrived_during_the_last_run_are_work(world: World) -> None:
    execution = world.plan(RULES)
    make_pass(execution)
    world.dead_letter(dest_q="PAYMENTS", body=b"late")
    settle(execution)

    assert watch(world).find_work(4, world.clock()) != ""


def test_changed_rules_make_settled_messages_work(world: World) -> None:
    world.handle(RULES)

    found = watch(world, f"{RULES}ACTION(DISCARD)\n")

    assert found.find_work(3, world.clock()) == "3 messages, and the rules have changed"


@pytest.mark.parametrize("run_type", ["manual", "operator_triggered", "asset_materialization"])
def test_every_message_is_work_for_a_manual_run(world: World, run_type: str) -> None:
    """A manual run starts by hand, from another DAG, or at an asset."""
    world.handle(RULES)

    assert watch(world, run_type=run_type) == Watch()


def test_a_dry_run_settles_nothing(world: World) -> None:
    world.handle(RULES, dry_run=True)

    assert watch(world) == Watch()


def test_a_pending_retry_of_an_earlier_run_is_due_after_retryint(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    execution = world.plan(RULES)
    began = world.clock()
    make_pass(execution)
    settle(execution)

    found = watch(world)

    assert found.due_at == began + timedelta(seconds=60)
    assert found.due_why == "1 of them are due to be tried again"


def test_messages_that_a_control_holds_are_due_when_their_hold_ends(world: World) -> None:
    """The run does not wait for the next step of a ramp; with @continuous the next run does."""
    for _ in range(3):
        world.dead_letter()
    rules = "RETRYINT(60) WAIT(NO)\nACTION(RETRY)\n"
    keys = {"schedule": "@continuous", "ramp": {"steps": [1], "watch": 90}}
    execution = world.plan(rules, **keys)
    result = make_pass(execution)
    settle(execution, result.next_pass_at)

    found = watch(world, rules)

    assert found.due_at == world.clock() + timedelta(seconds=90)
    assert found.due_why == "some of them may be tried now"


def test_messages_that_no_control_holds_are_due_at_the_rescan(world: World) -> None:
    """As are messages for a queue that is blocked."""
    world.dead_letter(dest_q="CLOSED")
    execution = world.plan(RULES, schedule="@continuous", hold_while_blocked=True)
    settle(execution, make_pass(execution).next_pass_at)

    found = watch(world)

    assert (found.due_at, found.due_why) == (
        world.clock() + timedelta(seconds=600),
        "it is time to rescan",
    )


def test_continuous_runs_carry_attempts_on_and_make_one_pass_each(world: World) -> None:
    """New messages do not wait for retries of others, and attempts count across runs."""
    world.dead_letter(dest_q="CLOSED")
    pending, runs = [], []
    for _ in range(3):
        execution = world.plan(RULES, schedule="@continuous")
        pending.append(make_pass(execution).pending)
        settle(execution)
        runs.append(execution.run)
        world.clock.now += timedelta(seconds=61)

    assert pending == [1, 0, 0]
    assert world.outcomes(runs[-1])[4] == "exhausted"
    assert runs[-1].wait_s is None


def test_a_run_with_work_counts_as_interrupted_until_it_has_an_account(world: World) -> None:
    execution = world.plan(RULES)
    run, at = execution.run, world.clock()
    world.ledger.runs.record_look(run.run_id, Look(3, True, "3 messages", at))
    assert world.ledger.runs.broken_off(run.handler, "another") == at
    assert world.ledger.runs.broken_off(run.handler, run.run_id) is None
    assert world.ledger.runs.broken_off("other", "another") is None
    make_pass(execution)

    settle(execution)

    assert world.ledger.runs.broken_off(run.handler, "another") is None
