"""A moment and a state in, the same state out when the moment has come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from mqdlq.airflow.operators.base import utc_now


class RetryTrigger(BaseTrigger):
    """Fire once at a moment, with the state of the waiting task as the event's payload.

    Touches nothing, so any number of copies may run. The state travels here because
    ``airflow dags test`` drops the arguments a task defers with, and keeps the trigger's.

    :param moment: when to fire, aware
    :param state: what the task needs to continue, as plain JSON values
    """

    def __init__(self, moment: datetime, state: dict[str, Any]) -> None:
        super().__init__()
        self.moment = moment
        self.state = state

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments that make this trigger again."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {"moment": self.moment, "state": self.state}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Sleep until the moment."""
        await asyncio.sleep(max(0.0, (self.moment - utc_now()).total_seconds()))
        yield TriggerEvent(self.state)
