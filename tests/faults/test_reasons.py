"""Every reason code at every MQ call of an execution has the effect that docs/failures.md names."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

import embedded_mq
from mqdlq.constants import reason_text
from mqdlq.errors import QueueManagerError
from mqdlq.model import AttemptState, Outcome
from mqdlq.mqi.client import NAMES
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.stages.execute import Execution, make_pass, settle
from tests.faults.table import CALLS, PAGE, REASONS, Call, page
from tests.support.world import World

pytestmark = pytest.mark.slow

RULES = "RETRYINT(60) WAIT(NO)\nACTION(RETRY) RETRY(2)"
ALL = "MQDLQ_ALL_REASONS" in os.environ
EVERY = 6
"""`make soak` tries every reason at every call under both clients; else it is one in six, and all
that differ, under one of them."""
BODIES = [b"0", b"1", b"2", b"3"]


@pytest.fixture(name="world", scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One world for all: each case begins and ends with empty queues."""
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("world")
        patch.setenv("MQDLQ_HOME", str(directory))
        world = World(directory)
        with world.ledger:
            yield world


@pytest.fixture(autouse=True)
def _no_faults() -> Iterator[None]:
    yield
    embedded_mq.faults.set("")


CASES = [
    pytest.param(call, reason, client, id=f"{call.title}-{reason}-{client}")
    for place, call in enumerate(CALLS)
    for number, reason in enumerate(REASONS)
    if reason not in call.never
    and (ALL or reason in call.otherwise or (place + number) % EVERY == 0)
    for client in (NAMES if ALL else [NAMES[(place + number) // EVERY % len(NAMES)]])
]


@pytest.mark.parametrize(("call", "reason", "client"), CASES)
def test_a_reason_code_has_the_effect_the_table_says(
    world: World, call: Call, reason: int, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.settings = ConnectionSettings("QM1", transport="embedded", client=client)
    clear(world)
    for body in BODIES:
        world.dead_letter(body)
    execution = world.plan(RULES)
    effect = call.effect_of(reason)

    embedded_mq.faults.set(call.faults(reason))
    with caplog.at_level(logging.DEBUG):
        error = error_of(execution)
    embedded_mq.faults.set("")
    restart_if_needed(call)

    moved = world.bodies("PAYMENTS")
    taken_effect = [b"1", b"2"] if call.when == "after" else []
    assert moved == [bytes([c]) for c in effect.moved.encode()] + taken_effect
    assert charged(world, execution) == effect.charged
    assert effect.says in caplog.text
    if effect.ends:
        assert error is not None
        assert f"failed: {reason_text(reason)}" in error
    else:
        assert error is None
    bring_to_the_end(world, execution)
    assert sorted(world.bodies("PAYMENTS")) == BODIES
    assert world.bodies("DLQ") == []


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.faults.table"


def error_of(execution: Execution) -> str | None:
    try:
        make_pass(execution)
    except QueueManagerError as error:
        return str(error)
    return None


def restart_if_needed(call: Call) -> None:
    """End the connection that only the end of its process would end."""
    if call.title.startswith(("MQBACK", "MQDISC")):
        embedded_mq.end("QM1")
        embedded_mq.start("QM1")


def charged(world: World, execution: Execution) -> int:
    attempts = world.ledger.attempts.of_run(execution.run.run_id)
    return sum(attempt.state is AttemptState.FAILED for attempt in attempts)


def bring_to_the_end(world: World, execution: Execution) -> None:
    """Go on with the run as its task would; what it left untried goes with another run."""
    result = make_pass(execution)
    while result.next_pass_at is not None:
        world.clock.now = result.next_pass_at
        result = make_pass(execution)
    outcomes = settle(execution)
    assert outcomes.keys() == {Outcome.DELIVERED}


def clear(world: World) -> None:
    world.clock.sleep(3600)
    for queue in ("DLQ", "PAYMENTS", "MQDLQ.STATE"):
        world.mqsc(f"CLEAR QLOCAL({queue})")
