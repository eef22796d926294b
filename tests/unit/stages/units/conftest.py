"""A task that moves messages in units of work: an execution, and a restoration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import embedded_mq
from tests.support.moving import KINDS, Moving
from tests.support.world import World

CLIENTS = ("ibmmq", "pymqi")
TASKS = [
    pytest.param((kind, client), marks=[pytest.mark.slow] * (client != CLIENTS[0]))
    for kind in KINDS
    for client in CLIENTS
]
"""`make test-fast` runs under the first client only."""


@pytest.fixture(name="moving", params=TASKS, ids="-".join)
def _moving(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Moving]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    kind, client = request.param
    world = World(tmp_path, client=client)
    with world.ledger:
        yield KINDS[kind](world)
    embedded_mq.faults.set("")
