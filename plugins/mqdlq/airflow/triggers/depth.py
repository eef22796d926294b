"""A queue in, an event out when its depth is news, when something is due, or when time is up."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from mqdlq.airflow.operators.base import utc_now
from mqdlq.airflow.triggers.answer import back_off, settings_for
from mqdlq.airflow.triggers.silence import has_answered
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.mqi.inquiries import shared_inquiries
from mqdlq.stages.sense import Watch
from mqdlq.stages.sense.rules_watch import RulesWatch

RULES_CHANGED: Final = "the rules have changed"
"""Why a run is woken whose rules are no longer those it has read."""

log = logging.getLogger(__name__)


class DepthTrigger(BaseTrigger):
    """Fire once: at a depth that is news, at other rules, when something is due, or at `until`.

    The trigger only ever inquires: it opens the queue for inquiry, never for browse or input. Two
    copies of it may run at once, or one may be started anew; neither can take, lose or repeat a
    message, and an event too many only means one more look at the queue. While the queue manager
    cannot be reached it looks ever more seldom, says so, and goes on; where it does not answer at
    all, that is told, too, and nobody else waits for it; any other error ends the wait with that
    error. The event's payload is ``{"depth": number, "why": words, "until": time}``:
    no words mean that the time is up, RULES_CHANGED that the run waits with rules of yesterday, and
    the time is `until` as it was given.

    :param conn_id: id of the Airflow connection; the password is read from it where this runs
    :param queue_manager: name of the queue manager, which a run may choose
    :param queue: name of the queue
    :param known: how many messages there are settled, and so no news
    :param handler: name of the handler whose rules are watched, too
    :param rules: the table beside the handler's own that was named for the run, or None
    :param rules_digest: the digest of the rules that the run has read
    :param due_at: when to fire for them all the same, aware; None for never
    :param due_why: what is due then, in words
    :param until: when to give up, aware; None waits on
    :param poll_s: seconds between two looks; the first comes at some moment of that time, so that
        many triggers do not look at once
    """

    def __init__(
        self,
        *,
        conn_id: str,
        queue_manager: str,
        queue: str,
        known: int,
        handler: str,
        rules: str | None,
        rules_digest: str,
        due_at: datetime | None,
        due_why: str,
        until: datetime | None,
        poll_s: float,
    ) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.queue_manager = queue_manager
        self.queue = queue
        self.known = known
        self.handler = handler
        self.rules = rules
        self.rules_digest = rules_digest
        self.due_at = due_at
        self.due_why = due_why
        self.until = until
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments that make this trigger again."""
        names = ("conn_id", "queue_manager", "queue", "known", "due_at", "due_why", "until")
        rules = ("handler", "rules", "rules_digest")
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in (*names, *rules, "poll_s")}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look every `poll_s` seconds."""
        watch = Watch(self.known, self.due_at, self.due_why)
        rules = RulesWatch(self.handler, self.rules, self.rules_digest)
        settings = await settings_for(self.conn_id, self.queue_manager)
        depth, why, failures = 0, "", 0
        # However soon something is due: a task that is resumed at once is taken for failed.
        pause = self.poll_s * random.uniform(1, 1.5)  # noqa: S311 (only spreads the looks)
        await asyncio.sleep(pause)
        asked = self._ask(settings)
        try:
            while True:
                try:
                    if await has_answered(asked, self._who(), log, until=self.until):
                        depth = asked.result()
                        if failures:
                            log.info("%s answers again", self._who())
                        pause, failures = self.poll_s, 0
                        why = watch.news(depth, utc_now())
                except QueueManagerError as error:
                    failures += 1
                    pause = back_off(error, failures, self.poll_s, self.conn_id)
                if await asyncio.to_thread(rules.have_changed):
                    why = RULES_CHANGED
                if why or self._is_up():
                    break
                if asked.done():
                    await asyncio.sleep(self._at_most(pause))
                    settings = await self._settings_after(failures, settings)
                    asked = self._ask(settings)
        finally:
            asked.cancel()
        until = self.until.isoformat() if self.until else None
        yield TriggerEvent({"depth": depth, "why": why, "until": until})

    async def _settings_after(self, failures: int, known: ConnectionSettings) -> ConnectionSettings:
        if not failures:
            return known
        # The queue manager may be at another address now.
        return await settings_for(self.conn_id, self.queue_manager, known)

    def _ask(self, settings: ConnectionSettings) -> asyncio.Future[int]:
        return asyncio.wrap_future(shared_inquiries().depth(settings, self.queue))

    def _who(self) -> str:
        return f"queue manager {self.queue_manager}"

    def _is_up(self) -> bool:
        return self.until is not None and utc_now() >= self.until

    def _at_most(self, pause: float) -> float:
        """Return a pause that does not pass the moments to keep."""
        now = utc_now()
        moments = [moment for moment in (self.due_at, self.until) if moment and moment > now]
        return min([pause, *((moment - now).total_seconds() for moment in moments)])
