"""How requests are served: in the page's own threads, with its headers, and from its own pages.

Airflow's api-server runs everything that is not asynchronous in one pool of 40 threads, and the
rest in one event loop. A ledger or a lake that hangs holds only the page's own few threads, and
many open pages wait for their turns before they cost anything.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from functools import partial, wraps
from inspect import iscoroutinefunction, signature
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

from airflow.configuration import conf
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from fastapi import Request
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mqdlq.web.rendering import ForbiddenError

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})

# Refuse requests that another site had the browser send (cross-site request forgery).


def is_same_origin(request: Request) -> None:
    """Let requests pass that read, or that a page of this Airflow had the browser send.

    Browsers say where a request comes from in ``Sec-Fetch-Site`` (W3C, Fetch Metadata Request
    Headers), and, where that header is missing because the connection is not encrypted, in
    ``Origin``. A request that says neither is refused, too: raises ForbiddenError.
    """
    if request.method in READING:
        return
    site = request.headers.get("sec-fetch-site")
    if site == "same-origin" or (site is None and _origin_is_ours(request)):
        return
    raise ForbiddenError(
        "MQDLQ-992",
        "This request does not come from the operator's page, so nothing was done; open the page"
        " in Airflow and send its form, or use Airflow's REST API from a program",
    )


def _origin_is_ours(request: Request) -> bool:
    origin = request.headers.get("origin", "")
    scheme, host, *_ = urlsplit(origin)
    if scheme not in {"http", "https"} or not host:
        return False
    configured = urlsplit(conf.get("api", "base_url", fallback=""))
    return host == request.headers.get("host") or (scheme, host) == configured[:2]


# Headers that restrict the browser, and an answer without traceback.

LOG: Final = logging.getLogger(__name__)

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'self'; base-uri 'none'"
)
"""No script or style but our own files, and no frame but Airflow's (same origin)."""

HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""A route may set its own value of any of them, such as that of a file that may be cached."""


class SecurityHeaders:
    """Add the headers, and answer with `failure` if the app raises before it has answered."""

    def __init__(
        self, app: ASGIApp, failure: Callable[[Request, Exception], Awaitable[Response]]
    ) -> None:
        self._app = app
        self._failure = failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            if has_begun:
                raise
            LOG.exception("MQDLQ-994: the page %s failed", scope["path"])
            response = await self._failure(Request(scope), error)
            await response(scope, receive, send_with_headers)


# The page's own threads and turns.

THREADS: Final = 4
"""More would only take processor time from Airflow's API, in the same process."""

_LIMITER: Final[RunVar[CapacityLimiter]] = RunVar("threads of mqdlq's page")
_TURNS: Final[RunVar[CapacityLimiter]] = RunVar("turns of mqdlq's page")

T = TypeVar("T")
P = ParamSpec("P")


async def in_own_thread(call: Callable[[], T]) -> T:
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
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        is_asynchronous = iscoroutinefunction(endpoint)
        run = endpoint if is_asynchronous else runs_in_own_thread(endpoint)
        super().__init__(path, run, **given)


class Download(StreamingResponse):
    """A file whose parts are made in the page's threads, one at a time."""

    def __init__(self, parts: Iterable[str | bytes], name: str, media_type: str) -> None:
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        super().__init__(_each(parts), media_type=media_type, headers=headers)


async def _each(parts: Iterable[str | bytes]) -> AsyncIterator[str | bytes]:
    rest = iter(parts)
    while (part := await in_own_thread(partial(next, rest, None))) is not None:
        yield part
