"""Every page in Chromium: accessible, within its window, and within its Content-Security-Policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.running.browser import Page, browser
from tests.support.web import axe
from tests.support.web.airflow_app import AirflowApp
from tests.support.web.crawling import Visit, one_of_each
from tests.support.web.listening import listening
from tests.support.web.picture import visit as open_page

pytestmark = pytest.mark.slow

NARROW, DESKTOP = 390, 1280
WATCH = """
window.faults = [];
const note = fault => window.faults.push(String(fault));
addEventListener("securitypolicyviolation", e => note(e.effectiveDirective + " " + e.blockedURI));
addEventListener("error", e => note(e.message || e.target.src || e.target.href), true);
"""
"""Collects what the browser blocks, scripts that fail, and files that do not load."""


@pytest.fixture(scope="module", name="address")
def _address(airflow: AirflowApp) -> Iterator[str]:
    with listening(airflow) as address:
        yield address


@pytest.fixture(scope="module", name="page")
def _page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(Path(tmp_path_factory.mktemp("browser"))) as page:
        page.ask("Page.enable")
        page.ask("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        yield page


@pytest.fixture(scope="module", name="shown")
def _shown(visits: list[Visit]) -> list[str]:
    """Return an address of each page below /mqdlq, of a common handler and of hostile names."""
    found = [*one_of_each(visits).values(), *one_of_each(visits, "mq_dlq_names").values()]
    pages = (visit.address for visit in found if visit.is_html)
    return [address.removeprefix("/mqdlq") for address in dict.fromkeys(pages)]


@pytest.mark.parametrize(("width", "dark"), [(DESKTOP, False), (NARROW, True)])
def test_axe_core_finds_nothing_on_any_page(
    page: Page, address: str, shown: list[str], width: int, dark: bool
) -> None:
    page.emulate(width=width, dark=dark)
    found = []
    for path in shown:
        open_page(page, address, path, "admin")
        found += [f"{path}: {fault}" for fault in axe.findings(page)]

    assert found == []


def test_axe_core_finds_faults_where_they_are(page: Page, address: str) -> None:
    open_page(page, address, "/", "admin")
    page.run("document.querySelector('main').innerHTML = '<img src=\"data:,\"><input>'; true")

    assert {fault.partition(":")[0] for fault in axe.findings(page)} >= {"image-alt", "label"}


def test_the_overview_shows_all_its_columns_in_a_window_of_1440_pixels(
    page: Page, address: str
) -> None:
    page.emulate(width=1440)
    open_page(page, address, "/", "admin")

    hidden = "[...document.querySelectorAll('.wide')].map(one => one.scrollWidth - one.clientWidth)"
    assert page.run(hidden) == [0]


def test_no_page_is_wider_than_a_narrow_window(page: Page, address: str, shown: list[str]) -> None:
    page.emulate(width=NARROW)
    wide = {}
    for path in shown:
        open_page(page, address, path, "admin")
        width = page.run("document.documentElement.scrollWidth")
        if width > NARROW:
            wide[path] = width

    assert wide == {}


def test_no_page_breaks_its_content_security_policy(
    page: Page, address: str, shown: list[str]
) -> None:
    page.emulate()
    faults = {}
    for path in shown:
        open_page(page, address, path, "admin")
        if found := page.run("window.faults"):
            faults[path] = found

    assert faults == {}


def test_the_page_follows_the_theme_that_airflow_stores(page: Page, address: str) -> None:
    page.emulate(dark=False)
    open_page(page, address, "/", "viewer")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.run(background)
    page.run("localStorage.setItem('theme', 'dark')")
    open_page(page, address, "/", "viewer")
    dark = page.run(background)
    page.run("localStorage.removeItem('theme')")

    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(21, 24, 28)")


def test_the_keyboard_reaches_the_content_first(page: Page, address: str) -> None:
    open_page(page, address, "/", "viewer")
    key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
    page.ask("Input.dispatchKeyEvent", type="keyDown", **key)
    page.ask("Input.dispatchKeyEvent", type="keyUp", **key)

    assert page.run("document.activeElement.innerText") == "Skip to the content"
    assert page.run("document.activeElement.getBoundingClientRect().left") >= 0


def test_airflow_shows_the_page_in_its_navigation_and_links_leave_the_frame(
    page: Page, address: str
) -> None:
    page.emulate()
    page.open(f"{address}/as/admin?next=/plugin/mqdlq")
    page.wait_until("document.querySelector('iframe')?.contentDocument?.querySelector('main h1')")
    assert page.run("document.querySelector('iframe').contentDocument.title") == "Overview - mqdlq"

    page.run(
        "document.querySelector('iframe').contentWindow.location ="
        f" '{address}/mqdlq/dags/mq_dlq_demo'; true"
    )
    page.wait_until(
        "document.querySelector('iframe')?.contentDocument?.querySelector('a[target=_top]')"
    )
    page.run(
        "document.querySelector('iframe').contentDocument.querySelector('a[target=_top]')"
        ".click(); true"
    )
    page.wait_until("location.pathname.startsWith('/dags/mq_dlq_demo')")


def test_one_box_selects_all_messages_of_a_search(page: Page, address: str) -> None:
    page.emulate()
    open_page(page, address, "/search?handler=demo", "admin")
    box = "document.querySelectorAll('input[type=checkbox][name=message_key]{}').length"
    assert page.run(box.format(":checked")) == 0
    page.run("document.querySelector('input[data-all]').click()")

    assert page.run(box.format(":checked")) == page.run(box.format("")) > 0
