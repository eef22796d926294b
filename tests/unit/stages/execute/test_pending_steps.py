"""Test the choice of a step: RETRY values add up, IGNORE is taken when it is reached."""

from __future__ import annotations

import gc
from collections import Counter
from datetime import timedelta

import pytest

from mqdlq.controls.work import WorkItem, choose_step
from mqdlq.model import Action, Outcome, PutAuthority, Step
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.stages.execute import settle
from mqdlq.stages.execute.pending_steps import load_work_list
from tests.support.world import World


def step(rule: int, action: Action, tries: int = 1) -> Step:
    return Step(
        rule, rule * 10, action, "Q", "", header=False, put_authority=PutAuthority.DEF, tries=tries
    )


RETRY_TWICE_THEN_FORWARD = (step(1, Action.RETRY, 2), step(2, Action.FWD))


@pytest.mark.parametrize(("attempts_made", "rule"), [(0, 1), (1, 1), (2, 2), (3, None), (99, None)])
def test_each_rule_is_tried_as_often_as_its_retry_says(attempts_made: int, rule: int) -> None:
    chosen = choose_step(RETRY_TWICE_THEN_FORWARD, attempts_made)

    assert (chosen.rule if chosen else None) == rule


def test_an_ignore_is_taken_once_the_rules_before_it_are_exhausted() -> None:
    steps = (step(1, Action.RETRY, 2), step(2, Action.IGNORE))

    assert [choose_step(steps, made) for made in (1, 2, 7)] == [steps[0], steps[1], steps[1]]


def test_an_ignore_at_the_top_is_taken_at_once() -> None:
    ignored = step(1, Action.IGNORE)

    assert choose_step((ignored,), 0) == ignored


def test_a_message_without_matching_rules_has_no_step() -> None:
    assert choose_step((), 0) is None


AGEING = """\
table:
  control: {{retryint: 60}}
  rules:
{rules}
"""
YOUNG = """\
    - extensions: {age: '< 2h'}
      action: RETRY
      retry: 3
"""
ALWAYS = """\
    - match: {DESTQ: CLOSED}
      action: RETRY
      retry: 3
"""
OLD = """\
    - extensions: {age: '>= 2h'}
      action: FWD
      fwdq: PARKED
"""


@pytest.mark.slow
@pytest.mark.parametrize("rules", [YOUNG + OLD, OLD + ALWAYS])
def test_a_rule_that_a_message_reaches_by_its_age_has_all_its_attempts(
    world: World, rules: str
) -> None:
    table = AGEING.format(rules=rules)
    world.dead_letter(dest_q="CLOSED")

    assert world.handle(table, max_run_time=timedelta(minutes=10)) == {1: "exhausted"}
    world.clock.now += timedelta(hours=3)

    assert world.handle(table, max_run_time=timedelta(minutes=10)) == {1: "forwarded"}
    assert [one.rule for one in world.ledger.attempts.of_run("run-2")] == [
        1 if rules.startswith(OLD) else 2
    ]


def test_a_message_without_an_open_step_takes_no_item_in_memory(world: World) -> None:
    for queue in ("PAYMENTS", "ORDERS", "ORDERS"):
        world.dead_letter(dest_q=queue)
    execution = world.plan("DESTQ(PAYMENTS) ACTION(RETRY)\nDESTQ(ORDERS) ACTION(IGNORE)")
    work = load_work_list(execution.run, world.ledger, world.lake_root)

    with world.connect() as queue_manager, queue_manager.browsing("DLQ") as queue:
        met = sum(1 for _ in work.browse(BrowseCursor(queue_manager, queue, "DLQ")))

    assert (met, sum(isinstance(one, WorkItem) for one in gc.get_objects())) == (3, 1)
    assert [item.was_seen for item in work.glance()] == [True] * 3
    assert settle(execution) == Counter({Outcome.LEFT_BY_RULE: 2, Outcome.RETRY_PENDING: 1})
