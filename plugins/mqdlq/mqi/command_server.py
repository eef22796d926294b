"""Run PCF commands through the command server of a queue manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mqdlq.mqi.connect import QueueManager

REPLY_QUEUE: Final = "MQDLQ.*"
"""How the name of the dynamic reply queue begins, for commands that need no other name."""


def run_command(
    queue_manager: QueueManager,
    name: str,
    parameters: Mapping[int, Any],
    *,
    reply_queue: str = REPLY_QUEUE,
) -> list[dict[int, Any]]:
    """Run a PCF command such as MQCMD_INQUIRE_Q; return its responses by parameter.

    The reply queue is dynamic, from SYSTEM.DEFAULT.MODEL.QUEUE, and ends with the command. Raises
    QueueManagerError.
    """
    client = queue_manager.client
    with client.translating_errors(name, "the command server"):
        pcf = client.module.PCFExecute(
            queue_manager.handle, dynamic_queue_name=reply_queue.encode(), convert=True
        )
        try:
            responses: list[dict[int, Any]] = getattr(pcf, name)(dict(parameters))
            return responses
        finally:
            pcf.disconnect()
