"""Advice on puts that fail because of a stream queue."""

from __future__ import annotations

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import QueueManager


def stream_advice(queue_manager: QueueManager, queue: str, reason: int) -> str:
    """Return how a put's reason code relates to the stream queue of a local queue, or "".

    With STRMQOS(MUSTDUP), a message that cannot be put to the stream queue is not put at all, and
    the reason code is about the stream queue (IBM MQ docs, "Configuring streaming queues").
    The result is "" for a queue manager without streaming queues, for an alias queue, and for a
    queue that the user may not inquire.
    """
    mq = queue_manager.client.CMQC
    try:
        stream, quality, inhibited, depth, deepest = queue_manager.inquire_attributes(
            queue,
            mq.MQCA_STREAM_QUEUE_NAME,
            mq.MQIA_STREAM_QUEUE_QOS,
            mq.MQIA_INHIBIT_PUT,
            mq.MQIA_CURRENT_Q_DEPTH,
            mq.MQIA_MAX_Q_DEPTH,
        )
    except QueueManagerError:
        return ""
    is_its_own = (reason == MQRC["MQRC_Q_FULL"] and depth >= deepest) or (
        reason == MQRC["MQRC_PUT_INHIBITED"] and inhibited == mq.MQQA_PUT_INHIBITED
    )
    if not stream or quality != mq.MQST_MUST_DUP or is_its_own:
        return ""
    gives = "may give" if reason == MQRC["MQRC_MSG_TOO_BIG_FOR_Q"] else "gives"
    return (
        f"its stream queue {stream} {gives} this reason: STRMQOS(MUSTDUP) refuses a message that"
        f" cannot be put to both {queue} and {stream}"
    )
