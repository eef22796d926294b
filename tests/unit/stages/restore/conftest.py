"""Provide a world for tests of restoring; tests of puts and commits run under both clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import embedded_mq
from tests.support.world import World


@pytest.fixture(name="world", params=["ibmmq"])
def _world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path, client=request.param)
    with world.ledger:
        yield world
    embedded_mq.faults.set("")
