"""The preview of an action says beforehand what the guards of its run will ask."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqdlq.handlers import Handler
from mqdlq.handlers.operation import ApprovalGuards
from mqdlq.lake import plan_directory
from mqdlq.stages.approve import PlannedMoves, ask_about, review_plan
from mqdlq.stages.snapshot.taking import record_causes
from mqdlq.tools.acting import AskedAction, Preview, Selection, Sources, Verb, build_preview
from tests.support.world import World

pytestmark = pytest.mark.stages

RULES = "DESTQ(NOWHERE) ACTION(RETRY)\n"
ALL: dict[str, Any] = {
    "discard": True,
    "messages": 2,
    "new_cause": True,
    "changed_rules": True,
    "new_target": True,
}
ACTIONS = {
    Verb.RETRY: AskedAction(Verb.RETRY),
    Verb.FORWARD: AskedAction(Verb.FORWARD, "PARKED"),
    Verb.DISCARD: AskedAction(Verb.DISCARD),
    Verb.LEAVE: AskedAction(Verb.LEAVE),
}


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    with (world := World(tmp_path)).ledger:
        for number in range(3):
            world.dead_letter(b"%d" % number)
        world.handle(RULES, dry_run=True)
        run = world.ledger.runs.get("run-1")
        assert run is not None
        record_causes(run, ledger=world.ledger)
        yield world


def keys_of(world: World) -> tuple[str, ...]:
    return tuple(one.message_key.hex() for one in world.ledger.messages.of_run("run-1"))


def preview(world: World, asked: AskedAction, **guards: Any) -> Preview:
    handler = Handler(
        name="test",
        directory=world.directory,
        connection="mq",
        rules="test.rules",
        approval=ApprovalGuards(**guards),
    )
    sources = Sources("test", world.ledger, world.lake_root, world.clock)
    return build_preview(Selection(message_keys=keys_of(world)), asked, handler, sources)


def test_a_limit_of_messages_announces_itself(world: World) -> None:
    found = preview(world, ACTIONS[Verb.RETRY], messages=2)

    assert found.guards == ("3 messages are acted on, more than 2",)
    assert preview(world, ACTIONS[Verb.RETRY], messages=3).guards == ()


@pytest.mark.parametrize("verb", ACTIONS)
def test_a_preview_says_all_that_the_guards_of_the_run_ask(world: World, verb: Verb) -> None:
    asked = ACTIONS[verb]
    announced = preview(world, asked, **ALL).guards
    execution = world.plan(RULES, action=asked.rule, message_keys=keys_of(world))
    record_causes(execution.run, ledger=world.ledger)
    plan = world.ledger.plans.of_run("run-2")
    assert plan is not None
    directory = plan_directory(world.lake_root, plan.plan_id)

    guards, moves = ApprovalGuards(**ALL), PlannedMoves.of_plan(directory)
    questions = ask_about(execution.run, guards, moves, world.ledger, snapshot_of="run-2")

    assert announced == tuple(text for _, text in questions)
    assert len(announced) >= 2 - (verb is Verb.LEAVE)


def test_a_dry_run_logs_what_a_run_that_acts_would_be_asked(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    run = world.start(RULES, action="ACTION(DISCARD)", message_keys=keys_of(world), dry_run=True)
    world.snapshot(run)

    review = review_plan(
        world.execution(run),
        world.evaluate(run),
        ApprovalGuards(discard=True, messages=2),
    )

    assert review.questions == ()
    assert [text for text in caplog.messages if "would need" in text] == [
        "a run that acts would need an approval: 3 messages may be discarded",
        "a run that acts would need an approval: 3 messages are acted on, more than 2",
    ]
