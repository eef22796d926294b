"""Prove that a block of a test has changed nothing on an embedded queue manager."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import embedded_mq
from tests.support.world import World


@contextmanager
def nothing_changes(world: World) -> Iterator[None]:
    """Compare definitions, authorities and depths before and after a block.

    The command queue and the reply queue of a PCF command are what an inquiry needs itself.
    """
    before = _state(world)
    yield
    assert _state(world) == before


def _state(world: World) -> list[str]:
    place = Path(world.settings.directory)
    asked = "DISPLAY QUEUE(*)\nDISPLAY AUTHREC\nDISPLAY QMGR ALL"
    return [
        line
        for line in embedded_mq.run_mqsc("QM1", asked, place)
        if not line.startswith(("QUEUE(SYSTEM.ADMIN.COMMAND.QUEUE)", "QUEUE(MQDLQ.0"))
    ]
