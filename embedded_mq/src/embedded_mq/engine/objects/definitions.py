"""Add, change and remove definitions of queues, inside a write transaction."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from embedded_mq.engine.objects import authority
from embedded_mq.engine.objects.attributes import Value
from embedded_mq.storage.catalogue import ALTERED, CREATED, DEFINITION_TYPE, Definition
from embedded_mq.storage.schema import LOCKED
from embedded_mq.storage.store import Store


def add(store: Store, name: str, queue_type: int, attributes: Mapping[str, Value]) -> int:
    """Define a queue and return its id."""
    row = store.execute(
        "INSERT INTO queue(name, type, attributes) VALUES(?, ?, ?)",
        (name, queue_type, json.dumps({**attributes, **_times(CREATED), **_times(ALTERED)})),
    )
    store.definitions_changed()
    return int(row.lastrowid or 0)


def change(store: Store, queue: Definition, attributes: Mapping[str, Value]) -> None:
    """Replace all attributes of a queue but the time of its creation."""
    created = {key: queue.attributes[key] for key in CREATED if key in queue.attributes}
    store.execute(
        "UPDATE queue SET attributes = ? WHERE queue_id = ?",
        (json.dumps({**attributes, **created, **_times(ALTERED)}), queue.queue_id),
    )
    store.definitions_changed()


def _times(keywords: tuple[str, str]) -> dict[str, str]:
    return dict(zip(keywords, date_and_time(), strict=True))


def date_and_time(at: float | None = None) -> tuple[str, str]:
    """Return a time, or now, as the date and the time in the form of DISPLAY QUEUE."""
    date, hour = time.strftime("%Y-%m-%d %H.%M.%S", time.gmtime(at)).split()
    return date, hour


def remove(store: Store, queue_id: int) -> None:
    """Remove a queue with its messages; its open handles get MQRC_Q_DELETED.

    The authority record that was created with a dynamic queue is removed, too.
    """
    remove_messages(store, queue_id)
    store.execute(
        "DELETE FROM authority WHERE object_type = ? AND profile IN (SELECT name FROM queue"
        " WHERE queue_id = ? AND json_extract(attributes, ?) IS NOT NULL)",
        (authority.QUEUE, queue_id, f'$."{DEFINITION_TYPE}"'),
    )
    store.execute("DELETE FROM queue WHERE queue_id = ?", (queue_id,))
    store.definitions_changed()


def remove_messages(store: Store, queue_id: int) -> None:
    """Remove all messages of a queue."""
    store.execute("DELETE FROM message WHERE queue_id = ?", (queue_id,))


def has_uncommitted(store: Store, queue_id: int) -> bool:
    """Return whether a unit of work or a lock holds messages of the queue."""
    return store.fetch_value("SELECT 1 FROM held WHERE queue_id = ?", (queue_id,)) is not None


def count_handles(store: Store, queue_id: int) -> int:
    """Return the number of open handles of a queue, with any options."""
    return int(
        store.fetch_value("SELECT count(*) FROM open_handle WHERE queue_id = ?", (queue_id,))
    )


class OpenHandle(NamedTuple):
    """One open handle of a queue, and the application that has it."""

    application: str
    user: str
    pid: int
    options: int
    is_input: bool
    is_exclusive: bool


def open_handles(store: Store, queue_id: int) -> Iterator[OpenHandle]:
    """Yield the open handles of a queue."""
    rows = store.execute(
        "SELECT application, user, pid, options, input, exclusive FROM open_handle"
        " JOIN connection USING(connection_id) WHERE queue_id = ? ORDER BY connection_id, handle",
        (queue_id,),
    )
    return map(OpenHandle._make, rows.fetchall())


def count_uncommitted(store: Store, queue_id: int) -> int:
    """Return the number of messages that open units of work have put to or got from the queue."""
    return int(
        store.fetch_value(
            "SELECT count(*) FROM held WHERE queue_id = ? AND kind <> ?", (queue_id, LOCKED)
        )
    )


def count_open_handles(store: Store, queue_id: int) -> tuple[int, int]:
    """Return the numbers of handles open for input and for output."""
    row = store.execute(
        "SELECT coalesce(sum(input), 0), coalesce(sum(output), 0) FROM open_handle"
        " WHERE queue_id = ?",
        (queue_id,),
    ).fetchone()
    return int(row[0]), int(row[1])
