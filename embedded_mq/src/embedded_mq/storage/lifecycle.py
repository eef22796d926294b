"""Quiesce, end and start a queue manager, for all processes that use it.

IBM MQ docs, "endmqm", "strmqm", "Quiescing a queue manager" (FAIL_IF_QUIESCING options).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedded_mq.engine import unit_of_work
from embedded_mq.engine.objects import definitions
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.storage import directories
from embedded_mq.storage.catalogue import ENDED, QUIESCING, RUNNING
from embedded_mq.storage.store import Store


def quiesce(name: str, directory: Path | None = None) -> None:
    """Quiesce a queue manager, which ends when its last application disconnects.

    From now on MQCONN, and every call with a FAIL_IF_QUIESCING option, fails with
    MQRC_Q_MGR_QUIESCING.
    """
    with _writing(name, directory) as store:
        _require_status(store, name, RUNNING, QUIESCING)
        is_used = _has_live_connections(store)
        _set_status(store, QUIESCING if is_used else ENDED)


def end(name: str, directory: Path | None = None) -> None:
    """End a queue manager at once: back out units of work, delete temporary dynamic queues.

    The next call of each connection fails with MQRC_Q_MGR_STOPPING, later ones with
    MQRC_CONNECTION_BROKEN, MQCONN with MQRC_Q_MGR_NOT_AVAILABLE.
    """
    with _writing(name, directory) as store:
        _require_status(store, name, RUNNING, QUIESCING)
        rows = store.execute("SELECT connection_id FROM connection").fetchall()
        for (connection_id,) in rows:
            unit_of_work.back_out_messages(store, connection_id)
        for table in ("held", "open_handle", "connection"):
            store.execute(f"DELETE FROM {table}")  # noqa: S608 (one of the three)
        for queue in store.catalogue().by_id.values():
            if queue.is_temporary:
                definitions.remove(store, queue.queue_id)
        _set_status(store, ENDED)


def start(name: str, directory: Path | None = None) -> None:
    """Start an ended queue manager; nonpersistent messages are lost, except for NPMCLASS(HIGH)."""
    with _writing(name, directory) as store:
        _require_status(store, name, ENDED)
        for queue in store.catalogue().by_id.values():
            if not queue.number("NPMCLASS"):
                _delete_nonpersistent(store, queue.queue_id)
        store.execute("UPDATE operation SET start = start + 1")
        store.execute("DROP TABLE IF EXISTS event_statistics")  # see `depth_events`
        _set_status(store, RUNNING)


def status(name: str, directory: Path | None = None) -> str:
    """Return RUNNING, QUIESCING or ENDED."""
    with _opened(name, directory) as store:
        return store.catalogue().status


@contextmanager
def _opened(name: str, directory: Path | None) -> Iterator[Store]:
    store = Store(directories.find_existing(name, directory))
    try:
        yield store
    finally:
        store.close()


@contextmanager
def _writing(name: str, directory: Path | None) -> Iterator[Store]:
    with _opened(name, directory) as store, store.transaction(durable=True):
        yield store


def _require_status(store: Store, name: str, *right: str) -> None:
    found = store.catalogue().status
    if found not in right:
        advice = f"`embedded-mq start {name}` starts it" if found == ENDED else "end it first"
        raise EmbeddedQueueManagerError(f"queue manager {name} is {found.lower()}; {advice}")


def _set_status(store: Store, new: str) -> None:
    store.execute("UPDATE operation SET status = ?", (new,))
    store.definitions_changed()


def _has_live_connections(store: Store) -> bool:
    rows = store.execute("SELECT connection_id FROM connection").fetchall()
    return any(store.locks.is_alive(connection_id) for (connection_id,) in rows)


def _delete_nonpersistent(store: Store, queue_id: int) -> None:
    # Persistence stands at offset 44 of the descriptor; MQPER_NOT_PERSISTENT is 0.
    store.execute(
        "DELETE FROM message WHERE queue_id = ? AND substr(descriptor, 45, 4) = zeroblob(4)",
        (queue_id,),
    )
