"""The worlds of the proofs: a new directory each, and the queue manager that is given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proof.queue_managers import GivenWorld, given_settings


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> Iterator[GivenWorld]:
    world = GivenWorld(tmp_path, given=given_settings())
    with world.ledger:
        yield world
