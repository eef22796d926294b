"""A handler in, an event out whenever its queue has something that no run of it is about yet."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from mqdlq.airflow.hooks.connections import shared_ledger
from mqdlq.airflow.hooks.ibmmq import forget_settings, shared_settings
from mqdlq.airflow.operators.base import utc_now
from mqdlq.airflow.triggers.waiting import (
    LONGEST_BACK_OFF_S,
    WakeUps,
    answer_of,
    serialized,
    shared_pace,
    shared_threads,
)
from mqdlq.handlers import Handler, load_handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Run
from mqdlq.mqi.connect import ConnectionSettings, QueueManager
from mqdlq.mqi.inquiries import shared_inquiry_pool
from mqdlq.stages.sense import (
    FileStamps,
    QueueState,
    build_scheduled_run,
    find_queue,
    find_rule_files,
    find_scheduled_queue,
    find_work_for_next_run,
    should_report,
    stamp_files,
)

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


class ArrivalTrigger(BaseEventTrigger):
    """Fire when a handler's next run would have work, while its DAG is not paused.

    It starts the runs of a handler with `schedule: event`, as the watcher of an asset. It inquires
    only: it opens the queue neither for browse nor for input, and reads the ledger. With the
    handler's key `evidence: depth_events` the event queue is browsed, and a depth event ends a
    pause early. Settled messages are not an event. After an event the trigger fires again when a
    run has reported on the queue, when more messages arrive, or after ten minutes without a run. It
    reads the handler's files again when they change.

    An extra event, for example of two triggerers, starts a run that finds no work and is skipped; a
    lost event is repeated. Errors do not end the trigger: the triggerer's log reports them, and the
    pauses between two looks become longer while they last.

    :param handler: name of the handler
    :param directory: directory of its file, None for MQDLQ_RULES_DIR
    :param poll_s: seconds between two looks at most, see `Pace`; until so many seconds after a
        look the next ones read files and the ledger only if the depth is another
    """

    def __init__(
        self, *, handler: str, poll_s: float = 10, directory: str | Path | None = None
    ) -> None:
        super().__init__()
        self.handler = handler
        self.directory = None if directory is None else str(directory)
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return serialized(self, handler=self.handler, poll_s=self.poll_s, directory=self.directory)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        with closing(WakeUps()) as wake_ups, shared_pace().joined():
            async for event in self._watch(wake_ups):
                yield event

    async def _watch(self, wake_ups: WakeUps) -> AsyncIterator[TriggerEvent]:
        lookout, told, failures = Lookout(self.handler, self.directory, self.poll_s), None, 0
        pause = shared_pace().pause(self.poll_s)
        await asyncio.sleep(pause * random.random())  # noqa: S311 (only spreads the looks)
        while True:
            try:
                seen = await lookout.look(utc_now())
            except Exception as error:  # noqa: BLE001 (Airflow would restart a failed trigger at once)
                failures += 1
                pause = min(self.poll_s * 2.0**failures, LONGEST_BACK_OFF_S)
                log.warning(
                    "handler %s: %s; looking again in %.0f s [MQDLQ-803]",
                    self.handler,
                    getattr(error, "text", error),
                    pause,
                )
            else:
                if failures:
                    log.info("handler %s can be looked at again", self.handler)
                lookout.listen(wake_ups)
                pause, failures = shared_pace().pause(self.poll_s), 0
                now = utc_now()
                if should_report(seen, told, now):
                    told = seen, now
                    yield TriggerEvent({"depth": seen.depth, "why": seen.why})
                elif told is not None and seen.depth < told[0].depth:
                    told = replace(told[0], depth=seen.depth), told[1]
            await wake_ups.sleep(pause)


Prepared = tuple[Handler, Run, ConnectionSettings, Ledger]


class Lookout:
    """Looks for a handler's next run; keeps what it has read until a file changes or a look fails.

    Files and the ledger are read in the few threads that all triggers share, and the queue manager
    is asked over the few connections they share, so that one which never answers keeps only its
    own handlers waiting.
    """

    def __init__(self, handler: str, directory: str | None = None, relies_for_s: float = 0) -> None:
        self._name = handler
        self._relies_for = timedelta(seconds=relies_for_s)
        self._seen: tuple[QueueState, datetime] | None = None
        self._directory = Path(directory) if directory else None
        self._stamp: FileStamps = ()
        self._kept: Prepared | None = None

    async def look(self, now: datetime) -> QueueState:
        """Look at the queue; for a while after a look, at its depth only, unless that has changed.

        Messages that are settled would else be looked up in the ledger each second.
        """
        kept = self._kept
        try:
            if kept is None:
                kept = self._kept = await self._prepare(now)
            elif self._seen is not None and now < self._seen[1] + self._relies_for:
                if await self._depth(kept) == self._seen[0].depth:
                    return self._seen[0]
            elif await self._read(partial(self._has_changed, kept[0])):
                kept = self._kept = await self._prepare(now)
            handler, run, _, ledger = kept
            found = await find_work_for_next_run(
                run,
                handler,
                partial(self._depth, kept),
                partial(self._read, partial(ledger.accounts.last, run.queue_manager, run.queue)),
                now,
            )
        except BaseException:
            self._kept = None  # password, queue or ledger may be another by the next look
            if kept is not None:
                forget_settings(kept[0].connection)
            raise
        self._seen = found, now
        return found

    async def _depth(self, kept: Prepared) -> int:
        _, run, settings, _ = kept
        return await self._ask(settings, lambda asked: asked.depth(run.queue))

    def listen(self, wake_ups: WakeUps) -> None:
        if self._kept is not None:
            handler, run, settings, _ = self._kept
            wake_ups.listen(settings, handler.evidence.depth_events or "", run.queue)

    async def _prepare(self, now: datetime) -> Prepared:
        handler, settings, named, ledger = await self._read(partial(self._read_handler, now))
        queue = await self._ask(settings, partial(find_queue, named=named))
        run = await self._read(partial(build_scheduled_run, handler, settings, queue, now))
        return handler, run, settings, ledger

    def _has_changed(self, handler: Handler) -> bool:
        return stamp_files(find_rule_files(handler)) != self._stamp

    def _read_handler(self, now: datetime) -> tuple[Handler, ConnectionSettings, str, Ledger]:
        handler = load_handler(self._name, self._directory)
        # Before the reading: a change is seen next time.
        self._stamp = stamp_files(find_rule_files(handler))
        settings, named = find_scheduled_queue(handler, shared_settings(handler.connection, now))
        return handler, settings, named, shared_ledger()

    async def _read(self, call: Callable[[], Answer]) -> Answer:
        who = f"handler {self._name}: its files or the ledger"
        return await answer_of(shared_threads().submit(call), who, log)

    async def _ask(
        self, settings: ConnectionSettings, question: Callable[[QueueManager], Answer]
    ) -> Answer:
        asked = shared_inquiry_pool().ask(settings, question)
        return await answer_of(asked, f"handler {self._name}: its queue", log)
