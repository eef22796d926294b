"""Each reason code at each MQ call has the effect that docs/reference/mq-failures.md names."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

import embedded_mq
from mqdlq.constants import reason_text
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.client import CLIENT_NAMES
from mqdlq.mqi.connect import ConnectionSettings
from tests.faults.table import CALLS, PAGE, REASONS, Call, page
from tests.support.moving_tasks import KINDS, MovingTask
from tests.support.world import World

pytestmark = pytest.mark.slow

ALL = "MQDLQ_ALL_REASONS" in os.environ
EVERY = 12
"""`make soak` tries every reason at every call under both clients; else it is one in twelve, and
all that differ, under one of them."""
BODIES = [b"0", b"1", b"2", b"3"]


@pytest.fixture(name="moving", scope="module")
def _moving(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MovingTask]:
    """One world for all cases of a kind: each case begins and ends with empty queues."""
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("world")
        patch.setenv("MQDLQ_HOME", str(directory))
        world = World(directory)
        with world.ledger:
            yield KINDS[request.param](world)


@pytest.fixture(autouse=True)
def _no_faults() -> Iterator[None]:
    yield
    embedded_mq.faults.set("")


CASES = [
    pytest.param(kind, call, reason, client, id=f"{kind}-{call.title}-{reason}-{client}")
    for kind in KINDS
    for place, call in enumerate(CALLS)
    for number, reason in enumerate(REASONS)
    if kind in call.made_by
    and reason not in call.never
    and (ALL or reason in call.otherwise or (place + number) % EVERY == 0)
    for client in (
        CLIENT_NAMES if ALL else [CLIENT_NAMES[(place + number) // EVERY % len(CLIENT_NAMES)]]
    )
]


@pytest.mark.parametrize(
    ("moving", "call", "reason", "client"), CASES, indirect=["moving"], scope="module"
)
def test_a_reason_code_has_the_effect_the_table_says(
    moving: MovingTask, call: Call, reason: int, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = moving.world
    world.settings = ConnectionSettings("QM1", transport="embedded", client=client)
    clear(world)
    moving.prepare(*BODIES)
    effect = call.effect_of(reason)

    embedded_mq.faults.set(call.faults(reason, moving))
    with caplog.at_level(logging.DEBUG):
        error = error_of(moving)
    embedded_mq.faults.set("")
    restart_if_needed(call)

    moved = world.bodies("PAYMENTS")
    taken_effect = [b"1", b"2"] if call.when == "after" else []
    assert moved == [bytes([c]) for c in effect.moved.encode()] + taken_effect
    assert len(moving.failed()) == effect.charged
    assert moving.words.get(effect.says, effect.says) in caplog.text + moving.whys()
    if effect.ends:
        assert error is not None
        assert f"failed: {reason_text(reason)}" in error
    else:
        assert error is None
    moving.bring_to_the_end()
    assert sorted(world.bodies("PAYMENTS")) == BODIES
    assert world.bodies("DLQ") == []


def test_the_page_of_mq_failures_is_generated_from_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.faults.table"


def error_of(moving: MovingTask) -> str | None:
    try:
        moving.attempt()
    except QueueManagerError as error:
        return str(error)
    return None


def restart_if_needed(call: Call) -> None:
    """End the connection that only the end of its process would end."""
    if call.title.startswith(("MQBACK", "MQDISC")):
        embedded_mq.end("QM1")
        embedded_mq.start("QM1")


def clear(world: World) -> None:
    world.clock.sleep(3600)
    for queue in ("DLQ", "PAYMENTS", "MQDLQ.STATE"):
        world.mqsc(f"CLEAR QLOCAL({queue})")
