"""Messages on their way to another queue manager: a message in, the same behind an MQXQH out.

IBM MQ docs, "MQXQH - Transmission-queue header", which lists the fields of the separate descriptor
and of the embedded one.
"""

from __future__ import annotations

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.messages.context import put_by_queue_manager
from embedded_mq.headers import mqmde
from embedded_mq.structures import MQMD, MQMD_LENGTH_1, MQXQH, object_name

MQFMT_XMIT_Q_HEADER = b"MQXMIT  "


def enveloped(
    connection: Connection, remote: tuple[str, str], md: MQMD, body: bytes, now: float
) -> tuple[bytes, bytes]:
    """Return the packed descriptor and the body that a transmission queue holds for a message.

    The separate descriptor is a copy of the one put, without its group and segment, which an MQMDE
    behind the MQXQH then holds; it asks for no report on arrival or delivery, which concern the
    message's own queue.
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
        extension = mqmde.made_for(embedded, catalogue.limit("CCSID"))
    outer = md.copy()
    mqmde.set_defaults(outer)
    outer.version = mq.MQMD_VERSION_2
    outer.report &= ~mq.MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
    outer.encoding, outer.coded_char_set_id = mq.MQENC_NATIVE, catalogue.limit("CCSID")
    outer.format = MQFMT_XMIT_Q_HEADER
    outer.msg_id, outer.correl_id = connection.new_id(), md.msg_id
    put_by_queue_manager(outer, catalogue.name, now)
    return outer.pack(), header.pack() + embedded.pack()[:MQMD_LENGTH_1] + extension + body
