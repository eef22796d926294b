"""The page that searches in bodies: for whom, what it shows, and what the audit keeps."""

from __future__ import annotations

import html
import logging
import re
from datetime import timedelta

import pytest

from mqdlq.errors import LedgerUnavailableError
from mqdlq.ledger.audit import Audit
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind
from mqdlq.tools import body_search
from tests.support.web.airflow_app import FROM_PAGE, AirflowApp
from tests.support.world import World

FIND = "/mqdlq/dags/mq_dlq_demo/find"


def searches(world: World) -> list[str]:
    events = world.ledger.audit_trail.events(AuditFilter(what=AuditKind.BODIES_SEARCHED))
    return [f"{event.who} {event.handler} {event.details}" for event in events]


def test_a_body_is_found_by_a_word_and_the_search_is_in_the_audit(
    airflow: AirflowApp, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    admin = airflow.client("admin")
    assert "Find in bodies" in admin.get(FIND).text

    answer = admin.post(FIND, data={"words": "reply 2", "as": "text"}, headers=FROM_PAGE)

    assert "1 message found" in answer.text
    assert "The search is complete." in answer.text
    assert "requester" in answer.text
    assert any(one.endswith("demo 'reply 2' as text") for one in searches(world))
    assert "reply 2" not in caplog.text
    assert "reply 2" not in str(answer.url)
    assert "message bodies searched" in admin.get("/mqdlq/dags/mq_dlq_demo/audit").text


@pytest.mark.parametrize("role", ["viewer", "user"])
def test_a_person_who_may_see_no_body_cannot_search_in_bodies(
    airflow: AirflowApp, world: World, role: str
) -> None:
    before = searches(world)
    client = airflow.client(role)

    for answer in (
        client.get(FIND),
        client.post(FIND, data={"words": "reply 2"}, headers=FROM_PAGE),
    ):
        assert answer.status_code == 403
        assert "MQDLQ-942" in answer.text
    assert searches(world) == before
    assert "Find in bodies" not in client.get("/mqdlq/search?handler=demo").text
    assert FIND in airflow.client("admin").get("/mqdlq/search?handler=demo").text


def test_another_site_searches_nothing(airflow: AirflowApp) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}

    answer = airflow.client("admin").post(FIND, data={"words": "reply"}, headers=headers)

    assert answer.status_code == 403


def test_a_search_that_cannot_be_recorded_shows_nothing(
    airflow: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LedgerUnavailableError("MQDLQ-221", "the disk is full")

    monkeypatch.setattr(Audit, "record", fail)
    answer = airflow.client("admin").post(FIND, data={"words": "reply"}, headers=FROM_PAGE)

    assert answer.status_code == 503
    assert "found" not in answer.text


def test_a_long_search_goes_on_from_the_page_and_is_recorded_once(
    airflow: AirflowApp, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_search, "LOT_TIME", timedelta(0))
    before = len(searches(world))
    given, admin, requests = {"words": "payment", "as": "text"}, airflow.client("admin"), 0
    while True:
        text = admin.post(FIND, data=given, headers=FROM_PAGE).text
        requests += 1
        if "Go on" not in text:
            break
        assert f'hx-post="{FIND}"' in text
        (progress,) = re.findall('name="progress" value="([^"]*)"', text)
        given["progress"] = html.unescape(progress)

    assert "6 messages found" in text
    assert requests > 2
    assert len(searches(world)) == before + 1


def test_words_and_conditions_that_are_not_valid_are_refused(airflow: AirflowApp) -> None:
    for given, fault in (
        ({"words": "x y", "as": "hex"}, "words: they are no bytes"),
        ({"words": "x", "where": "a=b"}, "where: a: no filter has this name"),
        ({"words": "x", "progress": "[]"}, "progress: it is not that of a search"),
    ):
        answer = airflow.client("admin").post(FIND, data=given, headers=FROM_PAGE)
        assert answer.status_code == 422
        assert fault in html.unescape(answer.text)
