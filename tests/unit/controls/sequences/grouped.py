"""Build groups of dead letters, and read what became of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import embedded_mq
from mqdlq.model import AttemptState
from tests.support.world import World

GROUPS: dict[str, Any] = {"sequences": {"groups": "all_or_nothing"}}
RETRY = "WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(2)"
FIRST, LAST = 8, 8 | 16
SEGMENT, LAST_SEGMENT = 2, 4


BOTH_CLIENTS = pytest.mark.parametrize(
    "world", ["ibmmq", pytest.param("pymqi", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture(name="world")
def world_fixture(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """Provide a world with one client library, by default ibmmq."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path, client=getattr(request, "param", "ibmmq"))
    with world.ledger:
        yield world
    embedded_mq.faults.set("")


def letter(world: World, body: bytes, seq: int, *, last: bool = False, **fields: Any) -> None:
    """Put a message of a group on the dead-letter queue; `group` is its GroupId."""
    group = fields.pop("group", b"g").ljust(24, b"\0")
    flags = LAST if last else FIRST
    world.dead_letter(body, **{"GroupId": group, "MsgSeqNumber": seq, "MsgFlags": flags, **fields})


def two(world: World, **fields: Any) -> None:
    letter(world, b"1", 1, **fields)
    letter(world, b"2", 2, last=True, **fields)


def units(world: World, run_id: str = "run-1") -> list[list[int]]:
    """Return the MsgSeqNumbers that each committed unit put, by the bodies of the messages."""
    found: dict[str, list[int]] = {}
    seqs = {one.message_id: one.browse_seq for one in world.ledger.messages.of_run(run_id)}
    for attempt in world.ledger.attempts.of_run(run_id):
        if attempt.state is AttemptState.CONFIRMED:
            found.setdefault(attempt.unit, []).append(seqs[attempt.message_id])
    return list(found.values())


def whys(world: World, run_id: str = "run-1") -> list[str]:
    messages = world.ledger.messages.of_run(run_id)
    booked = world.ledger.outcomes.of_run(run_id)
    return [booked[message.message_id].why.words for message in messages]


def failed(world: World, run_id: str = "run-1") -> list[tuple[int, int]]:
    """Return the number and the reason of each failed attempt."""
    attempts = world.ledger.attempts.of_run(run_id)
    return [(a.attempt_no, a.mqrc) for a in attempts if a.state is AttemptState.FAILED]
