"""Every page in Chromium: accessible, within its window, and within its Content-Security-Policy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.running.browser import Page, browser
from tests.support.web import axe
from tests.support.web.airflow_app import AirflowApp
from tests.support.web.crawling import Visit, one_of_each
from tests.support.web.demo_world import WAITING
from tests.support.web.listening import listening
from tests.support.web.picture import visit as open_page

pytestmark = pytest.mark.slow

LOOKS = {"light": (1280, False), "dark and narrow": (390, True)}
"""The window, and whether its colours are dark, in which axe-core looks at each page."""
ACTS = (
    f"/dags/mq_dlq_payments/runs/{WAITING}",
    "/dags/mq_dlq_demo/act?state=on_queue",
    "/dags/mq_dlq_demo/act?action=retry&state=on_queue",
    "/dags/mq_dlq_demo/act?action=discard&state=on_queue",
    "/dags/mq_dlq_demo/act/runs/manual__begins",
)
"""A run in progress, the form and the preview of an action, and a run that has not begun."""
WIDTHS = (1440, 1280, 400)
SETTLED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Waits until the page has taken note of another window."""
CUT_OFF = """(() => {
  const found = [], wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) found.push(`the page is ${wide} px too wide`);
  for (const one of document.querySelectorAll("body *")) {
    const more = one.scrollWidth - one.clientWidth, style = getComputedStyle(one);
    const isText = !one.matches("input, textarea, select, pre, svg, svg *, .hidden, .skip")
      && !one.closest(".stacked thead");
    if (more > 1 && one.clientWidth && isText && style.overflowX !== "visible") {
      const said = one.getAttribute("aria-label") ?? one.textContent.slice(0, 40);
      found.push(`${one.localName}.${one.className} ${said}: ${more} px`);
    }
    if (more > 1 && one.clientWidth && isText && one.matches("td, th")) {
      found.push(`cell ${one.textContent.trim().slice(0, 40)}: ${more} px`);
    }
  }
  return found;
})()"""
"""Names what a window cuts off, and what can only be seen by scrolling sideways."""
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


Faults = Mapping[str, Sequence[str]]


@pytest.fixture(scope="module", name="faults")
def _faults(page: Page, address: str, shown: list[str]) -> Faults:
    """Open each page once, in one window after the other; return what is wrong, by the look."""
    found = defaultdict[str, list[str]](list)
    for path in (*shown, *ACTS):
        page.emulate(width=WIDTHS[0])
        open_page(page, address, path, "admin")
        looks = {"policy": page.run("window.faults")}
        for width in WIDTHS:
            page.emulate(width=width)
            page.run(SETTLED)
            # A report is a file for other programs, too, whose tables scroll.
            looks[f"cut at {width}"] = [] if path.endswith("/report") else page.run(CUT_OFF)
        for look, (width, dark) in LOOKS.items():
            page.emulate(width=width, dark=dark)
            page.run(SETTLED)
            looks[look] = axe.findings(page)
        for look, faults in looks.items():
            found[look] += [f"{path}: {fault}" for fault in faults]
    return found


@pytest.mark.parametrize("look", LOOKS)
def test_axe_core_finds_nothing_on_any_page(faults: Faults, look: str) -> None:
    assert faults[look] == []


def test_axe_core_finds_faults_where_they_are(page: Page, address: str) -> None:
    open_page(page, address, "/", "admin")
    page.run("document.querySelector('main').innerHTML = '<img src=\"data:,\"><input>'; true")

    assert {fault.partition(":")[0] for fault in axe.findings(page)} >= {"image-alt", "label"}


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_cuts_anything_off(faults: Faults, width: int) -> None:
    assert not faults[f"cut at {width}"], "\n".join(faults[f"cut at {width}"])


def test_no_page_breaks_its_content_security_policy(faults: Faults) -> None:
    assert faults["policy"] == []


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


def press(page: Page, *keys: str) -> None:
    for key in keys:
        for kind in ("keyDown", "keyUp"):
            page.ask("Input.dispatchKeyEvent", type=kind, key=key, text=key)


def test_keys_go_through_the_inbox_and_select_its_causes(page: Page, address: str) -> None:
    page.emulate()
    open_page(page, address, "/", "op")
    links = "[...document.querySelectorAll('ol.inbox .what a')]"
    press(page, "j", "j", "x", "j", "k", "k", "x")

    assert page.run(f"{links}.indexOf(document.activeElement)") == 0
    boxes = "[...document.querySelectorAll('ol.inbox input')].map(box => box.checked)"
    assert page.run(boxes)[:3] == [True, True, False]
    press(page, "?")
    assert page.run("document.querySelector('dialog').open")


def test_times_are_in_the_zone_of_the_browser(page: Page, address: str) -> None:
    page.ask("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    open_page(page, address, "/", "viewer")
    page.ask("Emulation.setTimezoneOverride", timezoneId="")

    shown, utc = page.run(
        "(time => [time.textContent, time.title])(document.querySelector('.when time'))"
    )
    assert utc.endswith(" UTC")
    local = datetime.strptime(shown, "%Y-%m-%d %H:%M")  # noqa: DTZ007 (the zone is the browser's)
    assert local - datetime.strptime(utc, "%Y-%m-%d %H:%M UTC") == timedelta(hours=9)  # noqa: DTZ007


def test_airflow_shows_the_page_in_its_navigation_and_links_leave_the_frame(
    page: Page, address: str
) -> None:
    page.emulate()
    page.open(f"{address}/as/admin?next=/plugin/mqdlq")
    page.wait_until("document.querySelector('iframe')?.contentDocument?.querySelector('main h1')")
    assert page.run("document.querySelector('iframe').contentDocument.title") == "Inbox - mqdlq"

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
