"""Provide tasks that move messages in units of work: an execution and a restoration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import embedded_mq
from tests.support.moving_tasks import KINDS, MovingTask
from tests.support.world import World

CLIENTS = ("ibmmq", "pymqi")
FIRST, *OTHERS = [(kind, client) for client in CLIENTS for kind in KINDS]
TASKS = [FIRST, *(pytest.param(task, marks=pytest.mark.slow) for task in OTHERS)]
"""`make test-fast` is content with the first."""


@pytest.fixture(name="moving", params=TASKS, ids="-".join)
def _moving(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MovingTask]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    kind, client = request.param
    world = World(tmp_path, client=client)
    with world.ledger:
        yield KINDS[kind](world)
    embedded_mq.faults.set("")
