"""A queue in, an event out when it holds a message or the wait is over."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from mqdlq.airflow.hook import MqHook
from mqdlq.airflow.stage import utc_now
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.sense import connection_for


class DepthTrigger(BaseTrigger):
    """Fire once when the queue's CURDEPTH is above zero, or at the moment `until`.

    The trigger only ever inquires: it opens the queue for inquiry, never for browse or input. Two
    copies of it may run at once, or one may be started anew; neither can take, lose or repeat a
    message, and an event too many only means one more look at the queue. A look that fails ends
    the wait with that error. The event's payload is ``{"depth": number}``.

    :param conn_id: id of the Airflow connection; the password is read from it where this runs
    :param queue_manager: name of the queue manager, which a run may choose
    :param queue: name of the queue
    :param until: when to give up, aware; None waits on
    :param poll_s: seconds between two looks, and before the first: the caller has just looked
    """

    def __init__(
        self,
        conn_id: str,
        queue_manager: str,
        queue: str,
        until: datetime | None,
        poll_s: float,
    ) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.queue_manager = queue_manager
        self.queue = queue
        self.until = until
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments that make this trigger again."""
        names = ("conn_id", "queue_manager", "queue", "until", "poll_s")
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look every `poll_s` seconds."""
        settings = connection_for(await MqHook(self.conn_id).async_settings(), self.queue_manager)
        depth = 0
        while not depth and (left := self._left()) > 0:
            await asyncio.sleep(min(self.poll_s, left))
            depth = await asyncio.to_thread(_depth, settings, self.queue)
        yield TriggerEvent({"depth": depth})

    def _left(self) -> float:
        return (self.until - utc_now()).total_seconds() if self.until else math.inf


def _depth(settings: ConnectionSettings, queue: str) -> int:
    # MQ handles belong to the thread that made them: connect, inquire and close stay together.
    with connect(settings) as queue_manager:
        return queue_manager.depth(queue)
