"""The page's own few threads and turns, so that it never keeps Airflow's API waiting.

Airflow's api-server runs everything that is not asynchronous in one pool of 40 threads, and the
rest in one event loop. A ledger or a lake that hangs holds only the page's own threads, and many
open pages wait for their turns before they cost anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from functools import partial, wraps
from inspect import iscoroutinefunction, signature
from typing import Any, Final, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mqdlq.web.security import READING

THREADS: Final = 4
"""More would only take processor time from Airflow's API, in the same process."""

_LIMITER: Final[RunVar[CapacityLimiter]] = RunVar("threads of mqdlq's page")
_TURNS: Final[RunVar[CapacityLimiter]] = RunVar("turns of mqdlq's page")

T = TypeVar("T")
P = ParamSpec("P")


async def in_own_thread(call: Callable[[], T]) -> T:
    """Return what a function returns, in one of the page's threads."""
    return await to_thread.run_sync(call, limiter=_of_this_loop(_LIMITER))


def _of_this_loop(variable: RunVar[CapacityLimiter]) -> CapacityLimiter:
    try:
        return variable.get()
    except LookupError:
        variable.set(CapacityLimiter(THREADS))
        return variable.get()


class Turns:
    """Middleware: only some requests that read are answered at a time, as many as threads.

    A turn ends when an answer begins, because a reader may be slow. A request that sends a form
    needs none, because a sender may be slow.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an app."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request when its turn has come."""
        if scope["type"] != "http" or scope["method"] not in READING:
            await self._app(scope, receive, send)
            return
        turns, owners = _of_this_loop(_TURNS), [object()]
        await turns.acquire_on_behalf_of(owners[0])

        def end_turn() -> None:
            while owners:
                turns.release_on_behalf_of(owners.pop())

        async def end_turn_and_send(message: Message) -> None:
            end_turn()
            await send(message)

        try:
            await self._app(scope, receive, end_turn_and_send)
        finally:
            end_turn()


def runs_in_own_thread(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return an endpoint or a dependency as a coroutine that runs it in the page's threads."""

    @wraps(function)
    async def run(*given: P.args, **named: P.kwargs) -> T:
        return await in_own_thread(partial(function, *given, **named))

    # FastAPI would look for the names of annotations here, before version 0.117.
    run.__dict__["__signature__"] = signature(function, eval_str=True)
    return run


class PageRoute(APIRoute):
    """A route whose endpoint runs in the page's threads."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        """Add a route, as FastAPI does."""
        is_asynchronous = iscoroutinefunction(endpoint)
        run = endpoint if is_asynchronous else runs_in_own_thread(endpoint)
        super().__init__(path, run, **given)


class Download(StreamingResponse):
    """A response whose parts are made in the page's threads, one at a time."""

    def __init__(self, parts: Iterable[str | bytes], **given: Any) -> None:
        """Stream these parts, with a media type and headers."""
        super().__init__(_each(parts), **given)


async def _each(parts: Iterable[str | bytes]) -> AsyncIterator[str | bytes]:
    rest = iter(parts)
    while (part := await in_own_thread(partial(next, rest, None))) is not None:
        yield part
