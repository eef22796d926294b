"""The FastAPI app that Airflow mounts at /mqdlq."""

from functools import cache
from http import HTTPStatus
from typing import Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from mqdlq.errors import LedgerUnavailableError, MessageKeyError, MqDlqError
from mqdlq.lake.filters import FilterError
from mqdlq.reading.page_paths import Paths
from mqdlq.tools.acting import ActionError
from mqdlq.web import (
    acting,
    audit,
    causes,
    finding,
    history,
    inbox,
    messages,
    overview,
    rules,
    runs,
)
from mqdlq.web.rendering import (
    TYPES,
    FailedPageError,
    InvalidRequestError,
    NotFoundError,
    PageError,
    render,
    static_files,
    vendored,
)
from mqdlq.web.requests import ReadableHandlers, is_signed_in
from mqdlq.web.serving import SecurityHeaders, Turns, is_same_origin

ROOMS: Final = (inbox, overview, causes, messages, finding, acting, runs, rules, history, audit)
A_YEAR: Final = "private, max-age=31536000, immutable"


@cache
def application() -> FastAPI:
    app = FastAPI(
        title="mqdlq",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[
            Depends(is_signed_in),
            Depends(requires_access_view(AccessView.WEBSITE)),
            Depends(is_same_origin),
        ],
    )
    for room in ROOMS:
        app.include_router(room.router)
    app.get(Paths.static)(static_file)
    app.get(Paths.licences)(licences)
    app.api_route("/{path:path}", methods=["GET", "POST"])(nothing_here)
    app.exception_handler(MqDlqError)(_error_page)
    app.exception_handler(HTTPException)(_http_error_page)
    app.exception_handler(RequestValidationError)(_invalid_request_page)
    app.add_middleware(Turns)
    app.add_middleware(SecurityHeaders, failure=_failure_page)
    return app


def static_file(name: str) -> Response:
    file = static_files().get(name)
    if file is None:
        raise NotFoundError("MQDLQ-996", f"The file {name!r} does not exist; reload the page")
    headers = {"Cache-Control": A_YEAR}
    return FileResponse(file, media_type=TYPES[file.suffix], headers=headers)


def licences(request: Request) -> Response:
    return render(request, "licences.html", vendored=vendored())


def nothing_here(request: Request, path: str, handlers: ReadableHandlers) -> Response:
    del request, handlers
    raise NotFoundError(
        "MQDLQ-993", f"The page {'/' + path!r} does not exist; choose one from the navigation"
    )


async def _error_page(request: Request, error: Exception) -> Response:
    status, title = 500, "This page cannot be shown"
    if isinstance(error, PageError):
        status, title = error.status, error.title
    elif isinstance(error, LedgerUnavailableError):
        status = 503
    elif isinstance(error, (ActionError, FilterError, MessageKeyError)):
        status, title = InvalidRequestError.status, InvalidRequestError.title
    text, error_id = (error.text, error.error_id) if isinstance(error, MqDlqError) else ("", "")
    return render(request, "error.html", status, title=title, text=text, error_id=error_id)


async def _http_error_page(request: Request, error: Exception) -> Response:
    """Show an error of HTTP; a person who is not signed in is led to Airflow's login."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == HTTPStatus.UNAUTHORIZED:
        return _login(request)
    phrase = HTTPStatus(status).phrase
    if status == HTTPStatus.FORBIDDEN and hasattr(request.state, "person"):
        text = "You may not use Airflow's website; ask for permission to read it in Airflow"
    elif status == HTTPStatus.FORBIDDEN:
        text = "Airflow does not accept this sign-in; sign in again"
    else:
        text = f"{phrase}; choose a page from the navigation"
    return render(request, "error.html", status, title=phrase, text=text, error_id="")


async def _invalid_request_page(request: Request, error: Exception) -> Response:
    """Name the parts of a request that are not valid, and not their values."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    faults = [f"{'.'.join(map(str, fault['loc'][1:]))}: {fault['msg']}" for fault in found]
    said = "; ".join(faults)
    invalid = InvalidRequestError("MQDLQ-995", f"The address or the form is not valid: {said}")
    return await _error_page(request, invalid)


async def _failure_page(request: Request, error: Exception) -> Response:
    """Answer for a fault of the page itself, without its text, which may contain anything."""
    del error
    said = "The page has a fault; the log of Airflow's api-server has the details"
    return await _error_page(request, FailedPageError("MQDLQ-994", said))


def _login(request: Request) -> Response:
    """Lead a browser that wants a page to Airflow's login, and answer 401 to everything else."""
    wants_page = "text/html" in request.headers.get("accept", "")
    is_htmx = "hx-request" in request.headers
    if request.method != "GET" or not (wants_page or is_htmx):
        return Response(
            "Sign in to Airflow first\n", HTTPStatus.UNAUTHORIZED, media_type="text/plain"
        )
    here = request.headers.get("hx-current-url") if is_htmx else str(request.url)
    login = get_auth_manager().get_url_login(next_url=here)
    if is_htmx:
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": login})
    return RedirectResponse(login, HTTPStatus.FOUND)
