"""What is news to a run before it takes a snapshot."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq.ledger import Look
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.sense.work_detection import Watch, watch_for
from tests.support.world import World

RULES = (
    "RETRYINT(60) WAIT(NO)\nDESTQ(PAYMENTS) ACTION(IGNORE)\nDESTQ(CLOSED) ACTION(RETRY) RETRY(2)\n"
)


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    """Make a world whose DLQ holds one message left by rule, one without a rule, one stray."""
    world = World(tmp_path)
    world.dead_letter(dest_q="PAYMENTS")
    world.dead_letter(dest_q="ELSEWHERE")
    world.put("DLQ", b"no dead letter")
    return world


def watch(world: World, rules: str = RULES, run_type: str = "scheduled") -> Watch:
    run = replace(world.start(rules), run_type=run_type)
    return watch_for(run, world.ledger)


def test_every_message_is_news_where_no_run_has_been(world: World) -> None:
    assert watch(world) == Watch()
    assert Watch().news(3, world.clock()) == "3 messages"
    assert Watch().news(0, world.clock()) == ""


def test_what_the_last_run_left_is_no_news_until_the_rescan(world: World) -> None:
    world.handle(RULES)
    ended = world.clock()

    found = watch(world)

    assert found == Watch(3, ended + timedelta(seconds=600), "it is time to rescan")
    assert found.news(3, ended) == ""
    assert found.news(3, ended + timedelta(seconds=600)) == "3 messages, and it is time to rescan"
    assert found.news(4, ended) == "4 messages, 3 of them were there when the last run ended"
    assert found.news(2, ended) == "2 messages, 3 of them were there when the last run ended"


def test_what_arrived_during_the_last_run_is_news(world: World) -> None:
    execution = world.plan(RULES)
    make_pass(execution)
    world.dead_letter(dest_q="PAYMENTS", body=b"late")
    settle(execution)

    assert watch(world).news(4, world.clock()) != ""


def test_changed_rules_make_settled_messages_news(world: World) -> None:
    world.handle(RULES)

    found = watch(world, f"{RULES}ACTION(DISCARD)\n")

    assert found.news(3, world.clock()) == "3 messages, and the rules have changed"


@pytest.mark.parametrize("run_type", ["manual", "operator_triggered", "asset_materialization"])
def test_a_run_that_was_asked_for_takes_every_message_for_news(world: World, run_type: str) -> None:
    """By hand, from another DAG, or at an asset."""
    world.handle(RULES)

    assert watch(world, run_type=run_type) == Watch()


def test_a_dry_run_settles_nothing(world: World) -> None:
    world.handle(RULES, dry_run=True)

    assert watch(world) == Watch()


def test_a_retry_that_an_earlier_run_handed_on_is_due_a_retry_interval_later(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    execution = world.plan(RULES)
    began = world.clock()
    make_pass(execution)
    settle(execution)

    found = watch(world)

    assert found.due_at == began + timedelta(seconds=60)
    assert found.due_why == "1 of them are due to be tried again"


def test_continuous_runs_carry_attempts_on_and_make_one_pass_each(world: World) -> None:
    """New messages do not wait for the retries of others, and counts go on from run to run."""
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


def test_a_run_that_saw_work_has_broken_off_until_it_leaves_its_account(world: World) -> None:
    execution = world.plan(RULES)
    run, at = execution.run, world.clock()
    world.ledger.runs.record_look(run.run_id, Look(3, True, "3 messages", at))
    assert world.ledger.runs.broken_off(run.handler, "another") == at
    assert world.ledger.runs.broken_off(run.handler, run.run_id) is None
    assert world.ledger.runs.broken_off("other", "another") is None
    make_pass(execution)

    settle(execution)

    assert world.ledger.runs.broken_off(run.handler, "another") is None
