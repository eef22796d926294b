"""Dependencies of pages: who asks for what, the ledger, the lake, and the clock.

Airflow mounts the apps of plugins without authentication. `is_signed_in` and Airflow's own
`requires_access_view` are dependencies of the whole app, so no route is open to anonymous people or
to people without permission for Airflow's website; each route also depends on a handler that the
person may read, or on the set of handlers that the person may read. Airflow's own checks decide.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Final, TypeVar

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import (
    ConnectionDetails,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, Response

from mqdlq import directories
from mqdlq.airflow.hooks import connections
from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler, load_handler
from mqdlq.lake.filters import Query
from mqdlq.ledger import Ledger
from mqdlq.ledger.database import connect_impatiently
from mqdlq.reading.exports import FORMS, Export
from mqdlq.reading.page_paths import Paths, dag_of, handler_of
from mqdlq.tools.acting import Sources
from mqdlq.web.rendering import ForbiddenError, NotFoundError, paths_of, render
from mqdlq.web.serving import Download, runs_in_own_thread

BODIES: Final = "mqdlq message bodies"
"""The resource that an auth manager can grant to people who may see message bodies."""


@dataclass(frozen=True, slots=True)
class Person:
    """The person who asks: the name for pages and the audit log, and Airflow's user."""

    name: str
    user: BaseUser

    @property
    def names(self) -> tuple[str, str]:
        """Both names that Airflow keeps of a person who answers a question."""
        return self.user.get_name(), self.user.get_id()

    @property
    def roles(self) -> list[str]:
        """The roles of the person, as far as the auth manager's users have any."""
        found = getattr(self.user, "roles", None) or [getattr(self.user, "role", None)]
        return [str(getattr(one, "name", one)) for one in found if one]

    def may_read(self, dag_id: str) -> bool:
        return self._may("GET", dag_id)

    def may_act(self, dag_id: str) -> bool:
        return self._may("POST", dag_id)

    def may_answer(self, dag_id: str) -> bool:
        return self._may("PUT", dag_id, DagAccessEntity.HITL_DETAIL)

    def is_among(self, assigned: Iterable[str]) -> bool:
        """Return whether the person is one of these users, by id, who are asked a question."""
        return get_auth_manager().is_authorized_hitl_task(
            assigned_users=set(assigned), user=self.user
        )

    def may_reveal(self, connection: str | None) -> bool:
        """Return whether the person may see message bodies of a handler with this connection.

        It needs two permissions: to read `BODIES`, and to read the connection. Some auth managers,
        such as the simple one, grant every custom resource to everyone.
        """
        manager = get_auth_manager()
        return manager.is_authorized_custom_view(
            method="GET", resource_name=BODIES, user=self.user
        ) and manager.is_authorized_connection(
            method="GET", details=ConnectionDetails(conn_id=connection), user=self.user
        )

    def readable_handlers(self) -> frozenset[str]:
        """Return the handlers whose DAGs Airflow has and the person may read."""
        found = get_auth_manager().get_authorized_dag_ids(user=self.user, method="GET")
        return frozenset(name for name in map(handler_of, found) if name)

    def readable_among(self, handlers: Iterable[str]) -> frozenset[str]:
        """Return the handlers that the person may read, also those without a DAG in Airflow.

        A handler whose file is rejected may never have had a DAG; Airflow then decides by the id
        of the DAG alone.
        """
        asked, known = frozenset(handlers), self.readable_handlers()
        others = {name: dag_of(name) for name in asked - known}
        teams = DagModel.get_dag_id_to_team_name_mapping(list(others.values())) if others else {}
        return (asked & known) | frozenset(
            name for name, dag_id in others.items() if self._may("GET", dag_id, teams=teams)
        )

    def _may(
        self,
        method: Any,
        dag_id: str,
        entity: DagAccessEntity = DagAccessEntity.RUN,
        teams: Mapping[str, str | None] | None = None,
    ) -> bool:
        team = DagModel.get_team_name(dag_id) if teams is None else teams.get(dag_id)
        details = DagDetails(id=dag_id, team_name=team)
        return get_auth_manager().is_authorized_dag(
            method=method, access_entity=entity, details=details, user=self.user
        )


def is_signed_in(request: Request, user: Annotated[BaseUser, Depends(get_user)]) -> Person:
    """Return the person who asks; Airflow answers 401 to anyone it does not know."""
    person = request.state.person = Person(user.get_name(), user)
    return person


PersonDep = Annotated[Person, Depends(is_signed_in)]


def readable_handlers(person: PersonDep) -> frozenset[str]:
    return person.readable_handlers()


ReadableHandlers = Annotated[frozenset[str], Depends(readable_handlers)]


@dataclass(frozen=True, slots=True)
class AskedHandler:
    """The handler of a page: its name, its DAG, and what the person who asks may do with it."""

    name: str
    dag_id: str
    may_act: bool


def asked_handler(request: Request, dag_id: str, person: PersonDep) -> AskedHandler:
    """Return the handler in the path, which the person may read.

    A handler that does not exist and one that the person may not read look alike: NotFoundError.
    """
    name = handler_of(dag_id)
    if name is None or not person.may_read(dag_id) or DagModel.get_dagmodel(dag_id) is None:
        raise NotFoundError(
            "MQDLQ-990",
            f"The handler of DAG {dag_id!r} does not exist, or you may not see it; choose one from"
            " the overview, or ask for permission to read this DAG's runs in Airflow",
        )
    handler = request.state.handler = AskedHandler(name, dag_id, person.may_act(dag_id))
    return handler


HandlerDep = Annotated[AskedHandler, Depends(asked_handler)]


def acting_handler(handler: HandlerDep) -> None:
    if not handler.may_act:
        raise ForbiddenError(
            "MQDLQ-991",
            f"You may not start runs of {handler.dag_id}; ask for permission to trigger this DAG in"
            " Airflow",
        )


# What pages are read from.

Clock = Callable[[], datetime]


@runs_in_own_thread
def ledger() -> Ledger:
    """Return the ledger that tasks write, shared by all requests of this process.

    A page never creates or migrates it. Raises LedgerUnavailableError if the ledger cannot be
    reached, or is not at the revision of this version.
    """
    found = _opened(connections.ledger_url(Connection.get_connection_from_secrets))
    found.require_current()
    return found


@cache
def _opened(url: str) -> Ledger:
    return Ledger(connect_impatiently(url))


def lake_root() -> str:
    return directories.lake()


def wall_clock() -> Clock:
    return lambda: datetime.now(UTC)  # noqa: TID251 (a request is an entry point)


LedgerDep = Annotated[Ledger, Depends(ledger)]
LakeRoot = Annotated[str, Depends(lake_root)]
ClockDep = Annotated[Clock, Depends(wall_clock)]
Q = TypeVar("Q", bound=Query)
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class View(Sources):
    """A request for a page, with what the page is read from and how it is shown.

    `handlers` are those whose data it may show: the handler in the path, or, if that is "", all
    that the person may read.
    """

    request: Request
    handlers: Collection[str]

    @property
    def person(self) -> Person:
        """Who asks; `is_signed_in` has found out."""
        person: Person = self.request.state.person
        return person

    @property
    def asked(self) -> AskedHandler:
        """The handler in the path; `asked_handler` has looked it up."""
        handler: AskedHandler = self.request.state.handler
        return handler

    @property
    def paths(self) -> Paths:
        return paths_of(self.request)

    @property
    def given(self) -> list[tuple[str, str]]:
        """The query parameters, of which a name may occur several times."""
        return self.request.query_params.multi_items()

    def parse(self, query: type[Q]) -> Q:
        return query.parse(self.given)

    def render(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        return render(self.request, template, status, **values)

    def download(self, listed: Export, form: str) -> Response:
        """Return all that a list has as a file; `form` is one of `FORMS`."""
        name = f"{_UNFIT.sub('-', listed.name)}.{form}"
        return Download(listed.parts(form), name, FORMS[form].media_type)


def of_handler(
    request: Request, handler: HandlerDep, ledger: LedgerDep, lake_root: LakeRoot, clock: ClockDep
) -> View:
    return View(handler.name, ledger, lake_root, clock, request, [handler.name])


def of_all_handlers(
    request: Request,
    handlers: ReadableHandlers,
    ledger: LedgerDep,
    lake_root: LakeRoot,
    clock: ClockDep,
) -> View:
    return View("", ledger, lake_root, clock, request, handlers)


HandlerView = Annotated[View, Depends(of_handler)]
FleetView = Annotated[View, Depends(of_all_handlers)]


# What the handler's file says, None if it is not here or not valid.


def _configuration(handler: str) -> Handler | None:
    try:
        return load_handler(handler)
    except MqDlqError:
        return None


def body_connection(handler: HandlerDep) -> str | None:
    """Return the connection whose readers may see bodies of the handler in the path.

    None if the api-server does not have the handler's file: then all connections must be readable.
    """
    return connection_of(handler.name)


def connection_of(handler: str) -> str | None:
    found = _configuration(handler)
    return found.connection if found is not None else None


def may_reveal(
    handler: HandlerDep,
    person: PersonDep,
    connection: Annotated[str | None, Depends(body_connection)],
) -> None:
    """Raise ForbiddenError unless the person may see bodies of the handler in the path."""
    if not person.may_reveal(connection):
        raise ForbiddenError(
            "MQDLQ-942",
            f"You may not see message bodies of {handler.dag_id}; ask for permission to read the"
            " custom view 'mqdlq message bodies' and connections in Airflow",
        )


def payload_keys(handler: str) -> dict[str, bytes]:
    """Return the keys of a handler's captured payload by their names, none if it has no key.

    Raises ConnectionSettingsError if the connection with the keys is missing or has none.
    """
    found = _configuration(handler)
    return connections.payload_keys(found.payload_key if found is not None else None)
