"""The workflow under Airflow's real services: all that people do to it, and that befalls it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from browser import browser
from services import ENDED, Airflow, airflow, now

import postgresql
from mqdlq.airflow.params import SCHEMAS
from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.headers import DeadLetterHeader, encode_dlh
from mqdlq.ledger import last_approval, last_look
from world import DEFINITIONS, World

pytestmark = [pytest.mark.e2e, pytest.mark.long]

EXTRA = {"queue_manager": "QM1", "transport": "embedded"}
QUIET_S = 10
"""Airflow takes a task that is answered at once for failed: people are slower than that."""

TABLES = {
    "plain": "WAIT(NO) RETRYINT(2)\nDESTQ(PAYMENTS) ACTION(RETRY)\nDESTQ(QUOTES) ACTION(DISCARD)\n",
    "ask": "WAIT(NO) RETRYINT(2)\nDESTQ(QUOTES) ACTION(DISCARD)\nACTION(IGNORE)\n",
    "wait": "WAIT(300) RETRYINT(2)\nDESTQ(PAYMENTS) ACTION(RETRY)\n",
    "night": "WAIT(NO) RETRYINT(2)\nDESTQ(PAYMENTS) ACTION(IGNORE)\n",
    "retry": (
        "WAIT(NO) RETRYINT(14)\nDESTQ(CLOSED) ACTION(RETRY) RETRY(2)\n"
        "DESTQ(CLOSED) ACTION(FWD) FWDQ(PARKED)\n"
    ),
}
KEYS = {
    "ask": "approval: {discard: yes, within: PT30M}\n",
    # Scheduled runs find nothing new, and leave the queue to the backfills.
    "night": "schedule: '*/2 * * * *'\nrescan_interval: PT1H\n",
    "retry": "task_retries: 2\n",
}


class Place:
    """A queue manager with a dead-letter queue for each handler, and Airflow over it."""

    def __init__(self, directory: Path) -> None:
        self.world = World(directory, definitions=DEFINITIONS)
        rules = directory / "rules"
        rules.mkdir(exist_ok=True)
        for name, table in TABLES.items():
            queue = f"DLQ.{name.upper()}"
            self.world.mqsc(f"DEFINE QLOCAL({queue})")
            (rules / f"{name}.rules").write_text(f"INPUTQ({queue}) {table}")
            (rules / "new.rules").write_text(
                "INPUTQ(DLQ.NIGHT) WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n"
            )
            (rules / f"{name}.yaml").write_text(
                f"connection: mq_long\nrules: {name}.rules\n{KEYS.get(name, '')}"
            )

    def put(self, handler: str, dest_q: str) -> None:
        header = DeadLetterHeader(
            2053, dest_q, "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
        )
        body = encode_dlh(header, encoding=546, ccsid=819) + dest_q.encode()
        fields: dict[str, Any] = {"Format": b"MQDEAD  ", "Encoding": 546, "CodedCharSetId": 819}
        self.world.put(f"DLQ.{handler.upper()}", body, **fields)

    def depths(self, *queues: str) -> tuple[int, ...]:
        return self.world.depths(*queues)


@pytest.fixture(scope="module", name="place")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("long"))


@pytest.fixture(scope="module", name="running")
def _running(place: Place) -> Iterator[Airflow]:
    """Start Airflow once for all tests of this file, over PostgreSQL as in production."""
    metadata = postgresql.running().new_database_url()
    connection = json.dumps({"conn_type": "ibmmq", "extra": EXTRA})
    with airflow(
        place.world.directory,
        AIRFLOW_CONN_MQ_LONG=connection,
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=metadata,
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC=metadata,
        AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION="False",
        # Else the next scheduler takes up what a dead one was running after five minutes only.
        AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL="15",
        AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD="10",
        AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT="20",
        AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL="5",
    ) as found:
        for name in TABLES:
            found.wait_for_dag(name)
        yield found


def test_bad_parameters_are_refused_before_there_is_a_run(running: Airflow) -> None:
    refused = running.try_to_trigger("plain", dry_run="perhaps")

    assert refused.status_code == 400
    assert "Invalid input for param dry_run: 'perhaps' is not of type 'boolean'" in refused.text
    assert running.runs("plain") == []


def test_a_dry_run_never_opens_the_queue_for_input(running: Airflow, place: Place) -> None:
    """Somebody else has it open for exclusive input all the while, which refuses any other."""
    place.put("plain", "PAYMENTS")
    with place.world.connect() as other:
        held = other.open("DLQ.PLAIN", other.client.CMQC.MQOO_INPUT_EXCLUSIVE)
        run = running.trigger("plain", dry_run=True)
        ended = running.wait_for_run("plain", run)
        other.close(held)

    assert ended == "success", running.tasks("plain", run)
    assert running.outcomes("plain", run) == {"not_attempted": 1}
    assert place.depths("DLQ.PLAIN", "PAYMENTS") == (1, 0)


def test_a_run_by_hand_and_every_task_cleared_and_run_again(running: Airflow, place: Place) -> None:
    place.put("plain", "QUOTES")
    place.put("plain", "ELSEWHERE")
    run = running.trigger("plain", wait="NO")
    assert running.wait_for_run("plain", run) == "success", running.tasks("plain", run)
    before = running.outcomes("plain", run)
    assert before == {"delivered": 1, "discarded": 1, "left_no_rule": 1}

    for task in ("sense", "snapshot", "evaluate", "approve", "execute", "retry", "report"):
        running.clear("plain", run, task)
        running.wait_for_task("plain", run, task, "queued", "running", "success")
        assert running.wait_for_run("plain", run) == "success", (task, running.tasks("plain", run))

    assert running.outcomes("plain", run) == before
    assert place.depths("DLQ.PLAIN", "PAYMENTS") == (1, 1)


def look_at_it(running: Airflow, run: str, directory: Path) -> None:
    """See in a browser what people see: the grid, the trigger form, the approval.

    MQDLQ_PICTURES names the directory that the pictures go to, docs/images for the project's own.
    """
    pictures = Path(os.environ.get("MQDLQ_PICTURES") or directory)
    address = running.services.address
    with browser(directory / "browser") as page:
        page.log_in(address, running.token)
        page.open(f"{address}/dags/mq_dlq_ask", "mq_dlq_ask", "sense", "report", "mqdlq")
        page.picture(pictures / "grid.webp")
        page.click("Trigger")
        titles = [str(schema["title"]) for schema in SCHEMAS.values()]
        page.wait_for("Trigger Dag - mq_dlq_ask", *titles, SCHEMAS["wait"]["description"])
        page.picture(pictures / "trigger-form.webp")
        page.open(
            f"{address}/dags/mq_dlq_ask/runs/{run}/tasks/approve/required_actions",
            "May ask act on DLQ.ASK of QM1?",
            "1 messages may be discarded",
            "DISCARD",
        )
        page.picture(pictures / "approval.webp")


@pytest.mark.parametrize(
    ("answer", "outcomes", "left"),
    [
        ("Reject", {"not_attempted": 2}, 2),
        ("Approve", {"discarded": 1, "left_by_rule": 1}, 1),
    ],
)
def test_a_person_decides(
    running: Airflow, place: Place, answer: str, outcomes: dict[str, int], left: int
) -> None:
    decision = {"Reject": "rejected", "Approve": "approved"}[answer]
    if not place.depths("DLQ.ASK")[0]:
        place.put("ask", "QUOTES")
        place.put("ask", "LEGAL")
    run = running.trigger("ask")
    running.wait_for_task("ask", run, "approve", "awaiting_input")
    time.sleep(QUIET_S)
    path = f"/dags/mq_dlq_ask/dagRuns/{run}/taskInstances/approve/-1/hitlDetails"
    asked = running.get(path)
    assert asked["subject"] == "May ask act on DLQ.ASK of QM1?"
    assert "- 1 messages may be discarded" in asked["body"]
    if answer == "Approve":
        look_at_it(running, run, place.world.directory)

    answered = running.call("PATCH", path, chosen_options=[answer], params_input={})

    assert answered.status_code == 200, answered.text
    assert running.wait_for_run("ask", run) == "success", running.tasks("ask", run)
    assert running.outcomes("ask", run) == outcomes
    assert place.depths("DLQ.ASK") == (left,)
    with running.ledger() as ledger:
        approval = last_approval(ledger, ledger_run_id("ask", run))
        plan = ledger.plan(ledger_run_id("ask", run))
    assert approval is not None
    assert plan is not None
    assert (approval.decision, approval.who, approval.guards) == (decision, "admin", ("discard",))
    assert approval.plan_hash == plan.plan_hash


def test_a_message_that_comes_as_the_task_defers_does_not_fail_it(
    running: Airflow, place: Place
) -> None:
    """Airflow takes a task that is resumed while its worker winds up for a failed one."""
    run = running.trigger("wait")
    running.wait_for_task("wait", run, "sense", "deferred")
    place.put("wait", "PAYMENTS")

    assert running.wait_for_run("wait", run) == "success", running.tasks("wait", run)
    assert running.outcomes("wait", run) == {"delivered": 1}


def test_rules_that_change_end_the_wait(running: Airflow, place: Place) -> None:
    run = running.trigger("wait")
    running.wait_for_task("wait", run, "sense", "deferred")
    table = place.world.directory / "rules" / "wait.rules"
    table.write_text(table.read_text() + "ACTION(IGNORE)\n")

    assert running.wait_for_run("wait", run) == "success", running.tasks("wait", run)
    assert running.tasks("wait", run)["snapshot"] == "skipped"
    with running.ledger() as ledger:
        look = last_look(ledger, ledger_run_id("wait", run))
    assert look is not None
    assert look.why == "the rules have changed since this run began: the next run reads them"


def test_a_wait_outlives_the_triggerer(running: Airflow, place: Place) -> None:
    run = running.trigger("wait")
    running.wait_for_task("wait", run, "sense", "deferred")

    running.restart("triggerer")
    place.put("wait", "PAYMENTS")

    assert running.wait_for_run("wait", run) == "success", running.tasks("wait", run)
    assert running.outcomes("wait", run) == {"delivered": 1}


def test_a_run_outlives_the_scheduler_and_all_it_ran(running: Airflow, place: Place) -> None:
    """Killed in mid-task, and while the run is deferred: what was under way is run again."""
    place.put("retry", "CLOSED")
    run = running.trigger("retry")
    running.wait_for_task("retry", run, "evaluate", "running")

    running.restart("scheduler")
    running.wait_for_task("retry", run, "retry", "deferred")
    running.restart("scheduler")

    assert running.wait_for_run("retry", run, 240) == "success", running.tasks("retry", run)
    assert running.outcomes("retry", run) == {"forwarded": 1}
    assert place.depths("DLQ.RETRY", "PARKED") == (0, 1)


def test_a_backfill_says_what_would_be_different_and_acts_once_when_told_to(
    running: Airflow, place: Place
) -> None:
    """Three intervals; the message is in the snapshot of the last one only."""
    # The scheduled runs that come every other minute leave the message to the run by hand.
    running.wait(lambda: _is_quiet(running), 240)
    place.put("night", "PAYMENTS")
    by_hand = running.trigger("night")
    running.wait_for_run("night", by_hand, 300)
    assert running.outcomes("night", by_hand) == {"left_by_rule": 1}
    with running.ledger() as ledger:
        snapshot = ledger.snapshot(ledger_run_id("night", by_hand))
    assert snapshot is not None
    taken = snapshot.taken_at
    last = taken.replace(minute=taken.minute // 2 * 2, second=0, microsecond=0)
    # A backfill passes by an interval whose scheduled run is under way.
    running.wait(lambda: _is_over(running, last), 240)
    window = {
        "from_date": (last - timedelta(minutes=4)).isoformat(),
        "to_date": (last + timedelta(seconds=1)).isoformat(),
    }

    for apply, outcomes in ((False, []), (True, [{"delivered": 1}]), (True, [])):
        before = place.depths("PAYMENTS")[0]
        running.backfill("night", window, {"rules": "new.rules", "apply": apply})
        filled = [run for run in running.runs("night") if run["run_type"] == "backfill"]
        assert len(filled) == 3
        assert {run["state"] for run in filled} == {"success"}
        booked = [running.outcomes_of_backfill("night", run["dag_run_id"]) for run in filled]
        assert [one for one in booked if one] == outcomes
        assert place.depths("PAYMENTS")[0] == before + len(outcomes)
        if not apply:
            assert _changed(place.world.directory) == [
                {"then": "IGNORE", "now": "RETRY to PAYMENTS", "messages": 1}
            ]


def _is_quiet(running: Airflow) -> bool:
    """Whether no run is under way, nor is to begin within the next minute."""
    moment = now()
    is_early = moment.minute % 2 == 0 and moment.second > 2
    return is_early and all(run["state"] in ENDED for run in running.runs("night"))


def _is_over(running: Airflow, start: datetime) -> bool:
    """Whether the scheduled run of the interval that begins here has ended."""
    return any(
        datetime.fromisoformat(run["data_interval_start"]) == start and run["state"] in ENDED
        for run in running.runs("night")
        if run["run_type"] == "scheduled"
    )


def _changed(home: Path) -> list[dict[str, Any]]:
    """Return what the evaluations of backfills have found to be different, all together."""
    files = home.glob("reports/night-*/differences.json")
    return [one for file in files for one in json.loads(file.read_text())["differences"]]
