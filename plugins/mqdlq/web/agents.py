"""Tools of agents over HTTP, beside the page: the token of a person, and what that person may do.

It is off unless `MQDLQ_AGENTS` is `on` for the api-server. Only a token in the header
`Authorization` signs in: a cookie does not, so that no other site can have a browser call a tool.
Every request is complete in itself, and there is no session between requests.
"""

import hashlib
import logging
import os
from functools import cache, lru_cache
from http import HTTPStatus
from typing import Final

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from mqdlq.agents.answers import Caller, RefusedError
from mqdlq.agents.serving import Door, Rates
from mqdlq.airflow.hooks.ibmmq import settings_of
from mqdlq.airflow.links import airflow_address
from mqdlq.errors import ConnectionSettingsError, MqDlqError
from mqdlq.ledger import Ledger
from mqdlq.mqi.connection_settings import ConnectionSettings
from mqdlq.reading.page_paths import Paths
from mqdlq.tools.acting import Sources
from mqdlq.web.app import application as page
from mqdlq.web.requests import ClockDep, LakeRoot, LedgerDep, PersonDep, is_signed_in, wall_clock
from mqdlq.web.serving import SecurityHeaders, in_own_thread

SWITCH: Final = "MQDLQ_AGENTS"
PATH: Final = "/mcp"
MOST_BYTES: Final = 200_000
"""The largest request."""


def has_token(request: Request) -> None:
    """Let requests pass that bring a token themselves, if the tools are switched on."""
    if os.environ.get(SWITCH, "").strip().lower() != "on":
        raise HTTPException(HTTPStatus.NOT_FOUND, f"{SWITCH} is not on for this api-server")
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        text = "Send a token of Airflow in the header Authorization: Bearer …"
        raise HTTPException(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": "Bearer"})


@cache
def application() -> FastAPI:
    app = FastAPI(
        title="mqdlq for agents",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[
            Depends(has_token),
            Depends(is_signed_in),
            Depends(requires_access_view(AccessView.WEBSITE)),
        ],
    )
    app.dependency_overrides = page().dependency_overrides
    app.post(PATH)(answer)
    app.exception_handler(MqDlqError)(_failed)
    app.add_middleware(SecurityHeaders, failure=_failed)
    logging.getLogger("mcp").setLevel(logging.WARNING)  # it writes lines for each request
    return app


async def answer(
    request: Request, person: PersonDep, ledger: LedgerDep, lake_root: LakeRoot, clock: ClockDep
) -> Response:
    """Answer one message of an agent, as the person whose token it brings."""
    reading = _reading(ledger)

    def caller() -> Caller:
        return Caller(
            person=person.name,
            handlers=person.readable_handlers(),
            may_act=person.may_act,
            sources=lambda handler: Sources(handler, reading, lake_root, clock),
            paths=Paths(airflow_address()),
            settings=_settings,
        )

    token = request.headers["authorization"].encode()
    door = Door(
        person=person.name,
        caller=caller,
        token=hashlib.sha256(token).hexdigest(),
        rates=_rates(),
        record=ledger.audit.record,
        clock=clock,
        apart=in_own_thread,
    )
    return _Answer(door)


class _Answer(Response):
    """The answer of the SDK's own transport to one request."""

    def __init__(self, door: Door) -> None:
        super().__init__()
        self._manager = StreamableHTTPSessionManager(
            door.server(), json_response=True, stateless=True, max_request_body_size=MOST_BYTES
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._manager.run():
            await self._manager.handle_request(scope, receive, send)


@lru_cache(maxsize=4)
def _reading(ledger: Ledger) -> Ledger:
    return ledger.reading()


@cache
def _rates() -> Rates:
    """Return the calls of this process; another process of the api-server counts its own."""
    return Rates(wall_clock())


def _settings(conn_id: str) -> ConnectionSettings:
    try:
        return settings_of(Connection.get_connection_from_secrets(conn_id))
    except (AirflowNotFoundException, ConnectionSettingsError) as error:
        raise RefusedError(
            "MQDLQ-971",
            f"{error}; nothing was asked from here: mqdlq diagnose asks from the command line",
        ) from None


async def _failed(request: Request, error: Exception) -> Response:
    """Answer for a fault with the id of an error, and without the text of any other fault."""
    del request
    text = str(error) if isinstance(error, MqDlqError) else "the tools have a fault [MQDLQ-994]"
    return JSONResponse({"detail": text}, HTTPStatus.SERVICE_UNAVAILABLE)
