"""The frame of every page: headers, errors, files of other projects, the entry in Airflow."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from fastapi import Request

from mqdlq.errors import LedgerUnavailableError
from mqdlq.web import rendering
from mqdlq.web.app import application
from mqdlq.web.requests import LedgerDep
from mqdlq.web.serving import HEADERS
from tests.support.web import axe
from tests.support.web.airflow_app import AirflowApp


def test_every_answer_restricts_the_browser(airflow: AirflowApp) -> None:
    for path in ("/mqdlq/", "/mqdlq/nothing", "/mqdlq/dags/mq_dlq_secret"):
        headers = airflow.client("viewer").get(path).headers
        assert {name: headers[name] for name in HEADERS} == HEADERS


def test_templates_contain_neither_script_nor_style() -> None:
    templates = rendering.TEMPLATES
    faults = [
        f"{file.name}: {found[0]}"
        for file in sorted(templates.rglob("*.html"))
        for found in re.finditer(
            r"<script(?![^>]* src=)[^>]*>|<style|\sstyle=|\son\w+=|javascript:|https?://|\|\s*safe",
            file.read_text(encoding="utf-8"),
        )
    ]

    assert faults == []


def test_files_may_be_cached_because_their_address_changes_with_them(airflow: AirflowApp) -> None:
    client = airflow.client("viewer")
    style = re.search(r'href="([^"]+page\.css\?v=[0-9a-f]{16})"', client.get("/mqdlq/").text)
    assert style is not None
    answer = client.get(style[1])

    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"


@pytest.mark.parametrize("name", ["vendored.toml", "..%2Fapp.py", "nothing.js"])
def test_only_files_for_browsers_are_served(airflow: AirflowApp, name: str) -> None:
    assert airflow.client("admin").get(f"/mqdlq/static/{name}").status_code == 404


def test_each_file_of_another_project_is_the_one_that_the_manifest_names() -> None:
    for file, about in rendering.vendored().items():
        content = (rendering.STATIC / file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == about["sha256"], file
    assert hashlib.sha256(axe.SCRIPT.read_bytes()).hexdigest() == axe.SHA256


def test_the_licences_of_these_files_are_on_a_page(airflow: AirflowApp) -> None:
    text = airflow.client("viewer").get("/mqdlq/licences").text

    for about in rendering.vendored().values():
        assert f"{about['name']} {about['version']}" in text
        assert about["sha256"] in text


@contextmanager
def extra_route(path: str, endpoint: Callable[..., None]) -> Iterator[None]:
    """Give the page one more route, before the others."""
    routes = application().router.routes
    application().get(path)(endpoint)
    routes.insert(0, routes.pop())
    yield
    routes.pop(0)


def fail(how: str, number: int = 0) -> None:
    if how == "ledger":
        raise LedgerUnavailableError("MQDLQ-205", f"the ledger <b>is</b> away {number}")
    raise RuntimeError("secret of a traceback")


@pytest.fixture(name="failing")
def _failing() -> Iterator[str]:
    with extra_route("/failing/{how}", fail):
        yield "/mqdlq/failing"


def test_an_error_of_ours_shows_its_text_and_id(airflow: AirflowApp, failing: str) -> None:
    answer = airflow.client("viewer").get(f"{failing}/ledger")

    assert answer.status_code == 503
    assert "the ledger &lt;b&gt;is&lt;/b&gt; away 0." in answer.text
    assert "Error MQDLQ-205." in answer.text


def test_a_fault_of_the_page_shows_nothing_of_its_traceback(
    airflow: AirflowApp, failing: str
) -> None:
    answer = airflow.client("viewer").get(f"{failing}/otherwise")

    assert answer.status_code == 500
    assert "MQDLQ-994" in answer.text
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def test_a_parameter_that_is_not_valid_is_named_without_its_value(
    airflow: AirflowApp, failing: str
) -> None:
    answer = airflow.client("viewer").get(f"{failing}/ledger?number=<i>")

    assert answer.status_code == 422
    assert "number: Input should be a valid integer" in answer.text
    assert "&lt;i&gt;" not in answer.text


def test_the_page_finds_the_ledger_of_the_tasks(airflow: AirflowApp) -> None:
    found = []

    def read(request: Request, ledger: LedgerDep) -> None:
        found.append(ledger.runs.get("demo-scheduled__first"))
        assert request.state.airflow is airflow.app

    with extra_route("/ledger", read):
        assert airflow.client("viewer").get("/mqdlq/ledger").status_code == 200
    assert found != [None]


def test_airflow_lists_the_page_in_its_navigation(airflow: AirflowApp) -> None:
    [plugin] = airflow.client("viewer").get("/api/v2/plugins").json()["plugins"] or [None]
    views = [(view["name"], view["href"]) for view in plugin["external_views"]]

    assert views == [("Dead letters", "/mqdlq/")]


def test_loading_the_plugin_imports_nothing_of_the_page() -> None:
    script = (
        "import sys, mqdlq.plugin; "
        "print([name for name in sys.modules if name.startswith(('mqdlq.web', 'fastapi'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"
