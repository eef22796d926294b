"""Messages that come back: dead-letter them again, as a message channel agent does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from mqdlq.headers import DeadLetterHeader
from tests.support.world import World

LAG: Final = timedelta(seconds=40)
_KEPT: Final = (
    "MsgId",
    "CorrelId",
    "UserIdentifier",
    "PutApplName",
    "PutApplType",
    "PutDate",
    "PutTime",
    "GroupId",
    "MsgSeqNumber",
    "Offset",
    "MsgFlags",
)


def send_back(
    world: World,
    queue: str = "PAYMENTS",
    *,
    to: World | None = None,
    dlq: str = "DLQ",
    after: timedelta = LAG,
) -> int:
    """Dead-letter the messages of a queue after some time; return how many.

    Each gets an MQDLH in front, and keeps its MQMD except Format, Encoding and CodedCharSetId. They
    go to the dead-letter queue of another world if `to` is given.
    """
    world.clock.now += after
    found = world.messages(queue)
    for md, body in found:
        world.lose_first(queue)
        at = f"{world.clock.now:%Y%m%d}", f"{world.clock.now:%H%M%S}00"
        inner = md.Encoding, md.CodedCharSetId, md.Format.decode().rstrip()
        place = world.settings.queue_manager
        header = DeadLetterHeader(2053, queue, place, *inner, 6, "amqrmppa", *at)
        fields: dict[str, Any] = {name: getattr(md, name) for name in _KEPT}
        fields |= {"Format": b"MQDEAD  ", "Encoding": 546, "CodedCharSetId": 819}
        (to or world).put(dlq, header.encode(encoding=546, ccsid=819) + body, **fields)
    return len(found)
