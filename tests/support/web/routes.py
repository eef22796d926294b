"""The routes of the page, and the access that each declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

DECLARATIONS: Final = ("asked_handler", "readable_handlers")
"""The dependencies that say whose data a route shows: one handler's, or all that may be read."""


def pages(app: FastAPI) -> list[APIRoute]:
    """Return all routes; a route of another kind, which has no dependencies, is an error."""
    found = []
    for route in app.routes:
        assert isinstance(route, APIRoute), f"{route} has no declared access"
        found.append(route)
    return found


def open_paths() -> frozenset[str]:
    """Return the paths of routes that show no data of any handler."""
    return frozenset({"/static/{name}", "/licences"})


def access_of(route: APIRoute, *names: str) -> bool:
    """Return whether a route depends on one of these dependencies."""
    wanted = names or DECLARATIONS
    return any(name in wanted for name in _dependencies(route.dependant))


def _dependencies(dependant: Dependant) -> Iterator[str]:
    for dependency in dependant.dependencies:
        yield getattr(dependency.call, "__name__", "")
        yield from _dependencies(dependency)
