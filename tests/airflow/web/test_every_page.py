"""Every page that a link leads to, as every role, and with hostile names."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from mqdlq.web.app import application
from tests.support.web.airflow_app import FROM_PAGE, ROLES, AirflowApp
from tests.support.web.crawling import Visit, one_of_each
from tests.support.web.demo_world import HOSTILE
from tests.support.web.routes import open_paths, pages

UNLINKED = frozenset({"/{path:path}", "/static/{name}", "/dags/{dag_id}/act/runs/{dag_run_id}"})
"""Routes that no page links to: for other paths, for files, and for a run that has just begun."""

WITHOUT_RUNS = frozenset({"/mqdlq/dags/mq_dlq_never/causes"})
"""Pages that a handler does not have before its first run; they say so."""

UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def test_every_link_leads_to_a_page(visits: list[Visit]) -> None:
    broken = [
        f"{visit.answer.status_code} {visit.address} (from {visit.came_from})"
        for visit in visits
        if visit.answer.status_code != 200 and visit.address not in WITHOUT_RUNS
    ]

    assert "\n".join(broken) == ""


def test_a_link_leads_to_every_page(visits: list[Visit]) -> None:
    reading = {route.path for route in pages(application()) if "GET" in route.methods}

    assert sorted(reading - UNLINKED - {visit.route for visit in visits}) == []


def test_no_page_is_open_to_anonymous_people(airflow: AirflowApp, visits: list[Visit]) -> None:
    client = airflow.client()
    answers = {visit.address: client.get(visit.address).status_code for visit in visits}

    assert {address: status for address, status in answers.items() if status != 302} == {}


@pytest.mark.parametrize("role", ROLES)
def test_every_role_may_read_every_page_but_forms_that_act_or_search_bodies(
    airflow: AirflowApp, visits: list[Visit], role: str
) -> None:
    client, answers = airflow.client(role), {}
    for route, visit in one_of_each(visits).items():
        answers[route] = client.get(visit.address).status_code

    may_not = {route for route, status in answers.items() if status != 200}
    assert {answers[route] for route in may_not} <= {403}
    expected = {"/dags/{dag_id}/act"} if role == "viewer" else set()
    expected |= {"/dags/{dag_id}/find"} if role in {"viewer", "user"} else set()
    assert may_not == expected & answers.keys()


def test_a_hidden_handler_has_no_page_of_any_kind(airflow: AirflowApp, visits: list[Visit]) -> None:
    client = airflow.client("op")
    for route, visit in one_of_each(visits).items():
        if "{dag_id}" in route:
            hidden = visit.address.replace("mq_dlq_demo", "mq_dlq_secret")
            answer = client.get(hidden)
            missing = client.get(visit.address.replace("mq_dlq_demo", "mq_dlq_nothing"))
            assert answer.status_code == missing.status_code == 404, route
            assert answer.text.replace("mq_dlq_secret", "mq_dlq_nothing") == missing.text, route


def test_pages_of_several_handlers_say_nothing_of_a_hidden_one(
    airflow: AirflowApp, visits: list[Visit]
) -> None:
    client = airflow.client("op")
    for route, visit in one_of_each(visits).items():
        if "{dag_id}" not in route and visit.is_html:
            text = client.get(visit.address).text.casefold()
            assert "secret" not in text, route


@pytest.mark.parametrize(
    ("role", "headers", "expected"),
    [("", FROM_PAGE, {401}), ("viewer", FROM_PAGE, {403, 404}), ("admin", {}, {403})],
)
def test_a_form_is_refused_without_sign_in_permission_or_origin(
    airflow: AirflowApp, role: str, headers: dict[str, str], expected: set[int]
) -> None:
    client = airflow.client(role)
    names = {"{dag_id}": "mq_dlq_demo", "{path:path}": "nothing"}
    for route in pages(application()):
        if "POST" in route.methods:
            path = route.path
            for name, value in names.items():
                path = path.replace(name, value)
            path = re.sub(r"\{\w+\}", "0" * 64, path)
            status = client.post(f"/mqdlq{path}", headers=headers).status_code
            assert status in expected, (path, status)


def test_hostile_names_are_text_on_every_page(visits: list[Visit]) -> None:
    shown = False
    for visit in visits:
        if visit.is_html:
            text = visit.answer.text
            assert not UNSAFE.search(text.replace("\n", "").replace("\t", "")), visit.address
            for name in HOSTILE:
                if "<" in name or '"' in name:
                    assert name not in text, visit.address
            shown = shown or "&lt;script&gt;alert(" in text

    handlers_pages = [visit for visit in visits if "mq_dlq_names" in visit.address]
    assert shown or not any("/causes" in visit.address for visit in handlers_pages)


def test_no_address_contains_a_character_that_needs_quoting(visits: list[Visit]) -> None:
    for visit in visits:
        address = urlsplit(visit.address)
        assert re.fullmatch(r"[\x21\x23-\x3b=?-~]*", address.path + address.query), visit.address


def test_only_files_and_licences_show_no_handler() -> None:
    assert open_paths() == {"/static/{name}", "/licences"}
