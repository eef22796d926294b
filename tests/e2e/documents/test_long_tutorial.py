"""The tutorial: its commands print what it shows, and its steps in Airflow work in a browser.

MQDLQ_PICTURES names the directory that the pictures go to, docs/images for the project's own.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqdlq.airflow.params import SCHEMAS
from tests.e2e.running.browser import Page, browser
from tests.e2e.running.services import Airflow, airflow
from tests.support.docs.console import checkout, commands, differences, run_in_one_shell
from tests.support.paths import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.long]

TYPED = commands(ROOT / "docs" / "tutorial" / "first-queue.md")


def test_the_tutorials_commands_print_what_it_shows(tmp_path: Path) -> None:
    typed = [command for command in TYPED if command.program not in {"git", "make"}]

    printed = run_in_one_shell([command.text for command in typed], checkout(tmp_path / "mqdlq"))

    found = zip(typed, printed, strict=True)
    missing = {c.text: (lines, out) for c, out in found if (lines := differences(c.output, out))}
    assert not missing


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """Create the tutorial's queue manager with its dead letters, and its handler."""
    place = checkout(tmp_path / "mqdlq")
    first = ("cat ", "mqdlq qm create", "mqdlq qm load")
    texts = [command.text for command in TYPED if command.text.startswith(first)]
    run_in_one_shell([". .venv/bin/activate", *dict.fromkeys(texts)], place)
    return place


@pytest.fixture(name="running")
def _running(place: Path) -> Iterator[Airflow]:
    """Start Airflow as `make up` does, on a free port, with the tutorial's connection."""
    (export,) = (command.text for command in TYPED if command.program == "export")
    name, _, value = shlex.split(export)[1].partition("=")
    settings = {name: value, "MQDLQ_RULES_DIR": str(place / "include" / "rules")}
    with airflow(place / "var", **settings) as found:
        found.wait_for_dag("shop")
        yield found


def start(page: Page, running: Airflow, picture: Path) -> str:
    """Start a run by the trigger form; return its id."""
    page.open(f"{running.services.address}/dags/mq_dlq_shop", "mq_dlq_shop", "sense", "report")
    page.click("Trigger")
    page.wait_for("Trigger Dag - mq_dlq_shop", *(str(x["title"]) for x in SCHEMAS.values()))
    page.picture(picture)
    page.run(
        "[...document.querySelectorAll('[role=dialog] button')]"
        ".find(e => e.innerText.trim() === 'Trigger').click()"
    )
    running.wait(lambda: bool(running.runs("shop")))
    return str(running.runs("shop")[0]["dag_run_id"])


def test_the_tutorials_steps_in_airflow_lead_to_the_report(
    running: Airflow, place: Path, tmp_path: Path
) -> None:
    pictures = Path(os.environ.get("MQDLQ_PICTURES") or tmp_path)
    dag = f"{running.services.address}/dags/mq_dlq_shop"
    with browser(tmp_path / "browser") as page:
        page.ask("Emulation.setScrollbarsHidden", hidden=True)
        page.log_in(running.services.address, running.token)
        run = start(page, running, pictures / "trigger-form.webp")
        running.wait_for_question("shop", run)
        page.open(
            f"{dag}/runs/{run}/tasks/approve/required_actions",
            "May shop act on SHOP.DLQ of SHOP?",
            "2 messages may be discarded",
        )
        page.picture(pictures / "approval.webp")
        page.click("Approve")

        assert running.wait_for_run("shop", run) == "success", running.tasks("shop", run)

        page.open(dag, "mq_dlq_shop", "sense", "report")
        page.picture(pictures / "grid.webp")
        page.open(
            f"{running.services.address}/mqdlq/dags/mq_dlq_shop",
            "1 message unmatched",
            "INVOICES.IN @ SHOP",
            "Act on 1 message",
        )
        page.run("document.querySelector('.card').scrollIntoView({block: 'end'}); true")
        page.picture(pictures / "shop.webp")
        (report,) = (place / "var" / "reports").glob("*/report.html")
        page.open(report.as_uri(), "MQRC_NOT_AUTHORIZED", "ORDERS.PARKED")
        page.picture(pictures / "report.webp")
    assert running.outcomes("shop", run) == {
        "delivered": 3,
        "forwarded": 2,
        "discarded": 2,
        "unmatched": 1,
    }
