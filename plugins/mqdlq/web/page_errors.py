"""Errors that a page answers with, each with its status of HTTP."""

from __future__ import annotations

from typing import ClassVar

from mqdlq.errors import MqDlqError


class PageError(MqDlqError):
    """A request that a page cannot answer; `title` is the heading of the answer."""

    status: ClassVar[int] = 400
    title: ClassVar[str] = "This request cannot be answered"


class NotFoundError(PageError):
    """Something that does not exist, or that the person who asks may not see."""

    status = 404
    title = "Not found"


class NoRunYetError(NotFoundError):
    """Something that exists as soon as the handler has run."""


class ForbiddenError(PageError):
    """Something that the person who asks may not do."""

    status = 403
    title = "Not permitted"


class InvalidRequestError(PageError):
    """A parameter of the address, or a field of a form, that is not valid."""

    status = 422
    title = "Not a valid request"


class FailedPageError(PageError):
    """A fault of the page itself; its cause is in the log of the api-server only."""

    status = 500
    title = "This page failed"
