"""The walk after an outage, in Chromium under Airflow: alert, inbox, cause, one message, the rest.

MQDLQ_WALK_MESSAGES is the number of messages, by default 50,000; with MQDLQ_WALK_PICTURES the
pictures and the count of clicks and seconds are kept in that directory.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from tests.e2e.running.browser import browser
from tests.e2e.running.outage import CAUSE, HANDLER, Outage, outage
from tests.e2e.running.services import Airflow
from tests.e2e.running.walking import Walk

pytestmark = [pytest.mark.e2e, pytest.mark.long]

MESSAGES = int(os.environ.get("MQDLQ_WALK_MESSAGES", "50000"))
LIMIT_S = 900.0
CLICKS = 10
WHY = "queue was full from 02:00 to 03:00, ticket 4711"


def test_the_messages_of_an_outage_are_replayed_from_its_alert(tmp_path: Path) -> None:
    pictures = Path(os.environ.get("MQDLQ_WALK_PICTURES", tmp_path / "pictures"))
    pictures.mkdir(parents=True, exist_ok=True)
    with (
        outage(tmp_path, messages=MESSAGES) as (place, running),
        browser(tmp_path / "browser") as page,
    ):
        place.fill()
        first = running.trigger(HANDLER)
        assert running.wait_for_run(HANDLER, first, LIMIT_S) == "success"
        page.emulate()
        page.log_in(running.services.address, running.token)
        walk = Walk(page, pictures)

        from_alert_to_cause(walk, place, running)
        try_one(walk)
        replay_the_others(walk, running)
        look_at_the_result(walk)

        # docs/how-to/replay-an-outage.md says so, and does not count the look at the inbox.
        assert sum(step.clicks for step in walk.steps[:-1]) == CLICKS
        place.check_delivered()
        check_ledger(running)


def from_alert_to_cause(walk: Walk, place: Outage, running: Airflow) -> None:
    page = walk.page
    alert = next(one for one in place.alerts if one["event"] in {"first_arrival", "new_cause"})
    (address,) = re.findall(rf"{running.services.address}/\S+", alert["text"])
    with walk.step("Open the inbox from the alert"):
        page.open(address, CAUSE, "PAYMENTS @ QM1", f"{MESSAGES:,}")
        walk.count_click()  # the link in the chat
    go_by_keys(walk)
    with walk.step("Open the cause"):
        walk.click("ol.inbox a", CAUSE)
        page.wait_for("What people say of it", "Act on them")
    with walk.step("Choose Retry for all its messages, and preview it"):
        walk.click("a", "Act on them")
        page.wait_for("Act on messages", f"{MESSAGES:,} messages on the queue")
        walk.choose("select[name=action]", "retry")
        walk.click("button", "Preview")
        page.wait_for(f"Retry: {MESSAGES:,} messages", "messages that arrived since are not")


def go_by_keys(walk: Walk) -> None:
    """Try the keys of the inbox; nobody needs them for the walk, so they are not counted."""
    kept = walk.steps[-1].keys
    walk.press("j", "x")
    boxes = "[...document.querySelectorAll('ol.inbox input')].filter(one => one.checked).length"
    assert walk.page.run(boxes) == 1
    walk.press("x", "k", "?")
    assert walk.page.run("document.querySelector('dialog#keys').open")
    walk.press("Escape")
    assert not walk.page.run("document.querySelector('dialog#keys').open")
    walk.press("j", "Enter")
    walk.page.wait_until("document.querySelector('ol.timeline')")
    walk.page.run("history.back()")
    walk.page.wait_until("document.querySelector('ol.inbox')")
    walk.steps[-1].keys = kept


def try_one(walk: Walk) -> None:
    with walk.step("Say why, and try the oldest message"):
        walk.write("textarea[name=why]", WHY)
        walk.click("button", "Try the oldest message first")
        walk.page.wait_for("The run for one message")
    with walk.step("See that it was delivered and has not come back"):
        # The page looks again by itself.
        walk.page.wait_for("has not come back", f"Retry the other {MESSAGES - 1:,} messages")


def replay_the_others(walk: Walk, running: Airflow) -> None:
    page = walk.page
    with walk.step("Replay the others"):
        walk.click("button", f"Retry the other {MESSAGES - 1:,} messages")
        # The page follows the run by itself, until its plan waits for an answer.
        page.wait_until("document.querySelector('button[value=approve]')")
        (run,) = [one for one in running.runs(HANDLER) if one["dag_run_id"].startswith("page__")]
        running.wait_for_question(HANDLER, run["dag_run_id"])
    moved = "Number(document.querySelector('#progress progress')?.value ?? 0)"
    with walk.step("Approve the plan"):
        walk.click("button", "Approve")
        page.wait_until(f"{moved} > 0", LIMIT_S)
    with walk.step("Follow the run"):
        page.run("window.sameDocument = true; true")
        page.wait_until(
            f"{moved} > {MESSAGES // 2} || !document.querySelector('#progress')", LIMIT_S
        )
        assert page.run("window.sameDocument"), "the page was loaded again"


def look_at_the_result(walk: Walk) -> None:
    with walk.step("See the account, when the run has ended"):
        walk.page.wait_until("document.body.innerText.includes('It adds up')", LIMIT_S)
        walk.page.wait_for(f"{MESSAGES - 1:,} delivered")
    with walk.step("Look at the inbox again"):
        walk.click("header a", "Inbox")
        walk.page.wait_for("No cause is open")


def check_ledger(running: Airflow) -> None:
    """Check that each account adds up, and that both runs from the page delivered all messages."""
    with running.ledger() as ledger:
        for run in running.runs(HANDLER):
            verdict = ledger.accounts.verdict_of(ledger_run_id(HANDLER, run["dag_run_id"]))
            assert verdict is not None
            assert verdict.adds_up
    ended = [running.outcomes(HANDLER, run["dag_run_id"]) for run in running.runs(HANDLER)]
    assert sum(one.get("delivered", 0) for one in ended) == MESSAGES
