"""Definitions of queues made, changed and removed, while writing."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from embedded_mq.engine.objects import authority
from embedded_mq.engine.objects.attributes import Value
from embedded_mq.storage.board import DEPTH, GOT, PUT
from embedded_mq.storage.catalogue import DEFINITION_TYPE, Definition
from embedded_mq.storage.store import Store


def add(store: Store, name: str, queue_type: int, attributes: Mapping[str, Value]) -> int:
    """Define a queue; returns its id."""
    row = store.execute(
        "INSERT INTO queue(name, type, attributes) VALUES(?, ?, ?)",
        (name, queue_type, json.dumps(attributes)),
    )
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
    """Remove a queue with its messages; handles that are open to it find it deleted.

    The authority records of a dynamic queue, which it got when it was made, go with it.
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
    """Empty a queue."""
    store.execute("DELETE FROM message WHERE queue_id = ?", (queue_id,))
    store.announce(DEPTH, 0, 0, 0, queue_id, 0)


def count_anew(store: Store, gone: Collection[int] = ()) -> None:
    """Say how deep each queue is, from what is on it and what connections not gone hold."""
    depths = dict(store.execute("SELECT queue_id, count(*) FROM message GROUP BY queue_id"))
    for held in store.board.all_held():
        if held.owner not in gone and held.kind in {PUT, GOT}:
            change = 1 if held.kind == PUT else -1
            depths[held.queue_id] = depths.get(held.queue_id, 0) + change
    for queue_id in store.catalogue().by_id:
        store.announce(DEPTH, 0, 0, 0, queue_id, depths.get(queue_id, 0))


def has_uncommitted(store: Store, queue_id: int) -> bool:
    """Whether messages on the queue are part of a unit of work, or locked, while writing."""
    return any(held.queue_id == queue_id for held in store.board.all_held())


def handles(store: Store, queue_id: int) -> int:
    """Return how many handles are open to a queue, with whatever options."""
    return int(store.one("SELECT count(*) FROM open_handle WHERE queue_id = ?", (queue_id,)))


def uncommitted(store: Store, queue_id: int) -> int:
    """Return how many messages units of work have put on the queue or got from it."""
    with store.turn:
        return sum(
            held.queue_id == queue_id and held.kind in {PUT, GOT} for held in store.board.all_held()
        )


def open_counts(store: Store, queue_id: int) -> tuple[int, int]:
    """Return how many handles are open for input and for output."""
    row = store.execute(
        "SELECT coalesce(sum(input), 0), coalesce(sum(output), 0) FROM open_handle"
        " WHERE queue_id = ?",
        (queue_id,),
    ).fetchone()
    return int(row[0]), int(row[1])
