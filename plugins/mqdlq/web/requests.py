"""Dependencies of pages: the ledger, the lake, the clock, and what the handler's file permits."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Annotated

from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from fastapi import Depends

from mqdlq import directories
from mqdlq.airflow.hooks import connections
from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler, load_handler
from mqdlq.ledger import Ledger, open_impatiently
from mqdlq.tools.acting import Sources
from mqdlq.web.access import HandlerDep
from mqdlq.web.serving import runs_in_own_thread

Clock = Callable[[], datetime]


@runs_in_own_thread
def ledger() -> Ledger:
    """Return the ledger that tasks write, shared by all requests of this process.

    A page never creates or migrates it. Raises LedgerUnavailableError if the ledger cannot be
    reached, or is not at the revision of this version.
    """
    found = _opened(_ledger_url())
    found.require_current()
    return found


def _ledger_url() -> str:
    """Return the URL that tasks find, without the API that only tasks have."""
    if any(os.environ.get(name) for name in connections.IN_ENVIRONMENT):
        return directories.ledger_url()
    try:
        found = Connection.get_connection_from_secrets(connections.CONNECTION)
    except AirflowNotFoundException:
        return directories.ledger_url()
    return connections.url_of(found)


@cache
def _opened(url: str) -> Ledger:
    return open_impatiently(url)


def lake_root() -> str:
    return directories.lake()


def wall_clock() -> Clock:
    """Return the clock of the page; a test gives another one."""
    return lambda: datetime.now(UTC)  # noqa: TID251 (a request is an entry point)


def configuration(handler: str) -> Handler | None:
    """Return the configuration of a handler, None if its file is not here or not valid."""
    try:
        return load_handler(handler)
    except MqDlqError:
        return None


def body_connection(handler: HandlerDep) -> str | None:
    """Return the connection whose readers may see bodies of the handler in the path.

    None if the api-server does not have the handler's file: then all connections must be readable.
    """
    found = configuration(handler.name)
    return found.connection if found is not None else None


def payload_keys(handler: str) -> dict[str, bytes]:
    """Return the keys of a handler's captured payload by their names, none if it has no key.

    Raises ConnectionSettingsError if the connection with the keys is missing or has none.
    """
    found = configuration(handler)
    return connections.payload_keys(found.payload_key if found is not None else None)


LedgerDep = Annotated[Ledger, Depends(ledger)]
LakeRoot = Annotated[str, Depends(lake_root)]
ClockDep = Annotated[Clock, Depends(wall_clock)]


def sources(
    handler: HandlerDep, ledger: LedgerDep, lake_root: LakeRoot, clock: ClockDep
) -> Sources:
    """Return what pages of the handler in the path are read from."""
    return Sources(handler.name, ledger, lake_root, clock)


SourcesDep = Annotated[Sources, Depends(sources)]
