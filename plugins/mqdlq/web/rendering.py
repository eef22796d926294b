"""What pages are made of: templates, the page's own files, and errors as answers.

One environment of templates escapes everything and refuses undefined names.
"""

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from mqdlq.errors import MqDlqError
from mqdlq.model import Verdict
from mqdlq.reading.exports import FORMS
from mqdlq.reading.page_paths import MOUNT, Paths
from mqdlq.reading.report.html_report import COMPONENTS, component_environment
from mqdlq.rules.diagnostics import escaped

TEMPLATES: Final = Path(__file__).with_name("templates")


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page: `template` is its path below `templates`, `values` are its variables.

    Templates also have `paths`, the links of this Airflow, `person`, who asks, `handler`, the one
    in the path or None, and `here`, the path of the page without its query.
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
    root: str = request.scope.get("root_path", "")
    return Paths(root.removesuffix(MOUNT))


@cache
def environment() -> Environment:
    """Return the environment of all templates, with the components of the HTML report."""
    made = component_environment(TEMPLATES)
    made.globals["static"] = lambda paths, name: paths.static(name, {"v": version_of(name)})
    made.globals["file_forms"] = {form: one.words for form, one in FORMS.items()}
    made.filters["verdict"] = lambda recorded: Verdict(recorded).words
    return made


def pages_of(found: int, to_a_page: int) -> int:
    return max(1, -(-found // to_a_page))


def printable(text: str) -> str:
    """Return text in which no character acts on a page; lines and tabs stay."""
    return escaped(text.replace("\r\n", "\n"), keep="\n\t")


# Drawings: bars in SVG, which are stretched to the width of their place.

HEIGHT: Final = 20.0
Bar = tuple[float, float, float, float, str]
"""The x, y, width and height of a rectangle, and its meaning in words."""


def draw_bars(
    numbers: Sequence[tuple[int, str]], *, width: float, places: int, least: float, zero: float
) -> list[Bar]:
    """Draw numbers with their meanings from the left, in a drawing of `width` by `HEIGHT`.

    `places` is how many bars are as long as the drawing is wide. The largest number is as high as
    the drawing, the smallest at least `least`, so that one message can be seen beside a million. A
    0 is `zero` high, and not drawn if that is 0.
    """
    largest = max((number for number, _ in numbers), default=0)
    step = width / max(places, 1)
    bars = []
    for place, (number, title) in enumerate(numbers):
        height = max(HEIGHT * number / largest, least) if number else zero
        if height:
            x, y = round(place * step, 2), round(HEIGHT - height, 2)
            bars.append((x, y, round(step * 0.8, 2), round(height, 2), title))
    return bars


# The page's own files: what the browser loads.

STATIC: Final = Path(__file__).with_name("static")
STYLES: Final = COMPONENTS / "components.css"
"""The styles of the components that the HTML report and the page share."""
TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def vendored() -> Mapping[str, Mapping[str, str]]:
    """Return the files of other projects by name, as the manifest describes them.

    It has the project's name, version, licence, home and notice, and the file's SHA-256.
    """
    return tomllib.loads((STATIC / "vendored.toml").read_text(encoding="utf-8"))


@cache
def static_files() -> Mapping[str, Path]:
    own = {file.name: file for file in STATIC.iterdir() if file.suffix in TYPES}
    return own | {STYLES.name: STYLES}


@cache
def version_of(name: str) -> str:
    """Return the beginning of a file's SHA-256, which its URL has so that it can be cached."""
    return hashlib.sha256(static_files()[name].read_bytes()).hexdigest()[:16]


# Errors that a page answers with, each with its status of HTTP.


class PageError(MqDlqError):
    """A request that a page cannot answer; `title` is the heading of the answer."""

    status: ClassVar[int] = 400
    title: ClassVar[str] = "This request cannot be answered"


class NotFoundError(PageError):
    """Something that does not exist, or that the person who asks may not see."""

    status, title = 404, "Not found"


class NoRunYetError(NotFoundError):
    """Something that exists as soon as the handler has run."""


class ForbiddenError(PageError):
    """Something that the person who asks may not do."""

    status, title = 403, "Not permitted"


class InvalidRequestError(PageError):
    """A parameter of the address, or a field of a form, that is not valid."""

    status, title = 422, "Not a valid request"


class FailedPageError(PageError):
    """A fault of the page itself; its cause is in the log of the api-server only."""

    status, title = 500, "This page failed"
