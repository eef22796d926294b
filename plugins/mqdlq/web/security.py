"""Refuse requests that another site had the browser send (cross-site request forgery)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from airflow.configuration import conf
from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mqdlq.web.rendering import ForbiddenError

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


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


# Middleware of the page: headers that restrict the browser, and an answer without traceback.

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
        """Wrap an app."""
        self._app = app
        self._failure = failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
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
