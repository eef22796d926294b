"""Fire when a queue manager answers again, or when the time is up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from mqdlq.airflow.hooks.ibmmq import forget_settings, shared_settings
from mqdlq.airflow.operators.base import utc_now
from mqdlq.airflow.triggers.threads import has_answered, shared_threads
from mqdlq.constants import TRANSIENT
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import ConnectionSettings, QueueManager
from mqdlq.mqi.inquiries import shared_inquiry_pool
from mqdlq.stages.sense.start_run import select_queue_manager
from mqdlq.stages.sense.waiting import WaitForQueueManager

LONGEST_BACK_OFF_S: Final = 300.0

log = logging.getLogger(__name__)


async def settings_for(
    conn_id: str, queue_manager: str, known: ConnectionSettings | None = None
) -> ConnectionSettings:
    """Return what the connection says now, or said within a minute, for a queue manager or its own.

    If it cannot be read, return what was `known` before; raise the error if nothing was.
    """
    read = shared_threads().submit(partial(shared_settings, conn_id, utc_now()))
    try:
        return select_queue_manager(await asyncio.wrap_future(read), queue_manager)
    except Exception as error:  # kept waiting for hours, not ended by a secrets backend
        if known is None:
            raise
        log.warning(
            "%s; looking again with connection %s as it was before [MQDLQ-808]",
            getattr(error, "text", error),
            conn_id,
        )
        return known


def back_off(error: QueueManagerError, failures: int, poll_s: float, conn_id: str) -> float:
    """Log that a look has failed and return the seconds to the next; raise a lasting error.

    After a lasting error, such as a wrong password, the next wait reads the connection at once.
    """
    if error.reason not in TRANSIENT:
        forget_settings(conn_id)
        raise error
    pause = min(poll_s * 2.0**failures, LONGEST_BACK_OFF_S)
    log.warning("%s; looking again in %.0f s [MQDLQ-807]", error.text, pause)
    return pause


class WaitTrigger(BaseTrigger):
    """A trigger whose one record says what is waited for.

    :param wait: the fields of the record; the password of its connection is read where this runs
    :param poll_s: seconds between two looks
    """

    kind: ClassVar[type[Any]]
    """The record's class."""

    def __init__(self, *, wait: dict[str, Any], poll_s: float) -> None:
        super().__init__()
        self.wait = self.kind(**wait)
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments that make this trigger again."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {"wait": asdict(self.wait), "poll_s": self.poll_s}


class AnswerTrigger(WaitTrigger):
    """Fire once: when the queue manager answers a connection, or at the moment `until`.

    It only inquires, so any number of copies may run. It looks ever more seldom, and says so; an
    error that does not pass by itself ends the wait with that error.
    The event's payload is ``{"until": moment, "waited": state}``, as they were given: whether the
    queue manager answers is for the task to see.
    """

    kind = WaitForQueueManager
    wait: WaitForQueueManager

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is an answer; never at once: a task resumed so soon counts as failed."""
        wait, until = self.wait, self.wait.until
        pause, failures, settings = self.poll_s, 0, None
        while True:
            await asyncio.sleep(pause)
            # Read each time: the queue manager may be at another address now.
            settings = await settings_for(wait.conn_id, wait.queue_manager, settings)
            asked = asyncio.wrap_future(shared_inquiry_pool().ask(settings, _name_of))
            who = f"queue manager {settings.queue_manager}"
            while not await has_answered(asked, who, log, until=until):
                if utc_now() >= until:
                    break
            if not asked.done():
                asked.cancel()
                break
            try:
                name = asked.result()
            except QueueManagerError as error:
                failures += 1
                pause = back_off(error, failures, self.poll_s, wait.conn_id)
            else:
                log.info("queue manager %s answers again", name)
                break
            left = (until - utc_now()).total_seconds()
            if left <= 0:
                break
            pause = min(pause, left)
        yield TriggerEvent({"until": until.isoformat(), "waited": wait.waited})


def _name_of(queue_manager: QueueManager) -> str:
    # Asked for, not remembered: a connection that was kept may be broken.
    return str(queue_manager.inquire(queue_manager.client.CMQC.MQCA_Q_MGR_NAME))
