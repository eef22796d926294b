"""Definitions of queues made, changed and removed, while writing."""

from __future__ import annotations

import json
from collections.abc import Mapping

from mqdlq.mqi.embedded import mqi_constants as mq
from mqdlq.mqi.embedded.attributes import Value
from mqdlq.mqi.embedded.catalogue import Definition
from mqdlq.mqi.embedded.store import Store


def add(store: Store, name: str, queue_type: int, attributes: Mapping[str, Value]) -> int:
    """Define a queue; returns its id."""
    row = store.execute(
        "INSERT INTO queue(name, type, attributes) VALUES(?, ?, ?)",
        (name, queue_type, json.dumps(attributes)),
    )
    if queue_type == mq.MQQT_LOCAL:
        store.execute("INSERT INTO depth VALUES(?, 0)", (row.lastrowid,))
    store.definitions_changed()
    return int(row.lastrowid or 0)


def change(store: Store, queue: Definition, attributes: Mapping[str, Value]) -> None:
    """Give a queue these attributes in place of its own."""
    store.execute(
        "UPDATE queue SET attributes = ? WHERE queue_id = ?",
        (json.dumps(attributes), queue.queue_id),
    )
    store.definitions_changed()


def remove(store: Store, queue_id: int) -> None:
    """Remove a queue with its messages; handles that are open to it find it deleted."""
    remove_messages(store, queue_id)
    store.execute("DELETE FROM depth WHERE queue_id = ?", (queue_id,))
    store.execute("DELETE FROM queue WHERE queue_id = ?", (queue_id,))
    store.definitions_changed()


def remove_messages(store: Store, queue_id: int) -> None:
    """Empty a queue."""
    mine = (queue_id,)
    store.execute(
        "DELETE FROM content WHERE place IN (SELECT place FROM message WHERE queue_id = ?)", mine
    )
    store.execute("DELETE FROM message WHERE queue_id = ?", mine)
    store.execute("UPDATE depth SET messages = 0 WHERE queue_id = ?", mine)


def depth(store: Store, queue_id: int) -> int:
    """Return CURDEPTH: with what is put and not committed, without what is got and not committed.

    Expired messages count until someone would have got them (IBM MQ docs, "CurrentQDepth").
    """
    return int(store.one("SELECT messages FROM depth WHERE queue_id = ?", (queue_id,)))


def has_uncommitted(store: Store, queue_id: int) -> bool:
    """Whether messages on the queue are part of a unit of work, or locked."""
    query = "SELECT 1 FROM message WHERE queue_id = ? AND state > 0"
    return store.one(query, (queue_id,)) is not None


def open_counts(store: Store, queue_id: int) -> tuple[int, int]:
    """Return how many handles are open for input and for output."""
    row = store.execute(
        "SELECT coalesce(sum(input), 0), coalesce(sum(output), 0) FROM open_handle"
        " WHERE queue_id = ?",
        (queue_id,),
    ).fetchone()
    return int(row[0]), int(row[1])
