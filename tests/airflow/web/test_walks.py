"""Four questions that operators ask, each answered by following links from the overview."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from mqdlq import lake
from mqdlq.web.app import application
from tests.support.web.airflow_app import AirflowApp
from tests.support.web.crawling import Visit, links_of, route_of
from tests.support.web.demo_world import FIRST, LAST
from tests.support.web.page_text import words_of
from tests.support.world import World


class Walk:
    """A person who follows links, as a viewer."""

    def __init__(self, airflow: AirflowApp) -> None:
        self._client = airflow.client("viewer")
        self.go("/mqdlq/fleet")

    def go(self, address: str) -> None:
        answer: Any = self._client.get(address)
        assert answer.status_code == 200, (address, answer.text)
        self._visit = Visit(address, route_of(application(), address)[0], "", answer)

    def follow(self, part: str) -> None:
        """Follow the first link whose address contains this."""
        found = [link for link in links_of(self._visit) if part in link]
        assert found, f"no link of {self._visit.address} contains {part}"
        self.go(found[0])

    def search(self, **filled: str) -> None:
        """Fill the form of the search that the navigation leads to."""
        self.follow("/mqdlq/search")
        self.go(f"/mqdlq/search?{'&'.join(f'{name}={value}' for name, value in filled.items())}")

    @property
    def text(self) -> str:
        """The text of the page, without markup."""
        return words_of(self._visit.answer.text)


@pytest.fixture(name="walk")
def _walk(airflow: AirflowApp) -> Walk:
    return Walk(airflow)


def test_why_did_the_last_run_leave_seven_messages(walk: Walk) -> None:
    walk.follow("/dags/mq_dlq_demo")
    walk.follow("/runs")
    walk.follow(LAST)

    assert "7 need attention" in walk.text
    for why in (
        "MQRC_PUT_INHIBITED (2051)",
        "MQRC_NOT_AUTHORIZED (2035)",
        "2 exhausted",
        "4 unmatched",
        "1 unprocessable",
    ):
        assert why in walk.text


def test_which_application_causes_most_dead_letters_this_week(walk: Walk) -> None:
    walk.follow("/dags/mq_dlq_demo")
    walk.follow("/history")
    walk.follow("/history?since=2026-11-15")
    assert "Application messages payments-in 9 orders 5 quotes 3 " in walk.text
    walk.follow("application=payments-in")

    assert re.search(r"\b9 messages\b", walk.text)


def test_a_msg_id_leads_to_what_happened_to_its_message(walk: Walk, world: World) -> None:
    taken = world.recorded_snapshot(FIRST)
    rows = lake.snapshot_rows(taken.location)
    msg_id = next(row["msg_id"].hex() for row in rows if row["dlh_dest_q_name"] == "ORDERS.0")
    walk.search(text=msg_id)
    walk.follow("/messages/")

    assert "forwarded" in walk.text
    assert "ORDERS.PARKED" in walk.text
    assert FIRST in walk.text


def test_a_search_finds_the_messages_that_expire_tonight(walk: Walk, world: World) -> None:
    tonight = world.clock.now + timedelta(hours=12)
    walk.search(expires_before=f"{tonight:%Y-%m-%dT%H:%M}", state="on_queue")

    assert re.search(r"\b6 messages\b", walk.text)
    assert "names" in walk.text
