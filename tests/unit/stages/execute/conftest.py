"""Provide a world per test and client library, and one whose queue manager checks headers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import embedded_mq
from tests.support.world import World

CHECKING = "pymqi, a queue manager that checks headers"
"""IBM MQ documents both that it checks MQ headers on MQPUT and that it does not."""
WORLDS = ["ibmmq", *(pytest.param(one, marks=pytest.mark.slow) for one in ("pymqi", CHECKING))]
"""`make test-fast` is content with one of them."""


@pytest.fixture(name="world", params=WORLDS)
def _world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    client = request.param.partition(",")[0]
    world = World(tmp_path, client=client, checks_headers=request.param == CHECKING)
    with world.ledger:
        yield world
    embedded_mq.faults.set("")
