"""Find messages with the ledger on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgresql import ledger_url_fixture
from tests.support.world import World

__all__ = ["ledger_url_fixture"]


@pytest.fixture(name="found_world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger_url: str) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path, ledger_url=ledger_url)
    with world.ledger:
        yield world
