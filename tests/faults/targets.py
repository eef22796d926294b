"""Target applications of rounds: they take messages, return them, and survive a kill.

Each reaction is one unit of work of the queue manager, so that a child that is killed within it
leaves every message in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from mqdlq.headers import DLH_LENGTH, DeadLetterHeader
from mqdlq.mqi.connect import QueueManager
from tests.support.world import World

LAG = timedelta(seconds=40)
"""How long after its delivery a message is a dead letter again."""

IsReturned = Callable[[bytes, int], bool]
"""Whether a message with this body, returned so often before, is returned."""


def react(
    world: World, is_returned: IsReturned, *, takes: int | None, source: str = "PAYMENTS"
) -> None:
    """Return some messages of a queue to the DLQ, and move up to `takes` others to ACCEPTED.

    A returned message counts its returns in Feedback, which the identity of a message does not
    include and which neither queue managers nor the handler change.
    """
    if not world.depths(source)[0]:
        return
    world.clock.sleep(LAG.total_seconds())
    with world.connect() as queue_manager, _open_for_input(queue_manager, source) as queue:
        for md, body in _get_all(queue_manager, queue):
            if is_returned(body, md.Feedback):
                _put(queue_manager, "DLQ", _as_dead_letter(world, source, md, body), md)
            elif takes:
                takes -= 1
                _put(queue_manager, "ACCEPTED", body, md)
            else:
                _put(queue_manager, source, body, md)
        queue_manager.handle.commit()


def bare(body: bytes) -> bytes:
    """Return a body without its MQDLH."""
    return body[DLH_LENGTH:] if body.startswith(b"DLH ") else body


@contextmanager
def _open_for_input(queue_manager: QueueManager, name: str) -> Iterator[Any]:
    constants = queue_manager.client.CMQC
    queue = queue_manager.open(name, constants.MQOO_INPUT_SHARED | constants.MQOO_SAVE_ALL_CONTEXT)
    yield queue
    queue_manager.close(queue)


def _get_all(queue_manager: QueueManager, queue: Any) -> list[tuple[Any, bytes]]:
    module, constants = queue_manager.client.module, queue_manager.client.CMQC
    found = []
    while True:
        md, gmo = module.MD(), module.GMO()
        md.Version = constants.MQMD_VERSION_2
        gmo.Options = constants.MQGMO_SYNCPOINT | constants.MQGMO_NO_PROPERTIES
        try:
            found.append((md, bytes(queue.get(None, md, gmo))))
        except module.MQMIError as error:
            if error.reason != constants.MQRC_NO_MSG_AVAILABLE:
                raise
            return found


def _as_dead_letter(world: World, queue: str, md: Any, body: bytes) -> bytes:
    """Put an MQDLH in front, as a message channel agent does."""
    at = f"{world.clock.now:%Y%m%d}", f"{world.clock.now:%H%M%S}00"
    inner = md.Encoding, md.CodedCharSetId, md.Format.decode().rstrip()
    place = world.settings.queue_manager
    header = DeadLetterHeader(2053, queue, place, *inner, 6, "amqrmppa", *at)
    md.Format, md.Encoding, md.CodedCharSetId = b"MQDEAD  ", 546, 819
    md.Feedback += 1
    return header.encode(encoding=546, ccsid=819) + body


def _put(queue_manager: QueueManager, queue: str, body: bytes, md: Any) -> None:
    module, constants = queue_manager.client.module, queue_manager.client.CMQC
    pmo, target = module.PMO(), module.OD()
    pmo.Options = constants.MQPMO_SYNCPOINT | constants.MQPMO_SET_ALL_CONTEXT
    target.ObjectName = queue.encode()
    queue_manager.handle.put1(target, body, md, pmo)
