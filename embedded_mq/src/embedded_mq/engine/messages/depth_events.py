"""Put queue depth events on SYSTEM.ADMIN.PERFM.EVENT.

IBM MQ docs, "Understanding queue depth events", "Enabling queue depth events", "Performance event
statistics", "Performance events", "Event message reference", "Queue Depth High", "Queue Depth Low"
and "Queue Full". The queue manager's attribute PERFMEV enables all of them, and QDPHIEV, QDPLOEV
and QDPMAXEV of a queue enable one each. An event disables itself and enables its counterparts, in
these attributes. Backing out a unit of work does not take its events back.

Statistics of a queue begin with the first put or get while events are enabled for it. Queue service
interval events are not generated.
"""

import time
from dataclasses import dataclass

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name
from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import Connection, ResolvedQueue
from embedded_mq.engine.failures import MQCC_WARNING, CallFailedError
from embedded_mq.engine.messages import events
from embedded_mq.engine.objects import definitions
from embedded_mq.engine.objects.attributes import PERFORMANCE_EVENT_QUEUE
from embedded_mq.pcf import constants as cf
from embedded_mq.pcf import messages as pcf

PERCENT = 100


@dataclass(frozen=True, slots=True)
class DepthEvent:
    """A kind of event: its reason, its attribute, and the attributes that it sets to ENABLED."""

    reason: str
    attribute: str
    enables: tuple[str, ...]


HIGH = DepthEvent("MQRC_Q_DEPTH_HIGH", "QDPHIEV", ("QDPLOEV", "QDPMAXEV"))
LOW = DepthEvent("MQRC_Q_DEPTH_LOW", "QDPLOEV", ("QDPHIEV", "QDPMAXEV"))
FULL = DepthEvent("MQRC_Q_FULL", "QDPMAXEV", ("QDPLOEV",))

CREATE_STATISTICS = """
CREATE TABLE IF NOT EXISTS event_statistics(
    queue_id INTEGER PRIMARY KEY,
    since REAL NOT NULL,
    highest INTEGER NOT NULL,
    puts INTEGER NOT NULL,
    gets INTEGER NOT NULL)
"""
"""Created when it is needed: queue managers of earlier versions lack it."""

COUNT = """
INSERT INTO event_statistics VALUES(:queue_id, :now, :depth, :puts, :gets)
ON CONFLICT(queue_id) DO UPDATE SET
    highest = max(highest, :depth), puts = puts + :puts, gets = gets + :gets
RETURNING since, highest, puts, gets
"""
RESET = """
UPDATE event_statistics SET since = ?, highest = ?, puts = 0, gets = 0 WHERE queue_id = ?
"""


def report_put(connection: Connection, resolved: ResolvedQueue, now: float) -> None:
    """Report that a put has raised the depth to QDEPTHHI, inside its write transaction."""
    if resolved.has_depth_events:
        depth = connection.store.depth(resolved.queue_id) or 0
        limit = resolved.path[-1].number("QDEPTHHI")
        event = HIGH if depth * PERCENT >= resolved.max_depth * limit else None
        _report(connection, resolved, event, depth, now, puts=1)


def report_get(connection: Connection, resolved: ResolvedQueue) -> None:
    """Report that a get has lowered the depth to QDEPTHLO, inside its write transaction."""
    if resolved.has_depth_events:
        depth = connection.store.depth(resolved.queue_id) or 0
        limit = resolved.path[-1].number("QDEPTHLO")
        event = LOW if depth * PERCENT <= resolved.max_depth * limit else None
        _report(connection, resolved, event, depth, time.time(), gets=1)


def report_failed_put(
    connection: Connection, resolved: ResolvedQueue, failure: CallFailedError, now: float
) -> None:
    """Report that a put has failed because its queue is full, after its write transaction.

    A put that fails because a stream queue is full generates no event.
    """
    if failure.reason != MQRC["MQRC_Q_FULL"] or not resolved.has_depth_events:
        return
    depth = connection.store.depth(resolved.queue_id) or 0
    if depth >= resolved.max_depth:
        with connection.store.transaction():
            _report(connection, resolved, FULL, depth, now)


def _report(
    connection: Connection,
    resolved: ResolvedQueue,
    event: DepthEvent | None,
    depth: int,
    now: float,
    **counted: int,
) -> None:
    """Count a call, and generate its event if this event is enabled."""
    store, queue_id = connection.store, resolved.queue_id
    store.execute(CREATE_STATISTICS)
    values = {"queue_id": queue_id, "now": now, "depth": depth, "puts": 0, "gets": 0, **counted}
    since, highest, puts, gets = store.execute(COUNT, values).fetchone()
    # The attributes of this moment: the same call may have generated another event.
    catalogue = store.catalogue()
    queue = catalogue.by_id[queue_id]
    if event is None or not queue.number(event.attribute):
        return
    store.execute(RESET, (now, depth, queue_id))
    changed = {event.attribute: 0, **dict.fromkeys(event.enables, 1)}
    definitions.change(store, queue, {**queue.attributes, **changed})
    header = pcf.Header(cf.MQCFT_EVENT, cf.MQCMD_PERFM_EVENT, MQCC_WARNING, MQRC[event.reason])
    parameters = (
        pcf.string(mq.MQCA_Q_MGR_NAME, object_name(catalogue.name)),
        pcf.string(mq.MQCA_BASE_Q_NAME, object_name(queue.name)),
        pcf.integer(mq.MQIA_TIME_SINCE_RESET, max(0, int(now - since))),
        pcf.integer(mq.MQIA_HIGH_Q_DEPTH, highest),
        pcf.integer(mq.MQIA_MSG_ENQ_COUNT, puts),
        pcf.integer(mq.MQIA_MSG_DEQ_COUNT, gets),
    )
    events.put(connection, PERFORMANCE_EVENT_QUEUE, header, parameters, now)
