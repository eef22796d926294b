"""Diagnose in a world, and prove that nothing changes on its embedded queue manager."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import embedded_mq
from mqdlq.diagnosis.diagnosing import diagnose
from mqdlq.diagnosis.obstacles import Subject
from mqdlq.diagnosis.records import Diagnosis
from tests.support.world import World


def look(world: World, subject: Subject) -> Diagnosis:
    with nothing_changes(world), world.connect() as queue_manager:
        return diagnose(queue_manager, subject, world.clock)


def without_alteration(text: str) -> str:
    """Leave out when queues were altered, which the queue manager's clock says."""
    return re.sub(", altered [-0-9]+ [0-9:]+", "", text)


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
