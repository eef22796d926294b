"""Put an event on SYSTEM.ADMIN.QMGR.EVENT when a user may not open an object.

IBM MQ docs, "Authority events", "Not Authorized (type 2)". The queue manager's attribute AUTHOREV
enables it. A user who may not connect, or not run a PCF command, causes no event here.
"""

import time

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import blank_padded, text
from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import USER_LENGTH, Connection
from embedded_mq.engine.failures import MQCC_WARNING, CallFailedError
from embedded_mq.engine.messages import events
from embedded_mq.engine.objects.attributes import QUEUE_MANAGER_EVENT_QUEUE
from embedded_mq.pcf import constants as cf
from embedded_mq.pcf import messages as pcf
from embedded_mq.storage.directories import process_program
from embedded_mq.structures import MQOD

_APPLICATION_LENGTH = 28


def report_refusal(
    connection: Connection, failure: CallFailedError, od: MQOD, options: int, user: str
) -> None:
    """Report that an open failed because `user` lacks an authority; ignore other failures."""
    reason, catalogue = MQRC["MQRC_NOT_AUTHORIZED"], connection.store.catalogue()
    if failure.reason != reason or not catalogue.number("AUTHOREV"):
        return
    name, q_mgr_name = catalogue.name, text(od.object_q_mgr_name)
    parameters = [
        pcf.string(mq.MQCA_Q_MGR_NAME, blank_padded(name, 48)),
        pcf.integer(cf.MQIACF_REASON_QUALIFIER, cf.MQRQ_OPEN_NOT_AUTHORIZED),
        pcf.integer(cf.MQIACF_OPEN_OPTIONS, options),
        pcf.string(cf.MQCACF_USER_IDENTIFIER, blank_padded(user, USER_LENGTH)),
        pcf.integer(mq.MQIA_APPL_TYPE, mq.MQAT_UNIX),
        pcf.string(cf.MQCACF_APPL_NAME, blank_padded(process_program(), _APPLICATION_LENGTH)),
    ]
    if q_mgr_name not in {"", name}:
        parameters.append(pcf.string(cf.MQCACF_OBJECT_Q_MGR_NAME, blank_padded(q_mgr_name, 48)))
    if od.object_type == mq.MQOT_Q:
        parameters.append(pcf.string(mq.MQCA_Q_NAME, blank_padded(text(od.object_name), 48)))
    header = pcf.Header(cf.MQCFT_EVENT, cf.MQCMD_Q_MGR_EVENT, MQCC_WARNING, reason)
    with connection.store.transaction():
        events.put(connection, QUEUE_MANAGER_EVENT_QUEUE, header, parameters, time.time())
