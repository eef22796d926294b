"""Add an MQXQH to messages for another queue manager.

IBM MQ docs, "MQXQH - Transmission-queue header", which lists the fields of the separate descriptor
and of the embedded one.
"""

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.messages.context import set_queue_manager_origin
from embedded_mq.headers import mqmde
from embedded_mq.structures import MQMD, MQMD_LENGTH_1, MQXQH

MQFMT_XMIT_Q_HEADER = b"MQXMIT  "


def wrap_for_transmission(
    connection: Connection, remote: tuple[str, str], md: MQMD, body: bytes, now: float
) -> tuple[bytes, bytes]:
    """Return the packed descriptor and the body of a message on a transmission queue.

    The separate descriptor is a copy of the message's MQMD without its group and segment fields,
    which are in an MQMDE after the MQXQH. It requests no report on arrival or delivery, which
    concern the destination queue.
    """
    embedded = md.copy()
    embedded.version = mq.MQMD_VERSION_1
    header = MQXQH(
        remote_q_name=object_name(remote[0]),
        remote_q_mgr_name=object_name(remote[1]),
    )
    catalogue = connection.store.catalogue()
    extension = b""
    if not mqmde.has_defaults(md):
        extension = mqmde.make_extension(embedded, catalogue.number("CCSID"))
    outer = md.copy()
    mqmde.set_defaults(outer)
    outer.version = mq.MQMD_VERSION_2
    outer.report &= ~mq.MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
    outer.encoding, outer.coded_char_set_id = mq.MQENC_NATIVE, catalogue.number("CCSID")
    outer.format = MQFMT_XMIT_Q_HEADER
    outer.msg_id, outer.correl_id = connection.new_id(), md.msg_id
    set_queue_manager_origin(outer, catalogue.name, now)
    return outer.pack(), header.pack() + embedded.pack()[:MQMD_LENGTH_1] + extension + body
