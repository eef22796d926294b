"""A page of the documentation runs mqdlq's commands in a browser, and sends nothing anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mqdlq.cli import app
from tests.e2e.running.browser import Page, browser
from tests.support.docs.browser_page import PYODIDE, example_dump
from tests.support.paths import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.long]

REQUESTS: list[str] = []


class Files(SimpleHTTPRequestHandler):
    """Serves the site, and keeps what was asked of it."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the class's signature)
        REQUESTS.append(format % args)


@pytest.fixture(scope="module", name="address")
def _address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not PYODIDE.is_dir():
        pytest.skip("Python for the browser is not here: `make docs` fetches it with npm")
    site = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    subprocess.run(build, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/try/index.html"
        server.shutdown()


@pytest.fixture(scope="module", name="page")
def _page(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as page:
        page.open(address, "Nothing leaves your browser", "Check and explain")
        yield page


def paste(page: Page, table: str, dump: str) -> str:
    """Paste a table and a dump, and return what the page then says."""
    page.run(
        f"document.getElementById('try-table').value = {table!r};"
        f"document.getElementById('try-dump').value = {dump!r};"
        "document.getElementById('try-results').replaceChildren();"
    )
    page.click("Check and explain")
    page.wait_until("!document.querySelector('#try button').disabled")
    return str(page.run("document.getElementById('try-results').textContent"))


def said(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments)).output


def test_an_example_shows_findings_headers_and_which_rule_takes_which_message(
    page: Page, tmp_path: Path
) -> None:
    page.click("Fill in an example")
    page.wait_until("document.getElementById('try-dump').value")
    page.click("Check and explain")
    page.wait_for("rule that takes it")

    shown = str(page.run("document.getElementById('try-results').textContent"))
    dump = tmp_path / "dump.txt"
    dump.write_text(example_dump())
    table = str(ROOT / "include" / "rules" / "demo.rules")
    assert "valid, 7 rules; 1 finding" in shown
    assert "end the table with a rule without patterns" in shown
    for line in said("explain", "--rules", table, str(dump)).splitlines():
        assert line in shown
    for line in filter(None, said("decode", str(dump)).splitlines()):
        assert line in shown
    rows = page.run(
        "[...document.querySelectorAll('#try-results tr')].slice(1).map(row => row.innerText)"
    )
    assert rows[0] == (
        "1\tMQRC_Q_FULL (2053), meant for PAYMENTS.DOMESTIC on QM1"
        "\tline 10: DESTQ(PAYMENTS.*) REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)"
    )
    assert rows[5].endswith("\tnone: it stays")
    assert rows[6].endswith("\tnone: rules apply to dead letters only")


def test_the_findings_are_those_of_rules_check(page: Page, tmp_path: Path) -> None:
    wrong = "REASON(MQRC_Q_FUL) ACTION(RETRY)\nDESTQ(ORDERS.*) ACTON(DISCARD)\n"
    (tmp_path / "table.rules").write_text(wrong)

    shown = paste(page, wrong, "")

    assert "rejected: it has an error; 2 findings" in shown
    for line in said("rules", "check", str(tmp_path / "table.rules")).splitlines():
        if ".rules:" in line and " error" not in line:
            assert line.split(": ", 1)[1] in shown


def test_messages_are_decoded_without_a_table_and_a_wrong_paste_is_refused(page: Page) -> None:
    assert "MQRC_Q_FULL (2053), meant for PAYMENTS.DOMESTIC on QM1" in paste(
        page, "", example_dump()
    )
    assert "messages.txt:1: " in paste(page, "", "no dump at all")


def test_nothing_is_sent_when_something_is_pasted(page: Page) -> None:
    paste(page, "ACTION(IGNORE)\n", example_dump())
    before = len(REQUESTS)

    paste(page, "REASON(2085) ACTION(IGNORE)\n", example_dump())

    assert REQUESTS[before:] == []
    assert not [one for one in REQUESTS if not one.startswith(('"GET ', '"HEAD '))]


def test_the_browser_keeps_the_page_from_talking_to_anybody_else(page: Page) -> None:
    elsewhere = "fetch('http://localhost:1/').then(() => 'sent', error => String(error))"
    blocked = (
        "new Promise(done => { document.addEventListener('securitypolicyviolation',"
        f" event => done(event.violatedDirective), {{once: true}}); {elsewhere}; }})"
    )

    assert page.run(blocked) == "connect-src"


def test_a_narrow_page_is_not_wider_than_its_window(page: Page) -> None:
    page.emulate(width=400)
    paste(page, "ACTION(IGNORE)\n", example_dump())

    assert page.run("document.documentElement.scrollWidth") <= 400
