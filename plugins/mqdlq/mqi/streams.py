"""Puts that fail because of a stream queue: a target queue and a reason code in, advice out."""

from __future__ import annotations

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import QueueManager


def stream_advice(queue_manager: QueueManager, queue: str, reason: int) -> str:
    """Return what a put's reason has to do with the stream queue of a local queue, or "".

    Under STRMQOS(MUSTDUP) a message that cannot be put to the stream queue is not put at all, with
    a reason code that is about the stream queue (IBM MQ docs, "Configuring streaming queues"). A
    queue manager older than streaming queues, an alias, or a queue that we may not inquire gives no
    advice.
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
