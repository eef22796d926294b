"""Controls hold due messages on the queue, for a time or for the rest of the run."""

from __future__ import annotations

from datetime import timedelta

import pytest

import embedded_mq
from mqdlq.controls import registry
from mqdlq.controls.registry import REGISTRY
from mqdlq.controls.settings import Controls
from mqdlq.controls.work import BrowsedItem, Browses, Control, Hold, WorkItem
from mqdlq.model import Outcome
from mqdlq.reasons import Why
from mqdlq.resources import Execution
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import NOON, World

pytestmark = pytest.mark.stages

TWO = {"limits": {"messages_per_run": 2}}


def test_a_run_moves_as_many_messages_as_its_budget(world: World) -> None:
    for _ in range(3):
        world.dead_letter()

    first = world.handle("WAIT(NO)\nACTION(RETRY)", **TWO)
    whys = [fact.why.words for fact in world.ledger.outcomes.of_run("run-1").values()]
    second = world.handle("WAIT(NO)\nACTION(RETRY)", **TWO)

    assert list(first.values()) == ["delivered", "delivered", "not_attempted"]
    assert whys[2] == "the run has moved as many messages as it may (limits: messages_per_run: 2)"
    assert list(second.values()) == ["delivered"]


def test_a_failed_attempt_does_not_use_the_budget(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    world.dead_letter()
    world.dead_letter()

    outcomes = world.handle("WAIT(NO)\nACTION(RETRY)", **TWO)

    assert sorted(outcomes.values()) == ["delivered", "delivered", "exhausted"]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("MQGET[DLQ]:2:2033:before", id="gone"),
        pytest.param("MQCMIT:1:2003:before,MQCMIT:2:2003:before,MQCMIT:3:2003:before", id="undone"),
    ],
)
def test_a_move_that_is_not_made_does_not_use_the_budget(world: World, fault: str) -> None:
    for _ in range(2):
        world.dead_letter()
    execution = world.plan("WAIT(NO)\nACTION(RETRY)", limits={"messages_per_run": 1})
    embedded_mq.faults.set(fault)

    result = make_pass(execution)
    embedded_mq.faults.set("")

    assert result.attempts == 1


def test_a_run_without_budget_does_not_wait_for_a_step_of_a_ramp(world: World) -> None:
    for _ in range(2):
        world.dead_letter()
    keys = {"limits": {"messages_per_run": 1}, "ramp": {"steps": [1], "watch": 60}}
    execution = world.plan("WAIT(NO)\nACTION(RETRY)", **keys)

    result = make_pass(execution)
    settle(execution)

    assert (result.attempts, result.pending, result.next_pass_at) == (1, 0, None)
    whys = [fact.why.words for fact in world.ledger.outcomes.of_run("run-1").values()]
    assert whys == [
        "attempt 1",
        "the run has moved as many messages as it may (limits: messages_per_run: 1)",
    ]


BEFORE_ONE = Why.OTHER(text="it is before one o'clock")


class HoldUntilOneOClock(Control):
    """Holds every message until one o'clock, and counts the messages that it observes."""

    observes = Browses.BEFORE_MOVES
    observed = 0

    def __init__(self, execution: Execution) -> None:
        self._clock = execution.clock

    def observe(self, met: BrowsedItem) -> None:
        del met
        HoldUntilOneOClock.observed += 1

    def find_hold(self, item: WorkItem) -> Hold | None:
        del item
        until = NOON + timedelta(hours=1)
        return Hold(BEFORE_ONE, until) if self._clock() < until else None


def test_a_hold_that_ends_is_followed_by_a_pass(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        registry, "build_controls", lambda execution: [HoldUntilOneOClock(execution)]
    )
    before = HoldUntilOneOClock.observed
    world.dead_letter()
    execution = world.plan("WAIT(NO) RETRYINT(60)\nACTION(RETRY)")

    held = make_pass(execution)
    world.clock.now = NOON + timedelta(hours=1)
    moved = make_pass(execution)

    assert (held.attempts, held.pending, held.next_pass_at) == (0, 1, NOON + timedelta(hours=1))
    assert (moved.attempts, moved.pending, moved.next_pass_at) == (1, 0, None)
    assert HoldUntilOneOClock.observed == before + 2
    assert settle(execution) == {Outcome.DELIVERED: 1}


def test_a_message_that_is_held_at_the_end_is_not_attempted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        registry, "build_controls", lambda execution: [HoldUntilOneOClock(execution)]
    )
    world.dead_letter()
    execution = world.plan("WAIT(NO)\nACTION(RETRY)")
    make_pass(execution)

    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 1}
    (fact,) = world.ledger.outcomes.of_run("run-1").values()
    assert fact.why == BEFORE_ONE


def test_a_control_reads_notes_of_controls_that_are_asked_before_it() -> None:
    names = [one.__name__ for one in REGISTRY]

    assert len(set(names)) == len(names)
    for position, one in enumerate(REGISTRY):
        assert set(one.needs) <= set(names[:position])
        assert set(one.keys) <= set(Controls.model_fields)
    # `repair` says what a run may be asked for, before any control is.
    asked = set(Controls.model_fields) - {"repair"}
    assert {key for one in REGISTRY for key in one.keys} == asked
