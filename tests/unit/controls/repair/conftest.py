"""Provide a world for each client library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import embedded_mq
from tests.support.world import World


@pytest.fixture(name="world", params=["ibmmq", pytest.param("pymqi", marks=pytest.mark.slow)])
def _world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path, client=request.param)
    with world.ledger:
        yield world
    embedded_mq.faults.set("")
