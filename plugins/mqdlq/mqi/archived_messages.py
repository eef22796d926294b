"""Whole messages as the archive keeps them: one under a cursor in, its MQMD and all its bytes out.

Message properties stand in the bytes, in an MQRFH2 (MQGMO_PROPERTIES_FORCE_MQRFH2): a queue manager
that is given these bytes with this MQMD makes the same properties of it again (IBM MQ docs,
"MQRFH2 - Rules and formatting header 2"). Where there are none, this is the message as it is.
"""

from __future__ import annotations

from typing import Any

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.browse import BrowseCursor, new_descriptor


def browse_whole(cursor: BrowseCursor, length: int) -> tuple[bytes, bytes]:
    """Return the packed MQMD and the bytes of the message under the cursor, by browse.

    `length` is that of the message without its properties.
    """
    constants = cursor.queue_manager.client.CMQC
    descriptor, body = read_whole(cursor, constants.MQGMO_BROWSE_MSG_UNDER_CURSOR, length)
    return descriptor.pack(), body


def read_whole(cursor: BrowseCursor, options: int, length: int) -> tuple[Any, bytes]:
    """Return the client's MQMD and the bytes of the message under the cursor.

    `options` say whether it is browsed or got. A buffer that properties make too small is made
    larger: MQRC_TRUNCATED_MSG_FAILED (2080) leaves message and cursor where they are.
    """
    client = cursor.queue_manager.client
    while True:
        gmo = client.packed.GMO()
        gmo.Options = (
            options
            | client.CMQC.MQGMO_PROPERTIES_FORCE_MQRFH2
            | client.CMQC.MQGMO_FAIL_IF_QUIESCING
            | client.CMQC.MQGMO_NO_WAIT
        )
        gmo.MatchOptions = client.CMQC.MQMO_NONE
        descriptor = new_descriptor(cursor.queue_manager)
        try:
            with client.calling("MQGET", f"queue {cursor.name}"):
                return descriptor, bytes(cursor.queue.get(length, descriptor, gmo))
        except QueueManagerError as error:
            needed = getattr(error.__cause__, "original_length", 0)
            if error.reason != MQRC["MQRC_TRUNCATED_MSG_FAILED"] or needed <= length:
                raise
            length = needed
