"""Render templates: one environment, which escapes everything and refuses undefined names."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from mqdlq.errors import MqDlqError
from mqdlq.reading.page_paths import MOUNT, Paths
from mqdlq.reading.report import Verdict
from mqdlq.reading.report.rendering.components import component_environment
from mqdlq.web import static_files
from mqdlq.words import VERDICTS

TEMPLATES: Final = Path(__file__).with_name("templates")


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page: `template` is its path below `templates`, `values` are its variables.

    Templates also have `paths` (the links of this Airflow), `person` (who asks), `handler` (the
    handler in the path, or None) and `here` (the path of the page without its query).
    """
    state = request.state
    given = {
        "paths": paths_of(request),
        "person": getattr(state, "person", None),
        "handler": getattr(state, "handler", None),
        "here": request.url.path,
        **values,
    }
    return HTMLResponse(environment().get_template(template).render(given), status)


def paths_of(request: Request) -> Paths:
    """Return the links of the Airflow that this request came to."""
    root: str = request.scope.get("root_path", "")
    return Paths(root.removesuffix(MOUNT))


def _static(paths: Paths, name: str) -> str:
    return paths.static(name, static_files.version_of(name))


def _verdict(value: str) -> str:
    """Return a verdict of the ledger in words."""
    return VERDICTS[Verdict(value)]


@cache
def environment() -> Environment:
    """Return the environment of all templates, with the components of the HTML report."""
    made = component_environment(TEMPLATES)
    made.globals["static"] = _static
    made.filters["verdict"] = _verdict
    return made


# Errors that a page answers with, each with its status of HTTP.


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
