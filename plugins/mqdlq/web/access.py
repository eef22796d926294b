"""Access to the page, decided by Airflow's own checks.

Airflow mounts the apps of plugins without authentication. `is_signed_in` and Airflow's own
`requires_access_view` are dependencies of the whole app, so no route is open to anonymous people or
to people without permission for Airflow's website; each route also depends on a handler that the
person may read, or on the set of handlers that the person may read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import (
    ConnectionDetails,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.dag import DagModel
from fastapi import Depends, Request

from mqdlq.reading.page_paths import dag_of, handler_of
from mqdlq.web.rendering import ForbiddenError, NotFoundError

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

    def may_read(self, dag_id: str) -> bool:
        return self._may("GET", dag_id)

    def may_act(self, dag_id: str) -> bool:
        return self._may("POST", dag_id)

    def may_answer(self, dag_id: str) -> bool:
        return self._may("PUT", dag_id, DagAccessEntity.HITL_DETAIL)

    def is_among(self, assigned: Iterable[str]) -> bool:
        """Return whether the person may answer a question that these users are asked, by id."""
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
        run = DagAccessEntity.RUN
        return (asked & known) | frozenset(
            name
            for name, dag_id in others.items()
            if self._may_with("GET", dag_id, teams.get(dag_id), run)
        )

    def _may(self, method: Any, dag_id: str, entity: DagAccessEntity = DagAccessEntity.RUN) -> bool:
        return self._may_with(method, dag_id, DagModel.get_team_name(dag_id), entity)

    def _may_with(
        self, method: Any, dag_id: str, team: str | None, entity: DagAccessEntity
    ) -> bool:
        details = DagDetails(id=dag_id, team_name=team)
        return get_auth_manager().is_authorized_dag(
            method=method, access_entity=entity, details=details, user=self.user
        )


def is_signed_in(request: Request, user: Annotated[BaseUser, Depends(get_user)]) -> Person:
    """Return the person who asks; Airflow answers 401 to anyone it does not know."""
    person = Person(user.get_name(), user)
    request.state.person = person
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
    handler = AskedHandler(name, dag_id, person.may_act(dag_id))
    request.state.handler = handler
    return handler


HandlerDep = Annotated[AskedHandler, Depends(asked_handler)]


def acting_handler(handler: HandlerDep) -> None:
    """Raise ForbiddenError for a person who may not start runs of the handler in the path."""
    if not handler.may_act:
        raise ForbiddenError(
            "MQDLQ-991",
            f"You may not start runs of {handler.dag_id}; ask for permission to trigger this DAG in"
            " Airflow",
        )
