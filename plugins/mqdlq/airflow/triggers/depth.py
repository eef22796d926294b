"""A queue in, an event out when its depth is news, when something is due, or when time is up."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from airflow.triggers.base import TriggerEvent

from mqdlq.airflow.operators.base import utc_now
from mqdlq.airflow.triggers.queue_manager_availability import WaitTrigger, back_off, settings_for
from mqdlq.airflow.triggers.threads import has_answered
from mqdlq.airflow.triggers.wake_ups import WakeUps
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.mqi.inquiries import shared_inquiry_pool
from mqdlq.stages.sense.waiting import WaitForMessages
from mqdlq.stages.sense.work_detection import RulesWatch, Watch

RULES_CHANGED: Final = "rules_changed"
"""Why a run is woken whose rules are no longer those it has read."""

log = logging.getLogger(__name__)


class DepthTrigger(WaitTrigger):
    """Fire once: at a depth that is news, at other rules, when something is due, or at `until`.

    The trigger inquires only: it opens the queue for inquiry, never for browse or input. If the
    wait names an event queue, that queue is browsed, and a depth event ends a pause early. Two
    copies of it may run at once, or it may be restarted; neither can get, lose or repeat a message,
    and an extra event means one more look at the queue. While the queue manager cannot be reached,
    the trigger logs that and looks again after longer and longer pauses. If the queue manager does
    not answer, the trigger logs that, and no other trigger waits for it. Any other error ends the
    wait with that error. The event's payload is ``{"depth": number, "why": words, "until": time}``:
    no words mean that the time is up, the code RULES_CHANGED that the rules have changed, and the
    time is `until` as it was given.

    The first look comes at some moment of the first `poll_s`, so that many triggers do not look at
    once.

    :param wait: the fields of the record of what is waited for
    :param poll_s: seconds between two looks
    :param directory: directory of the handler's file, None for MQDLQ_RULES_DIR
    """

    kind = WaitForMessages
    wait: WaitForMessages

    def __init__(
        self, *, wait: dict[str, Any], poll_s: float, directory: str | Path | None = None
    ) -> None:
        super().__init__(wait=wait, poll_s=poll_s)
        self.directory = None if directory is None else str(directory)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments that make this trigger again."""
        path, kwargs = super().serialize()
        return path, {**kwargs, "directory": self.directory}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look every `poll_s` seconds."""
        wait = self.wait
        watch = Watch(wait.known, wait.due_at, wait.due_why)
        rules = RulesWatch(wait.handler, wait.rules, wait.rules_digest, self.directory)
        settings = await settings_for(wait.conn_id, wait.queue_manager)
        depth, why, failures = 0, "", 0
        # However soon something is due: a task that is resumed at once is taken for failed.
        pause = self.poll_s * random.uniform(1, 1.5)  # noqa: S311 (only spreads the looks)
        wake_ups = WakeUps()
        wake_ups.listen(settings, wait.event_queue, wait.queue)
        with closing(wake_ups):
            await asyncio.sleep(pause)
            asked = self._ask(settings)
            try:
                while True:
                    try:
                        if await has_answered(asked, self._who(), log, until=wait.until):
                            depth = asked.result()
                            if failures:
                                log.info("%s answers again", self._who())
                            pause, failures = self.poll_s, 0
                            why = watch.find_work(depth, utc_now())
                    except QueueManagerError as error:
                        failures += 1
                        pause = back_off(error, failures, self.poll_s, wait.conn_id)
                    if await asyncio.to_thread(rules.have_changed):
                        why = RULES_CHANGED
                    if why or self._is_up():
                        break
                    if asked.done():
                        await wake_ups.sleep(self._at_most(pause))
                        settings = await self._settings_after(failures, settings)
                        asked = self._ask(settings)
            finally:
                asked.cancel()
        until = wait.until.isoformat() if wait.until else None
        yield TriggerEvent({"depth": depth, "why": why, "until": until})

    async def _settings_after(self, failures: int, known: ConnectionSettings) -> ConnectionSettings:
        if not failures:
            return known
        # The queue manager may be at another address now.
        return await settings_for(self.wait.conn_id, self.wait.queue_manager, known)

    def _ask(self, settings: ConnectionSettings) -> asyncio.Future[int]:
        return asyncio.wrap_future(shared_inquiry_pool().depth(settings, self.wait.queue))

    def _who(self) -> str:
        return f"queue manager {self.wait.queue_manager}"

    def _is_up(self) -> bool:
        return self.wait.until is not None and utc_now() >= self.wait.until

    def _at_most(self, pause: float) -> float:
        """Return a pause that does not pass the moments to keep."""
        now = utc_now()
        both = (self.wait.due_at, self.wait.until)
        moments = [moment for moment in both if moment and moment > now]
        return min([pause, *((moment - now).total_seconds() for moment in moments)])
