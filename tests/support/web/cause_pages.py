"""Pages about causes over a separate world, without the checks of Airflow."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi import FastAPI, Request
from httpx import ASGITransport, AsyncClient, Response

from mqdlq.causes import find_cause
from mqdlq.errors import MqDlqError
from mqdlq.stages.snapshot.taking import record_causes
from mqdlq.web import causes, inbox
from mqdlq.web.app import _error_page
from mqdlq.web.requests import AskedHandler, Person, asked_handler, ledger, wall_clock
from tests.support.web.page_text import words_of
from tests.support.world import World

RULES = """\
* The rules of the test
REASON(MQRC_Q_FULL) ACTION(RETRY)

* Orders wait for a person
DESTQ(ORDERS) ACTION(FWD) FWDQ(PARKED)
"""
HOSTILE = ("<b>&\"'", "A\u202eB", "\x1b[31mC", "X" * 48)
FULL = find_cause("dead_letter", 2053, "PAYMENTS", "QM1").cause_id
ELSEWHERE = find_cause("dead_letter", 2085, "ELSEWHERE", "QM1").cause_id
STRAY = find_cause("no_dlh", 0, "", "").cause_id
CAUSES = "/dags/mq_dlq_test/causes"


class Pages:
    """A world, and a client of its pages."""

    def __init__(self, directory: Path, *, may_act: bool = True) -> None:
        self.world = World(directory)
        app = FastAPI()
        app.include_router(inbox.router)
        app.include_router(causes.router)
        app.exception_handler(MqDlqError)(_error_page)
        handler = AskedHandler("test", "mq_dlq_test", may_act)

        def ask_for_the_handler(request: Request) -> AskedHandler:
            request.state.handler = handler
            request.state.person = Person(
                "vera", SimpleAuthManagerUser(username="vera", role="viewer")
            )
            return handler

        overrides: dict[Callable[..., Any], Callable[..., Any]] = app.dependency_overrides
        overrides[asked_handler] = ask_for_the_handler
        overrides[ledger] = lambda: self.world.ledger
        overrides[wall_clock] = lambda: self.world.clock
        self._transport = ASGITransport(app)

    def ask(self, path: str, parameters: dict[str, str]) -> Response:
        """Return the answer to a request."""

        async def get() -> Response:
            async with AsyncClient(transport=self._transport, base_url="http://a") as client:
                return await client.get(path, params=parameters)

        return asyncio.run(get())

    def get(self, path: str, status: int = 200, **parameters: str) -> str:
        """Return the HTML of a page."""
        answer = self.ask(path, parameters)
        assert answer.status_code == status, answer.text
        return answer.text

    def words(self, path: str, status: int = 200, **parameters: str) -> str:
        """Return the text of a page, without its tags."""
        return words_of(self.get(path, status, **parameters))

    def causes(self, **parameters: str) -> list[str]:
        """Return the names of the listed causes, with their destinations."""
        page = self.get(CAUSES, 200, **parameters)
        return list(map(words_of, re.findall(r'"><strong>(.*?)</a>', page)))

    def fill(self) -> None:
        """Put dead letters of three causes, and a message without an MQDLH."""
        world = self.world
        for number in range(3):
            world.dead_letter(bytes([number]), PutApplName=b"billing")
        world.dead_letter(b"x", dest_q="ORDERS", reason=2085, PutApplName=b"web")
        for number in range(2):
            world.dead_letter(bytes([number]), dest_q="ELSEWHERE", reason=2085)
        world.put("DLQ", b"no header")

    def handle(self, rules: str = RULES, **options: Any) -> None:
        """Handle the queue an hour after the last run."""
        self.world.clock.now += timedelta(hours=1)
        self.world.handle(rules, **options)
        run = self.world.ledger.runs.get(f"run-{self.world.runs}")
        assert run is not None
        record_causes(run, ledger=self.world.ledger)


@pytest.fixture(name="pages")
def pages_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pages]:
    """Provide pages over an empty world."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    pages = Pages(tmp_path)
    with pages.world.ledger:
        yield pages
