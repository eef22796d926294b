"""Test that deploy/mq/authorities-restore.mqsc grants exactly what restoring needs in addition."""

from __future__ import annotations

from typing import Any

import pytest

from mqdlq import directories
from mqdlq.mqi import permissions
from tests.support.restorations import restore_and_count
from tests.support.world import World
from tests.unit.deploy.test_authorities import (
    AUTHORITIES_BY_USER,
    DLQ,
    EXECUTE,
    STATE,
    authorities,
    connect_as,
)
from tests.unit.deploy.test_authorities import _world as world_fixture

pytestmark = pytest.mark.slow

__all__ = ["world_fixture"]

RESTORE = (directories.PROJECT / "deploy" / "mq" / "authorities-restore.mqsc").read_text(
    encoding="utf-8"
)
PARKED = "ORDERS.PARKED"
TO_THE_DLQ: dict[str, Any] = {"again": True}
TO_ANOTHER: dict[str, Any] = {"to_queue": PARKED, "header": False, "again": True}


def discarded(world: World) -> None:
    """Discard two messages of the demo as the user that executes."""
    connect_as(world, EXECUTE)
    outcomes = world.handle("DESTQ(QUOTES.*) ACTION(DISCARD)\nACTION(IGNORE)")
    assert list(outcomes.values()).count("discarded") == 12


def test_authorities_restore_mqsc_grants_exactly_the_authorities_to_restore(
    world: World,
) -> None:
    world.mqsc(RESTORE)
    discarded(world)

    assert restore_and_count(world) == {"restored": 12}
    assert restore_and_count(world, "restoration-2", **TO_ANOTHER) == {"restored": 12}

    besides = {DLQ: {"PUT", "SETALL"}, PARKED: {"SETALL"}}
    connect_as(world, EXECUTE)
    may = authorities(world)
    assert may == {
        queue: words | besides.get(queue, set())
        for queue, words in AUTHORITIES_BY_USER[EXECUTE].items()
    }


GRANTED = [
    (TO_THE_DLQ, "OBJTYPE(QMGR)", "SETALL"),
    (TO_THE_DLQ, f"PROFILE({DLQ}) OBJTYPE(QUEUE)", "PUT"),
    (TO_THE_DLQ, f"PROFILE({DLQ}) OBJTYPE(QUEUE)", "SETALL"),
    (TO_ANOTHER, f"PROFILE({PARKED}) OBJTYPE(QUEUE)", "SETALL"),
]


def test_each_message_fails_if_one_authority_to_restore_is_missing(world: World) -> None:
    """The check of a handler's authorities requires none of these."""
    world.mqsc(RESTORE)
    discarded(world)

    for number, (asked, record, word) in enumerate(GRANTED):
        name, profile = f"restoration-{number}", f"{record} PRINCIPAL('{EXECUTE}')"
        world.mqsc(f"SET AUTHREC {profile} AUTHRMV({word})")
        assert restore_and_count(world, name, **asked) == {"failed": 1, "not_attempted": 11}
        with world.connect() as queue_manager:
            assert permissions.find_missing(queue_manager, EXECUTE, STATE) == []
        world.mqsc(f"SET AUTHREC {profile} AUTHADD({word})")
        assert restore_and_count(world, name, **asked) == {"restored": 12}
