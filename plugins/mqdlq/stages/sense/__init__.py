"""The first stage: find out by MQINQ whether there is work, and begin the run or wait."""

from __future__ import annotations

from mqdlq.stages.sense.beginning import (
    ASKED_FOR,
    Seen,
    Watch,
    Window,
    account_of,
    begin_run,
    connection_for,
    depth,
    find_queue,
    has_open_units,
    is_unfinished,
    look_for_the_next,
    next_run,
    patience,
    place_of,
    prepare_run,
    queue_manager_of,
    snapshots_of,
    watch_for,
)

__all__ = [
    "ASKED_FOR",
    "Seen",
    "Watch",
    "Window",
    "account_of",
    "begin_run",
    "connection_for",
    "depth",
    "find_queue",
    "has_open_units",
    "is_unfinished",
    "look_for_the_next",
    "next_run",
    "patience",
    "place_of",
    "prepare_run",
    "queue_manager_of",
    "snapshots_of",
    "watch_for",
]
