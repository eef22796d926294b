"""The connection type `mqdlq` as people meet it: the form in a browser, the test by its button."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import embedded_mq
from mqdlq.airflow.provider import provider_info
from mqdlq.local.environment import migrate
from mqdlq.local.services import in_use
from tests.e2e.running.browser import Page, browser
from tests.e2e.running.services import Airflow, TiedServices, free_port
from tests.support.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.long]

FIELDS = provider_info()["connection-types"][0]["conn-fields"]
TYPE, TRANSPORT = 0, 3
"""Which of the dialog's select boxes; between them are Reconnect and Client library."""
AUTHORITIES = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('mqdlq') AUTHADD(CONNECT,INQ)"
GRANTED = "SET AUTHREC PROFILE(DLQ) OBJTYPE(QUEUE) PRINCIPAL('mqdlq') AUTHADD(INQ,BROWSE)"


@pytest.fixture(name="server")
def _server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Airflow]:
    """Start the api-server alone, with a queue manager to connect to."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))  # before the world does, so that it is undone
    world = World(tmp_path)
    world.ledger.close()
    for name in [name for name in os.environ if name.startswith("AIRFLOW__")]:
        monkeypatch.delenv(name)
    settings = {"AIRFLOW__CORE__TEST_CONNECTION": "Enabled"}
    migrate(settings)
    services = TiedServices(free_port(), settings)
    found = Airflow(services, tmp_path)
    try:
        services.start("api-server")
        found.wait(lambda: in_use(services.port), 90)
        found.log_in()
        yield found
    finally:
        found.close()


def fill(page: Page, field: str, text: str) -> None:
    """Type into a field of the open dialog."""
    page.run(f"document.querySelector({f'[role=dialog] {field}'!r}).focus()")
    page.ask("Input.insertText", text=text)


def choose(page: Page, number: int, text: str) -> None:
    """Pick what a select box of the open dialog offers, by typing it."""
    boxes = "document.querySelectorAll('[role=dialog] input[role=combobox]')"
    page.run(f"{boxes}[{number}].focus()")
    page.ask("Input.insertText", text=text)
    for kind in ("keyDown", "keyUp"):
        page.ask("Input.dispatchKeyEvent", type=kind, key="Enter", windowsVirtualKeyCode=13)


def unfold(page: Page, text: str) -> None:
    """Open a part of the dialog; it listens once it has the focus."""
    page.wait_for(text)
    buttons = "[...document.querySelectorAll('[role=dialog] button')]"
    page.run(f"{buttons}.find(e => e.innerText.trim() === {text!r}).focus()")
    page.click(text)


def test_the_connection_form_saves_a_connection_and_its_test_names_missing_authorities(
    server: Airflow, tmp_path: Path
) -> None:
    """MQDLQ_PICTURES names the directory that the picture goes to, docs/images for the project's.

    The queue manager's user may connect and ask for no queue at first.
    """
    picture = Path(os.environ.get("MQDLQ_PICTURES") or tmp_path) / "connection-form.webp"
    embedded_mq.run_mqsc("QM1", AUTHORITIES)
    address = server.services.address
    with browser(tmp_path / "browser") as page:
        size = {"width": 760, "height": 1680, "deviceScaleFactor": 0.75, "mobile": False}
        page.ask("Emulation.setDeviceMetricsOverride", **size)
        page.log_in(address, server.token)
        page.open(f"{address}/connections", "Add Connection")
        page.click("Add Connection")
        page.wait_for("Connection Type")
        fill(page, "input[name=connection_id]", "mq_orders")
        choose(page, TYPE, "IBM MQ (mqdlq)")
        page.wait_for("Standard Fields", "Host", "Login", "Password", "Port")
        fill(page, "input[name=login]", "mqdlq")
        # Airflow's button asks for port 0 if the port is empty, and refuses that as another port.
        fill(page, "input[name=port]", "1414")
        unfold(page, "Extra Fields")
        page.wait_for(*(field["label"] for field in FIELDS.values()))
        page.wait_for(*(field["description"] for field in FIELDS.values()))
        fill(page, "input[name=element_queue_manager]", "QM1")
        choose(page, TRANSPORT, "embedded")
        page.picture(picture)
        page.click("Save")
        page.wait_for("mq_orders")
        found = server.get("/connections/mq_orders")
        assert (found["conn_type"], found["login"]) == ("mqdlq", "mqdlq")
        extra = {key: value for key, value in json.loads(found["extra"]).items() if value}
        assert extra == {"queue_manager": "QM1", "transport": "embedded", "reconnect": "no"}

        page.click("Test Connection")
        page.wait_for("Test Connection Failed", "lacks +inq on queue DLQ")
        embedded_mq.run_mqsc("QM1", GRANTED)
        page.click("Test Connection")
        page.wait_for("Test Connection Successful")
