"""The waits of a task: until a moment, for a queue manager, or for a depth that is news."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from mqdlq.airflow.hooks.ibmmq import forget_settings, shared_settings
from mqdlq.airflow.operators.base import utc_now
from mqdlq.airflow.triggers.pauses import WakeUps, has_answered, serialized, shared_threads
from mqdlq.constants import TRANSIENT
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import ConnectionSettings, QueueManager
from mqdlq.mqi.inquiries import shared_inquiry_pool
from mqdlq.stages.sense.inspect_queue import WaitForMessages, WaitForQueueManager
from mqdlq.stages.sense.start_run import select_queue_manager
from mqdlq.stages.sense.work_detection import RulesWatch


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
        return serialized(self, moment=self.moment, state=self.state)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(max(0.0, (self.moment - utc_now()).total_seconds()))
        yield TriggerEvent(self.state)


LONGEST_BACK_OFF_S: Final = 300.0

RULES_CHANGED: Final = "rules_changed"
"""Why a run is woken whose rules are no longer those it has read."""

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
        return serialized(self, wait=asdict(self.wait), poll_s=self.poll_s)


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
        wait = asdict(self.wait)
        return serialized(self, wait=wait, poll_s=self.poll_s, directory=self.directory)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        wait = self.wait
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
                            why = wait.find_work(depth, utc_now())
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
