"""The waits of a task: until a moment, for a queue manager, or for a depth that is news.

All triggers of a process share a few threads for what blocks. A queue manager that hangs, or a
client that reconnects by itself, may keep a call for half an hour: no trigger waits for another's.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, ClassVar, Final, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from mqdlq.airflow.hooks.connections import shared_ledger
from mqdlq.airflow.hooks.ibmmq import forget_settings, shared_settings
from mqdlq.airflow.operators.base import utc_now
from mqdlq.constants import TRANSIENT
from mqdlq.errors import MqDlqError, QueueManagerError
from mqdlq.mqi.connect import ConnectionSettings, QueueManager
from mqdlq.mqi.evidence import shared_event_watches
from mqdlq.mqi.inquiries import shared_inquiry_pool
from mqdlq.stages.sense import (
    RulesWatch,
    WaitForMessages,
    WaitForQueueManager,
    select_queue_manager,
)

SILENT_S: Final = 60.0
"""The time after which the log reports, and repeats, that there is no answer."""
LAST_S: Final = 10.0
"""How long the last look, at the end of a wait, may take."""
MOST_THREADS: Final = 4
SHORTEST_S: Final = 1.0
"""The time between two looks, however many events come."""
LONGEST_BACK_OFF_S: Final = 300.0
RULES_CHANGED: Final = "rules_changed"
"""Why a run is woken whose rules are no longer those it has read."""

LOOKS_PER_S: Final = 100
"""How many looks at queues all triggers of a process make in a second, at most: together they take
a seventh of a core."""

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


def serialized(trigger: BaseTrigger, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return f"{type(trigger).__module__}.{type(trigger).__qualname__}", arguments


async def answer_of(asked: Future[Answer], who: str, log: logging.Logger) -> Answer:
    """Wait for an answer without a limit; log repeatedly that it is missing."""
    waited = asyncio.wrap_future(asked)
    try:
        while not await has_answered(waited, who, log):
            pass
        return waited.result()
    finally:
        waited.cancel()


async def has_answered(
    asked: asyncio.Future[Answer], who: str, log: logging.Logger, *, until: datetime | None = None
) -> bool:
    """Wait a while for an answer, near `until` for a shorter time; log if it is missing.

    The call continues: the caller waits again, or cancels it.
    """
    left = (until - utc_now()).total_seconds() if until else SILENT_S
    seconds = min(SILENT_S, max(left, LAST_S))
    done, _ = await asyncio.wait([asked], timeout=seconds)
    if not done:
        log.warning(
            "%s has not answered for %.0f s; the trigger waits for the answer [MQDLQ-802]",
            who,
            seconds,
        )
    return bool(done)


STOP_LOOK_S: Final = 10.0
"""How often a task that waits for its next pass looks whether its run is to stop."""


class FewThreads:
    """Runs calls that block in a few threads; thousands of calls may wait.

    For files, the ledger, and Airflow's own API. A call to a queue manager does not belong here:
    one that never answers would keep a thread, and with it the triggers of all others. Unlike
    those of `asyncio.to_thread`, the threads do not keep the process from ending.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: SimpleQueue[tuple[Context, Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._open = 0
        self._threads = 0

    def submit(self, call: Callable[[], Answer]) -> Future[Answer]:
        answer: Future[Answer] = Future()
        # By its context Airflow knows to whose log a line belongs.
        self._calls.put((copy_context(), call, answer))
        with self._lock:
            self._open += 1
            if self._threads < min(self._open, MOST_THREADS):
                Thread(target=self._serve, daemon=True).start()
                self._threads += 1
        return answer

    def _serve(self) -> None:
        while True:
            context, call, answer = self._calls.get()
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(context.run(call))
                except Exception as error:  # noqa: BLE001 (it is for the caller)
                    answer.set_exception(error)
            del context, call, answer  # kept until the next call comes otherwise
            with self._lock:
                self._open -= 1


@cache
def shared_threads() -> FewThreads:
    return FewThreads()


class Pace:
    """Says how often the triggers of a process look: each second if they are few.

    A look costs a queue manager and the triggerer little, and a thousand of them each second cost
    too much. Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._waiting = 0

    @contextmanager
    def joined(self) -> Iterator[None]:
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def pause(self, longest: float) -> float:
        """Return the seconds between two looks of a trigger, `longest` at most."""
        return min(longest, max(SHORTEST_S, self._waiting / LOOKS_PER_S))


@cache
def shared_pace() -> Pace:
    return Pace()


class WakeUps:
    """Pauses of a trigger that end early at a depth event.

    An event only ends a pause: the trigger then inquires the depth as usual. Without events, the
    trigger looks after each pause. The handle of this class belongs to one event loop.
    """

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._source: tuple[ConnectionSettings, str, str] | None = None
        self._stop: Callable[[], None] | None = None

    def listen(self, settings: ConnectionSettings, event_queue: str, queue: str) -> None:
        """Listen to events of a queue, and to no others; without `event_queue`, to none."""
        source = (settings, event_queue, queue) if event_queue else None
        if source == self._source:
            return
        self.close()
        self._source = source
        if source is not None:
            loop = asyncio.get_running_loop()

            def wake() -> None:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(self._woken.set)

            self._stop = shared_event_watches().listen(settings, event_queue, queue, wake)

    async def sleep(self, seconds: float) -> None:
        """Sleep for this time, or after an event for `SHORTEST_S` at least."""
        first = min(seconds, SHORTEST_S)
        await asyncio.sleep(first)
        if seconds > first:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), seconds - first)
        self._woken.clear()

    def close(self) -> None:
        self._source = None
        if self._stop is not None:
            self._stop()
            self._stop = None


class RetryTrigger(BaseTrigger):
    """Fire once, at a moment or when the run is to stop, with the task's state as the payload.

    Only reads the ledger, so any number of copies may run. Without an answer of the ledger it fires
    at the moment. The state travels here because
    ``airflow dags test`` drops the arguments a task defers with, and keeps the trigger's.

    :param moment: when to fire, aware
    :param state: what the task needs to continue, as plain JSON values
    :param run_id: the run in the ledger
    :param watch: `destinations` that refuse the messages at the queue manager of a connection; at
        the moment, and each `pause_s` after it, they are asked about, and it fires when one takes
        messages again, or `until` is over. A queue manager that does not answer refuses.
    """

    def __init__(
        self,
        moment: datetime,
        state: dict[str, Any],
        run_id: str = "",
        watch: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.moment, self.state, self.run_id, self.watch = moment, state, run_id, watch

    def serialize(self) -> tuple[str, dict[str, Any]]:
        given = {"moment": self.moment, "state": self.state, "run_id": self.run_id}
        return serialized(self, **given, watch=self.watch)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        moment = self.moment
        while await self._waits_until(moment) and self.watch and await self._are_refused():
            moment = utc_now() + timedelta(seconds=self.watch["pause_s"])
            if moment >= datetime.fromisoformat(self.watch["until"]):
                break
        yield TriggerEvent(self.state)

    async def _waits_until(self, moment: datetime) -> bool:
        """Wait; return False if the run is to stop."""
        while (left := (moment - utc_now()).total_seconds()) > 0:
            await asyncio.sleep(min(left, STOP_LOOK_S))
            asked = shared_threads().submit(partial(_is_to_stop, self.run_id))
            with suppress(TimeoutError):  # the pass at the moment asks the ledger, too
                if await asyncio.wait_for(asyncio.wrap_future(asked), STOP_LOOK_S):
                    return False
        return True

    async def _are_refused(self) -> bool:
        from mqdlq.controls.fixed.control import would_refuse  # noqa: PLC0415 (imports Arrow)

        watch = self.watch or {}
        try:
            settings = await settings_for(watch["conn_id"], watch["queue_manager"])
            where = [(name, place) for name, place in watch["destinations"]]
            question = partial(would_refuse, destinations=where, user=settings.user, clock=utc_now)
            asked = shared_inquiry_pool().ask(settings, question)
            return await asyncio.wait_for(asyncio.wrap_future(asked), SILENT_S)
        except TimeoutError:
            why = f"queue manager {watch['queue_manager']} has not answered for {SILENT_S:.0f} s"
        except MqDlqError as error:
            why = error.text
        log.warning("it is not known whether destinations take messages: %s", why)
        return True


def _is_to_stop(run_id: str) -> bool:
    """Return whether a run is to stop; False if the ledger does not say."""
    try:
        return shared_ledger().audit.stop_of(run_id) is not None
    except MqDlqError as error:
        log.info("the ledger does not say whether run %s is to stop: %s", run_id, error)
        return False


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

    def __init__(self, *, wait: dict[str, Any], poll_s: float) -> None:
        super().__init__()
        self.wait, self.poll_s = self.kind(**wait), poll_s

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
    the trigger logs that and looks again after longer and longer pauses. If it does not answer, the
    trigger logs that, and no other trigger waits for it. Any other error ends the wait. The event's
    payload is ``{"depth": number, "why": words, "until": time}``: no words mean that the time is
    up, the code RULES_CHANGED that the rules have changed; the time is `until` as it was given.
    Many triggers do not look at once: the first look comes at some moment after `poll_s`.

    :param wait: the fields of the record of what is waited for
    :param poll_s: seconds to the first look, and between two later ones at most: see `Pace`
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
        wait, who = self.wait, f"queue manager {self.wait.queue_manager}"
        rules = RulesWatch(wait.handler, wait.rules, wait.rules_digest, self.directory)
        settings = await settings_for(wait.conn_id, wait.queue_manager)
        depth, why, failures = 0, "", 0
        # However soon something is due: a task that is resumed at once is taken for failed.
        pause = self.poll_s * random.uniform(1, 1.5)  # noqa: S311 (only spreads the looks)
        wake_ups = WakeUps()
        wake_ups.listen(settings, wait.event_queue, wait.queue)
        with closing(wake_ups), shared_pace().joined():
            await asyncio.sleep(pause)
            asked = self._ask(settings)
            try:
                while True:
                    try:
                        if await has_answered(asked, who, log, until=wait.until):
                            depth = asked.result()
                            if failures:
                                log.info("%s answers again", who)
                            pause, failures = shared_pace().pause(self.poll_s), 0
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

    def _ask(self, settings: ConnectionSettings) -> asyncio.Future[int]:
        return asyncio.wrap_future(shared_inquiry_pool().depth(settings, self.wait.queue))

    async def _settings_after(self, failures: int, known: ConnectionSettings) -> ConnectionSettings:
        if not failures:
            return known
        # The queue manager may be at another address now.
        return await settings_for(self.wait.conn_id, self.wait.queue_manager, known)

    def _is_up(self) -> bool:
        return self.wait.until is not None and utc_now() >= self.wait.until

    def _at_most(self, pause: float) -> float:
        now = utc_now()
        both = (self.wait.due_at, self.wait.until)
        moments = [moment for moment in both if moment and moment > now]
        return min([pause, *((moment - now).total_seconds() for moment in moments)])
