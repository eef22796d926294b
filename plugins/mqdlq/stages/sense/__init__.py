"""The first stage: find out by MQINQ whether there is work, and begin the run or wait."""

from __future__ import annotations

from mqdlq.stages.sense.beginning import (
    begin_run,
    connection_for,
    depth,
    find_queue,
    next_run,
    place_of,
    prepare_run,
)
from mqdlq.stages.sense.looking import Sensing, look
from mqdlq.stages.sense.news import (
    TELL_AGAIN,
    Seen,
    Told,
    Watch,
    account_of,
    has_open_units,
    is_news,
    is_unfinished,
    look_for_the_next,
    watch_for,
)
from mqdlq.stages.sense.waiting import (
    BREATH,
    Fail,
    Pause,
    Proceed,
    Skip,
    Step,
    Waited,
    WaitForMessages,
    WaitForQueueManager,
    before_failing,
)
from mqdlq.stages.sense.window import Window, snapshots_of

__all__ = [
    "BREATH",
    "TELL_AGAIN",
    "Fail",
    "Pause",
    "Proceed",
    "Seen",
    "Sensing",
    "Skip",
    "Step",
    "Told",
    "WaitForMessages",
    "WaitForQueueManager",
    "Waited",
    "Watch",
    "Window",
    "account_of",
    "before_failing",
    "begin_run",
    "connection_for",
    "depth",
    "find_queue",
    "has_open_units",
    "is_news",
    "is_unfinished",
    "look",
    "look_for_the_next",
    "next_run",
    "place_of",
    "prepare_run",
    "snapshots_of",
    "watch_for",
]
