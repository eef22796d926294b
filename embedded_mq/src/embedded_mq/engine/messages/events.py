"""Put event messages on the event queues.

IBM MQ docs, "Event message reference", "Event message MQMD (message descriptor)".
"""

from collections.abc import Iterable

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import blank_padded, object_name
from embedded_mq.engine.connection import Connection, ResolvedQueue
from embedded_mq.engine.failures import CallFailedError, log
from embedded_mq.engine.messages import placing
from embedded_mq.engine.messages.context import set_queue_manager_origin
from embedded_mq.pcf.messages import Header, Parameter, write
from embedded_mq.storage.catalogue import Catalogue
from embedded_mq.structures import MQMD

MQFMT_EVENT = b"MQEVENT "


def put(
    connection: Connection, name: str, header: Header, parameters: Iterable[Parameter], now: float
) -> None:
    """Put an event message on an event queue, inside a write transaction.

    It belongs to no unit of work. If it cannot be put, it is lost, with a line in the log.
    """
    try:
        target, body = _event_queue(connection.store.catalogue(), name), write(header, parameters)
        md = _descriptor(connection, target, now)
        placing.check_fits(target, md, body)
        placing.place(connection, target, md, (md.pack(), None, body), now=now, in_unit=False)
    except CallFailedError as failure:
        log.warning("an event message for %s is lost: %s", name, failure)


def _event_queue(catalogue: Catalogue, name: str) -> ResolvedQueue:
    queue = catalogue.by_name.get(name)
    if queue is None or queue.type != mq.MQQT_LOCAL:
        raise CallFailedError("MQRC_UNKNOWN_OBJECT_NAME")
    target = ResolvedQueue(catalogue, (queue,), None)
    if target.is_put_inhibited:
        raise CallFailedError("MQRC_PUT_INHIBITED")
    return target


def _descriptor(connection: Connection, target: ResolvedQueue, now: float) -> MQMD:
    """Return the MQMD of an event (IBM MQ docs, "Event message MQMD (message descriptor)")."""
    name, md = target.catalogue.name, MQMD.blank()
    md.struc_id, md.version = b"MD  ", mq.MQMD_VERSION_2
    md.msg_type, md.expiry = mq.MQMT_DATAGRAM, mq.MQEI_UNLIMITED
    md.encoding, md.coded_char_set_id = mq.MQENC_NATIVE, target.ccsid
    md.format, md.msg_id = MQFMT_EVENT, connection.new_id()
    md.priority, md.persistence = target.priority, target.persistence
    md.reply_to_q, md.reply_to_q_mgr = object_name(""), object_name(name)
    md.user_identifier, md.appl_identity_data = blank_padded("", 12), blank_padded("", 32)
    md.msg_seq_number, md.original_length = 1, mq.MQOL_UNDEFINED
    set_queue_manager_origin(md, name, now)
    return md
