"""A call that may never return in, its answer out, and meanwhile words that there is none.

A queue manager that hangs, or a client that reconnects by itself, may keep a call for half an hour.
Triggers share the threads of `asyncio.to_thread`, a handful: used up by such calls, they would be
missing to the triggers of all other queue managers, and the triggerer waits for them at its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from datetime import datetime
from threading import Thread
from typing import Final, TypeVar

from mqdlq.airflow.stage import utc_now

SILENT_S: Final = 60.0
"""After how long it is told, and told again, that there is no answer."""

LAST_S: Final = 10.0
"""How long the last look may take, that at the end of a wait."""

Answer = TypeVar("Answer")


def in_a_thread_of_its_own(call: Callable[[], Answer]) -> asyncio.Future[Answer]:
    """Call it in a thread that keeps nobody else waiting, nor the process from ending."""
    answer: Future[Answer] = Future()
    context = copy_context()  # by which Airflow knows whose log a line belongs to

    def give() -> None:
        try:
            answer.set_result(context.run(call))
        except Exception as error:  # noqa: BLE001 (it is for whoever has asked)
            answer.set_exception(error)

    answer.set_running_or_notify_cancel()
    Thread(target=give, daemon=True).start()
    return asyncio.wrap_future(answer)


async def has_answered(
    asked: asyncio.Future[Answer], who: str, log: logging.Logger, *, until: datetime | None = None
) -> bool:
    """Wait a while for an answer, at `until` not so long any more; say so if there is none yet.

    What was asked stays asked: the caller waits on, or cancels it.
    """
    left = (until - utc_now()).total_seconds() if until else SILENT_S
    seconds = min(SILENT_S, max(left, LAST_S))
    done, _ = await asyncio.wait([asked], timeout=seconds)
    if not done:
        log.warning("%s has not answered for %.0f s; waiting on", who, seconds)
    return bool(done)
