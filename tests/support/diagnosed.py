"""Diagnose in a world, and prove that nothing changes on its embedded queue manager."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import embedded_mq
from embedded_mq.engine.messages.getting import BROWSE
from embedded_mq.engine.objects.attributes import COMMAND_QUEUE
from embedded_mq.storage.call_log import LoggedCall
from mqdlq.diagnosis.diagnosing import diagnose
from mqdlq.diagnosis.obstacles import Subject
from mqdlq.diagnosis.records import Diagnosis
from tests.support.world import World


def look(world: World, subject: Subject) -> Diagnosis:
    with nothing_changes(), world.connect() as queue_manager:
        return diagnose(queue_manager, subject, world.clock)


def without_alteration(text: str) -> str:
    """Leave out when queues were altered, which the queue manager's clock says."""
    return re.sub(", altered [-0-9]+ [0-9:]+", "", text)


READING = frozenset(
    {"MQCONN", "MQCONNX", "MQDISC", "MQOPEN", "MQCLOSE", "MQINQ", "MQCRTMH", "MQDLTMH"}
)
"""What is done with a handle has a call of its own."""


@contextmanager
def nothing_changes() -> Iterator[None]:
    """Fail unless each call in a block only reads, by the embedded queue manager's log of calls.

    A PCF command that inquires is put to the command queue, and its replies are got from a dynamic
    queue: an inquiry needs that itself.
    """
    with embedded_mq.log_of_calls() as calls:
        yield
    changing = [f"{call.verb} {call.name}".rstrip() for call in calls if not _only_reads(call)]
    if changing:
        raise AssertionError(f"the block may change something: {', '.join(changing)}")


def _only_reads(call: LoggedCall) -> bool:
    if call.verb in READING or call.verb.startswith("MQCMD_INQUIRE_"):
        return True
    if call.verb in {"MQPUT", "MQPUT1"}:
        return call.name == COMMAND_QUEUE
    is_browse = bool(call.options & BROWSE)
    return call.verb == "MQGET" and (is_browse or call.name.startswith("MQDLQ."))
