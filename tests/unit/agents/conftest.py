"""One demo world for all tests of agents; tests add only events of its audit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tests.support.web.demo_world import make_demo_world
from tests.support.world import World


@pytest.fixture(scope="package", name="demo")
def _demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with patch.dict(os.environ):
        world = make_demo_world(tmp_path_factory.mktemp("demo"))
    with world.ledger:
        yield world


@pytest.fixture(name="world")
def _world(demo: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("MQDLQ_HOME", str(demo.directory))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(demo.directory / "handlers"))
    return demo
