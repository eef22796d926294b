"""Follow the links of the page, so that a test meets every route with real parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from fastapi import FastAPI
from starlette.routing import Match

from tests.support.web.routes import pages

PER_ROUTE = 3
"""How many addresses of a route are opened for each handler."""


@dataclass(frozen=True)
class Visit:
    """An address of the page below Airflow's root, the route that answers it, and the answer."""

    address: str
    route: str
    came_from: str
    answer: Any

    @property
    def is_html(self) -> bool:
        return str(self.answer.headers.get("content-type", "")).startswith("text/html")


class Links(HTMLParser):
    """Collect the addresses of the links of a page, and of its GET forms as they are filled."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._action: str | None = None
        self._fields: dict[str, str] = {}
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if given.get("hx-get"):
            self.found.append(given["hx-get"])
        if tag == "a" and given.get("href"):
            self.found.append(given["href"])
        elif tag == "form":
            is_reading = given.get("method", "get").lower() == "get"
            self._action, self._fields = (given.get("action", "") if is_reading else None), {}
        elif self._action is not None:
            self._note_field(tag, given)

    def _note_field(self, tag: str, given: dict[str, str]) -> None:
        if tag == "input" and given.get("type") not in {"checkbox", "radio", "submit"}:
            self._fields[given.get("name", "")] = given.get("value", "")
        elif tag == "select":
            self._select = given.get("name", "")
        elif tag == "option" and ("selected" in given or self._select not in self._fields):
            self._fields[self._select] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form" and self._action is not None:
            query = urlencode({name: value for name, value in self._fields.items() if name})
            self.found.append(f"{self._action.partition('#')[0]}?{query}")
            self._action = None


def links_of(visit: Visit) -> list[str]:
    """Return the addresses that a page leads to, without fragments and other hosts."""
    parser = Links()
    if visit.is_html:
        parser.feed(visit.answer.text)
    targets = (urljoin(visit.address, link).partition("#")[0] for link in parser.found)
    return [target for target in targets if target.startswith("/mqdlq/")]


def crawl(client: Any, app: FastAPI, start: str = "/mqdlq/") -> list[Visit]:
    """Open pages and files from `start` on, at most PER_ROUTE of each route and handler."""
    return list(_crawl(client, app, start))


def _crawl(client: Any, app: FastAPI, start: str) -> Iterator[Visit]:
    waiting, seen, opened = [(start, "")], {start}, Counter[tuple[str, str, bool]]()
    while waiting:
        address, came_from = waiting.pop(0)
        route, handler = route_of(app, address)
        kind = route, handler, "download=" in address
        opened[kind] += 1
        if opened[kind] > PER_ROUTE:
            continue
        visit = Visit(address, route, came_from, client.get(address))
        yield visit
        for link in links_of(visit):
            if link not in seen:
                seen.add(link)
                waiting.append((link, address))


def route_of(app: FastAPI, address: str) -> tuple[str, str]:
    """Return the path of the route that answers an address, and the DAG in it."""
    path = urlsplit(address).path.removeprefix("/mqdlq")
    scope = {"type": "http", "method": "GET", "path": path, "root_path": ""}
    for route in pages(app):
        match, found = route.matches(scope)
        if match is Match.FULL:
            return route.path, str(found["path_params"].get("dag_id", ""))
    return "", ""


def one_of_each(visits: list[Visit], dag_id: str = "mq_dlq_demo") -> dict[str, Visit]:
    """Return a visit of each route, of this handler if the route is for one."""
    found: dict[str, Visit] = {}
    for visit in visits:
        if "{dag_id}" not in visit.route or f"/{dag_id}" in visit.address:
            found.setdefault(visit.route, visit)
    return found
