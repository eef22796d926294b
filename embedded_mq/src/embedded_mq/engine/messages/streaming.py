"""Copy messages that are put to a queue with STREAMQ to that stream queue.

IBM MQ docs, "Configuring streaming queues", "Stream queues and transactions".
"""

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection, ResolvedQueue
from embedded_mq.engine.failures import CallFailedError, log
from embedded_mq.engine.messages import depth_events, placing, transmission
from embedded_mq.engine.messages.placing import Content
from embedded_mq.engine.objects.resolution import resolve
from embedded_mq.structures import MQMD

# Only the original requests reports.
REPORTS = (
    mq.MQRO_COA_WITH_FULL_DATA
    | mq.MQRO_COD_WITH_FULL_DATA
    | mq.MQRO_EXPIRATION_WITH_FULL_DATA
    | mq.MQRO_EXCEPTION_WITH_FULL_DATA
    | mq.MQRO_ACTIVITY
)


def place_copy(
    connection: Connection,
    resolved: ResolvedQueue,
    md: MQMD,
    content: Content,
    *,
    now: float,
    in_unit: bool,
) -> None:
    """Put the copy of a message that is being put to a queue with STREAMQ.

    With STRMQOS(MUSTDUP) it is put before the original, and a failure fails the whole put: the
    reason code is about the stream queue. With STRMQOS(BESTEF) a failure is only logged. The copy
    does not expire, requests no reports, and does not count for MAXUMSGS.
    """
    try:
        _place(connection, resolved, md, content, now=now, in_unit=in_unit)
    except CallFailedError as failure:
        if resolved.must_duplicate:
            raise
        log.warning(
            "no copy on %s, the STREAMQ of %s: %s", resolved.stream_q, resolved.queue_name, failure
        )


def _place(
    connection: Connection,
    resolved: ResolvedQueue,
    md: MQMD,
    content: Content,
    *,
    now: float,
    in_unit: bool,
) -> None:
    destination = resolve(resolved.catalogue, resolved.stream_q, "")
    if destination.queue.type == mq.MQQT_MODEL:
        raise CallFailedError("MQRC_Q_TYPE_ERROR")
    target = ResolvedQueue(resolved.catalogue, destination.path, destination.remote)
    if target.is_put_inhibited:
        raise CallFailedError("MQRC_PUT_INHIBITED")
    copy, (_, properties, body) = md.copy(), content
    copy.expiry = mq.MQEI_UNLIMITED
    copy.report &= ~REPORTS
    packed = copy.pack()
    if target.remote:
        packed, body = transmission.wrap_for_transmission(
            connection, target.remote, copy, body, now
        )
    placing.check_fits(target, copy, body)
    placing.place(connection, target, copy, (packed, properties, body), now=now, in_unit=in_unit)
    depth_events.report_put(connection, target, now)
    if in_unit:
        connection.unit_of_work.calls -= 1
