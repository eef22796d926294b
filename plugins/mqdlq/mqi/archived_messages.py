"""Browse or get whole messages in the form in which the archive keeps them.

Message properties are part of the bytes, in an MQRFH2 (MQGMO_PROPERTIES_FORCE_MQRFH2). If these
bytes are put with the same MQMD, the queue manager creates the same properties again (IBM MQ docs,
"MQRFH2 - Rules and formatting header 2"). A message without properties is unchanged.
"""

from __future__ import annotations

from typing import Any

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.browse import BrowseCursor, new_descriptor


def browse_with_properties(cursor: BrowseCursor, length: int) -> tuple[bytes, bytes]:
    """Browse the message under the cursor; return its packed MQMD and its bytes with properties.

    `length` is the length of the message without its properties.
    """
    constants = cursor.queue_manager.client.CMQC
    descriptor, body = read_with_properties(cursor, constants.MQGMO_BROWSE_MSG_UNDER_CURSOR, length)
    return descriptor.pack(), body


def read_with_properties(cursor: BrowseCursor, options: int, length: int) -> tuple[Any, bytes]:
    """Return the client's MQMD and the bytes, with properties, of the message under the cursor.

    `options` decide between a browse and a get. If the properties make the buffer too small, the
    call is repeated with a larger one: MQRC_TRUNCATED_MSG_FAILED (2080) moves neither the message
    nor the cursor.
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
            with client.translating_errors("MQGET", f"queue {cursor.name}"):
                return descriptor, bytes(cursor.queue.get(length, descriptor, gmo))
        except QueueManagerError as error:
            needed = getattr(error.__cause__, "original_length", 0)
            if error.reason != MQRC["MQRC_TRUNCATED_MSG_FAILED"] or needed <= length:
                raise
            length = needed
