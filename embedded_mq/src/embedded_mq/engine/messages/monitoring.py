"""Monitor queues: when the last message was put and got, and how old the oldest message is.

IBM MQ docs, "Inquire Queue Status (Response)", "DISPLAY QSTATUS". The attribute MONQ of the queue,
or of the queue manager, switches it on; every level has the same effect. The times are those since
the queue manager was started. A browse is no get. The age follows from PutDate and PutTime.
"""

from datetime import datetime

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import ResolvedQueue
from embedded_mq.storage.schema import GOT
from embedded_mq.storage.store import Store

CREATE = """
CREATE TABLE IF NOT EXISTS monitored(
    queue_id INTEGER PRIMARY KEY,
    start INTEGER NOT NULL,
    last_put REAL,
    last_get REAL)
"""
"""Created when it is needed: queue managers of earlier versions lack it."""

_NOTE = """
INSERT INTO monitored VALUES(:queue_id, :start, :put, :got) ON CONFLICT(queue_id) DO UPDATE SET
    last_put = coalesce(:put, iif(start = :start, last_put, NULL)),
    last_get = coalesce(:got, iif(start = :start, last_get, NULL)),
    start = :start
"""
# PutDate and PutTime stand at offset 304 of the descriptor; without context they are blank.
_OLDEST = f"""
SELECT min(substr(descriptor, 305, 16)) FROM message WHERE queue_id = ?
    AND substr(descriptor, 305, 1) BETWEEN x'30' AND x'39'
    AND place NOT IN (SELECT place FROM held WHERE kind = {GOT})
"""  # noqa: S608 (a number of another module)
_MOST_AGE = 999_999_999


def note_put(store: Store, resolved: ResolvedQueue, now: float) -> None:
    """Note a put, inside its write transaction."""
    _note(store, resolved, put=now)


def note_get(store: Store, resolved: ResolvedQueue, now: float) -> None:
    """Note a get that removes a message, inside its write transaction."""
    _note(store, resolved, got=now)


def _note(
    store: Store, resolved: ResolvedQueue, *, put: float | None = None, got: float | None = None
) -> None:
    store.execute(CREATE)
    start = resolved.catalogue.start
    store.execute(_NOTE, {"queue_id": resolved.queue_id, "start": start, "put": put, "got": got})


def last_put_and_get(store: Store, queue_id: int) -> tuple[float | None, float | None]:
    """Return when the last message was put to a queue and got from it, None for never."""
    if store.fetch_value("SELECT 1 FROM sqlite_master WHERE name = 'monitored'") is None:
        return None, None
    row = store.execute(
        "SELECT last_put, last_get FROM monitored WHERE queue_id = ? AND start = ?",
        (queue_id, store.catalogue().start),
    ).fetchone()
    return row or (None, None)


def oldest_age(store: Store, queue_id: int, now: float) -> int:
    """Return the age in seconds of the oldest message, 0 for an empty queue.

    The age is MQMON_NOT_AVAILABLE if no message says when it was put.
    """
    found = store.fetch_value(_OLDEST, (queue_id,))
    if found is None:
        return mq.MQMON_NOT_AVAILABLE if store.depth(queue_id) else 0
    try:
        put = datetime.strptime(f"{bytes(found[:14]).decode('ascii')}+0000", "%Y%m%d%H%M%S%z")
    except ValueError:
        return mq.MQMON_NOT_AVAILABLE
    return min(max(0, int(now - put.timestamp())), _MOST_AGE)
