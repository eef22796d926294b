"""Middleware of the page: headers that restrict the browser, and an answer without traceback."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
