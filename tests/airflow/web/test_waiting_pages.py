"""Pages that wait for a ledger or a lake take nothing of Airflow's API."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Event
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from mqdlq.web.app import ROOMS, application
from mqdlq.web.serving import THREADS, PageRoute
from tests.support.web.airflow_app import AirflowApp

PAGES = 80


@pytest.fixture(name="viewer")
def _viewer(airflow: AirflowApp) -> Iterator[TestClient]:
    """Yield a client whose requests have one event loop, as those of an api-server."""
    with airflow.client("viewer") as client:
        yield client


def open_pages(client: TestClient, path: str, meanwhile: Callable[[], None]) -> list[Any]:
    """Open a page many times at once, and do something while the pages are open."""
    with ThreadPoolExecutor(PAGES) as pool:
        answers = [pool.submit(client.get, path) for _ in range(PAGES)]
        meanwhile()
        return [answer.result() for answer in answers]


def ask_airflow(client: TestClient) -> None:
    """Ask Airflow's API for DAGs, which takes a thread of its pool."""
    assert client.get("/api/v2/dags").status_code == 200


def count_connections(server: socket.socket) -> int:
    """Return how many connections to a server, which accepts none, were made."""
    server.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count


def test_every_page_runs_in_the_threads_of_the_page() -> None:
    routes = [route for room in ROOMS for route in room.router.routes]

    assert [route for route in routes if not isinstance(route, PageRoute)] == []


def test_airflow_answers_while_every_thread_of_the_page_waits(viewer: TestClient) -> None:
    """A lake that hangs holds no more than the page's own threads."""
    may_end, waiting = Event(), []

    def wait() -> dict[str, bool]:
        waiting.append(1)
        return {"ended": may_end.wait(60)}

    def meanwhile() -> None:
        while len(waiting) < THREADS:
            time.sleep(0.01)
        for _ in range(3):
            ask_airflow(viewer)
        assert len(waiting) == THREADS
        may_end.set()

    routes: list[Any] = application().router.routes
    routes.insert(0, PageRoute("/waiting", wait))
    try:
        answers = open_pages(viewer, "/mqdlq/waiting", meanwhile)
    finally:
        may_end.set()
        assert isinstance(routes.pop(0), APIRoute)

    assert [answer.json() for answer in answers] == [{"ended": True}] * PAGES


def test_a_ledger_that_never_answers_is_a_sentence_and_stalls_nobody(
    viewer: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0), backlog=500)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}/x"
        monkeypatch.setenv("MQDLQ_LEDGER_URL", f"postgresql://u:secret@{place}")
        path = "/mqdlq/dags/mq_dlq_demo/runs"
        answers = open_pages(viewer, path, lambda: ask_airflow(viewer))
        tried = count_connections(server)

    assert {answer.status_code for answer in answers} == {503}
    assert all(f"the ledger postgresql+psycopg://u:***@{place} cannot" in a.text for a in answers)
    assert tried <= 3 * THREADS
    assert "Traceback" not in caplog.text
