"""Wait for the answer to a call that may never return, and report meanwhile that there is none.

A queue manager that hangs, or a client that reconnects by itself, may keep a call for half an hour.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from datetime import datetime
from typing import Final, TypeVar

from mqdlq.airflow.operators.base import utc_now

SILENT_S: Final = 60.0
"""The time after which the log reports, and repeats, that there is no answer."""

LAST_S: Final = 10.0
"""How long the last look, at the end of a wait, may take."""

Answer = TypeVar("Answer")


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
