"""Access to the page: everyone signs in, and a hidden handler looks like a missing one."""

from __future__ import annotations

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView

from mqdlq.web.app import application
from tests.support.web.airflow_app import FROM_PAGE, ROLES, AirflowApp
from tests.support.web.routes import access_of, open_paths, pages

HIDDEN, MISSING = "/mqdlq/dags/mq_dlq_secret", "/mqdlq/dags/mq_dlq_nothing"


def test_every_route_declares_whose_data_it_shows() -> None:
    undeclared = [
        route.path
        for route in pages(application())
        if not access_of(route) and route.path not in open_paths()
    ]

    assert undeclared == []


def test_every_route_asks_who_is_there() -> None:
    assert [
        route.path for route in pages(application()) if not access_of(route, "is_signed_in")
    ] == []


def test_a_browser_without_sign_in_is_led_to_the_login_and_back(airflow: AirflowApp) -> None:
    answer = airflow.client().get("/mqdlq/search?text=a")

    assert answer.status_code == 302
    assert answer.headers["location"] == (
        "/auth/login?next=http%3A%2F%2Fairflow.test%2Fmqdlq%2Fsearch%3Ftext%3Da"
    )


@pytest.mark.parametrize("path", ["/mqdlq/", HIDDEN, MISSING, "/mqdlq/static/page.css", "/mqdlq/x"])
def test_a_program_without_sign_in_is_refused(airflow: AirflowApp, path: str) -> None:
    answer = airflow.client().get(path, headers={"Accept": "*/*"})

    assert (answer.status_code, answer.text) == (401, "Sign in to Airflow first\n")


def test_htmx_without_sign_in_leads_the_whole_page_to_the_login(airflow: AirflowApp) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://airflow.test/mqdlq/?page=2"}
    answer = airflow.client().get("/mqdlq/?page=3", headers=headers)

    assert answer.status_code == 401
    assert answer.headers["hx-redirect"] == (
        "/auth/login?next=http%3A%2F%2Fairflow.test%2Fmqdlq%2F%3Fpage%3D2"
    )


@pytest.mark.parametrize("path", ["/mqdlq/", "/mqdlq/dags/mq_dlq_demo", "/mqdlq/static/page.css"])
def test_a_person_who_may_not_use_airflows_website_sees_no_page(
    airflow: AirflowApp, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def is_authorized_view(*, access_view: AccessView, user: object) -> bool:
        del user
        return access_view is not AccessView.WEBSITE

    monkeypatch.setattr(get_auth_manager(), "is_authorized_view", is_authorized_view)
    answer = airflow.client("admin").get(path)

    assert answer.status_code == 403
    assert "You may not use Airflow&#39;s website; ask for permission" in answer.text


@pytest.mark.parametrize("role", ROLES)
def test_everyone_who_is_signed_in_sees_the_handlers_that_they_may_read(
    airflow: AirflowApp, role: str
) -> None:
    text = airflow.client(role).get("/mqdlq/fleet").text

    assert "/mqdlq/dags/mq_dlq_demo" in text
    assert ("mq_dlq_secret" in text) is (role == "admin")


def test_a_handler_that_a_person_may_not_read_looks_like_one_that_does_not_exist(
    airflow: AirflowApp,
) -> None:
    client = airflow.client("op")
    hidden, missing = client.get(HIDDEN), client.get(MISSING)

    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert hidden.text.replace("mq_dlq_secret", "mq_dlq_nothing") == missing.text
    assert airflow.client("admin").get(HIDDEN).status_code == 200


@pytest.mark.parametrize("dag_id", ["mq_dlq_restore", "another"])
def test_a_dag_that_handles_no_queue_has_no_page(airflow: AirflowApp, dag_id: str) -> None:
    assert airflow.client("admin").get(f"/mqdlq/dags/{dag_id}").status_code == 404


def test_a_forged_token_does_not_sign_in(airflow: AirflowApp) -> None:
    client = airflow.client()
    client.cookies.set("_token", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.")
    assert client.get("/mqdlq/").status_code in {302, 401, 403}


@pytest.mark.parametrize(
    ("headers", "is_ours"),
    [
        (FROM_PAGE, True),
        ({"Origin": "http://airflow.test"}, True),
        ({}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://evil.test"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://airflow.test"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
    ],
)
def test_a_post_is_refused_unless_the_page_itself_sent_it(
    airflow: AirflowApp, headers: dict[str, str], is_ours: bool
) -> None:
    answer = airflow.client("admin").post("/mqdlq/no-such-form", headers=headers)

    assert ("MQDLQ-992" in answer.text) is not is_ours
    assert answer.status_code == (404 if is_ours else 403)
