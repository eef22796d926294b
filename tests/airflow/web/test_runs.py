"""Test the pages of runs and rules, over the demo world and over runs that went wrong."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from mqdlq.failures import Failure
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import RampState, RecordedVerdict, Subject
from mqdlq.model import RampPhase
from mqdlq.reasons import Why
from mqdlq.web import requests
from mqdlq.web.app import application
from tests.support.web.airflow_app import AirflowApp
from tests.support.web.demo_world import (
    DRY,
    EMPTY,
    FAILED,
    FIRST,
    HOSTILE,
    LAST,
    NAMES,
    WAITING,
)
from tests.support.web.page_text import words_of
from tests.support.web.recorded_runs import RecordedRun
from tests.support.world import NOON, World, create_ledger

DEMO = "/mqdlq/dags/mq_dlq_demo"


def text_of(airflow: AirflowApp, path: str, status: int = 200) -> str:
    """Return the text of a page, without its elements and its navigation."""
    answer = airflow.client("viewer").get(path)
    assert answer.status_code == status, answer.text
    content = answer.text.partition("<main")[2]
    return words_of(re.sub(r"<svg.*?</svg>", "", content, flags=re.DOTALL))


def test_the_list_has_every_run_with_its_verdict(airflow: AirflowApp) -> None:
    text = text_of(airflow, f"{DEMO}/runs")

    assert "4 runs" in text
    places = [text.index(run) for run in (FAILED, LAST, FIRST, DRY)]
    assert places == sorted(places)
    assert (
        "Failed The run ended at execute: none of 9 messages was acted on; nothing was touched."
        in text
    )
    assert "dry run" in text
    assert "✓ the account adds up" in text
    assert "✗ the account does not add up" not in text  # the failed run has none


def test_filters_of_the_list_are_in_its_address(airflow: AirflowApp) -> None:
    text = text_of(airflow, f"{DEMO}/runs?state=failed&since=2026-11-21&until=2026-11-21")

    assert "1 run " in text
    assert FAILED in text
    assert LAST not in text
    assert "No run fits the filters." in text_of(airflow, f"{DEMO}/runs?state=refused")


TIME = "a day or a time in UTC, such as 2026-11-21 or 2026-11-21T09:30"
FAULTS = {
    "runs?since=yesterday": f"since: found 'yesterday'; expected {TIME}",
    "runs?until=2026-02-30": f"until: found '2026-02-30'; expected {TIME}",
    "runs?until=9999-12-31": f"until: found '9999-12-31'; expected {TIME}",
    "runs?page=0": "page: found '0'; expected a number from 1",
    f"runs/{LAST}?rule=two": "rule: found 'two'; expected a number from 0",
    f"runs/{LAST}?message_key=xyz": "message_key: found 'xyz'; expected 64 hexadecimal digits",
    f"runs/{LAST}?key=abcdef": "key: no filter has this name; expected one of since, until, text",
}


@pytest.mark.parametrize(("path", "fault"), FAULTS.items())
def test_a_value_that_is_not_valid_is_named(airflow: AirflowApp, path: str, fault: str) -> None:
    assert fault in text_of(airflow, f"{DEMO}/{path}", 422)


def test_states_and_outcomes_that_do_not_exist_are_named(airflow: AirflowApp) -> None:
    assert "state: found 'green'; expected one of ok" in text_of(
        airflow, f"{DEMO}/runs?state=green", 422
    )
    assert "outcome: found 'lost'; expected one of no_outcome, delivered" in text_of(
        airflow, f"{DEMO}/runs/{LAST}?outcome=lost", 422
    )


def test_a_run_has_its_verdict_account_plan_and_causes(airflow: AirflowApp) -> None:
    text = text_of(airflow, f"{DEMO}/runs/{FIRST}")

    assert "Needs attention · 16 messages: 14 handled, 1 needs attention, 1 left by rule." in text
    assert "16 messages in the snapshot = 16 accounted for. ✓ It adds up." in text
    assert "15 planned; 1 settled by earlier runs: 1 unprocessable." in text
    assert "Discards Rule 5 (line 8): 3 messages planned" in text
    assert "acts on messages" in text
    assert "MQRC_Q_FULL (2053)" in text
    assert "Attempts over time 14" in text
    assert (
        "The run forwarded or delivered 11 messages, which cannot be undone: no copy is made"
        in text
    )


def test_a_dry_run_says_so(airflow: AirflowApp) -> None:
    assert "dry run: nothing is moved" in text_of(airflow, f"{DEMO}/runs/{DRY}")


def test_a_run_is_compared_with_the_previous_run(airflow: AirflowApp) -> None:
    text = text_of(airflow, f"{DEMO}/runs/{LAST}")

    assert "against the previous run Rule 2, RETRY to PAYMENTS @ QM1: 6 → 0 (-6)" in text
    assert "Rule 3 (line 6) to CLOSED" not in text  # it decided: its row says that it failed
    assert "2 exhausted" in text


def test_a_failed_run_names_the_failure_and_the_messages_without_an_outcome(
    airflow: AirflowApp,
) -> None:
    text = text_of(airflow, f"{DEMO}/runs/{FAILED}?outcome=no_outcome")

    assert "stage execute failed" in text
    assert "There is no account: no unit of work was begun, and nothing was touched." in text
    assert "Messages 3 that fit the filters" in text


def test_the_page_of_a_run_that_touched_nothing_has_no_account(
    airflow: AirflowApp,
) -> None:
    text = text_of(airflow, f"{DEMO}/runs/{FAILED}")

    assert "The snapshot has 9 messages." in text
    assert "add up" not in text


def test_a_run_that_waits_for_an_approval_is_not_judged(airflow: AirflowApp) -> None:
    text = text_of(airflow, f"/mqdlq/dags/mq_dlq_payments/runs/{WAITING}")

    assert "Waits for approval · 4 messages, of which 0 have an outcome so far." in text
    assert "The account is open: the run has not browsed the queue a last time." in text
    assert "because of the guard discard." in text
    assert "does not add up" not in text
    listed = text_of(airflow, "/mqdlq/dags/mq_dlq_payments/runs")
    assert "Waits for approval Its plan has waited since" in listed
    assert listed.count(". Review the plan") == 1


def test_a_run_on_an_empty_queue_says_when_it_looked(airflow: AirflowApp) -> None:
    text = text_of(airflow, f"/mqdlq/dags/mq_dlq_quiet/runs/{EMPTY}")

    assert "Nothing to do · Queue empty, last checked 2026-11-21 10:00:05 UTC." in text


def test_a_handler_without_runs_says_so(airflow: AirflowApp) -> None:
    never = "/mqdlq/dags/mq_dlq_never"

    assert "No run of this handler is recorded, and none was refused." in text_of(
        airflow, f"{never}/runs"
    )
    rules = text_of(airflow, f"{never}/rules")
    assert "No run of this handler has read a rules table yet." in rules
    next_step = "A person who may start runs of the DAG in Airflow can start a dry run"
    for path in ("", "/runs", "/rules", "/causes", "/history"):
        assert next_step in text_of(airflow, f"{never}{path}")
    assert "will be read by the first run" in rules


@pytest.mark.parametrize(
    "path",
    [
        f"{DEMO}/runs/{NAMES}",
        f"{DEMO}/runs/nothing",
        f"{DEMO}/runs/nothing?download=csv",
        f"{DEMO}/rules?run_id={NAMES}",
        f"{DEMO}/rules?from=a&to=b",
    ],
)
def test_a_run_of_another_handler_is_not_found(airflow: AirflowApp, path: str) -> None:
    assert airflow.client("admin").get(path).status_code == 404


def test_hostile_names_are_visible_and_harmless(airflow: AirflowApp) -> None:
    names = f"/mqdlq/dags/mq_dlq_names/runs/{NAMES}"
    page = airflow.client("viewer").get(names).text

    assert "<script>alert" not in page
    assert html.escape(HOSTILE[0], quote=False)[:20] in page
    assert "\\u202eyenom" in page
    assert "\\x1b[31mred" in page
    assert not set(page) & {"\u202e", "\x1b", "\a", "\b"}
    assert "Messages 1 that fit the filters" in text_of(airflow, f"{names}?text=YENOM")


def test_the_filtered_outcomes_are_downloaded_in_three_forms(airflow: AirflowApp) -> None:
    client = airflow.client("viewer")
    found = {
        form: client.get(f"{DEMO}/runs/{LAST}?outcome=unmatched&download={form}")
        for form in ("csv", "jsonl", "parquet")
    }

    assert found["csv"].headers["content-disposition"] == f'attachment; filename="{LAST}.csv"'
    rows = list(csv.DictReader(io.StringIO(found["csv"].text)))
    records = [json.loads(line) for line in found["jsonl"].text.splitlines()]
    table = pq.read_table(io.BytesIO(found["parquet"].content))
    assert [row["msg_id"] for row in rows] == table.column("msg_id").to_pylist()
    assert {record["outcome"] for record in records} == {"unmatched"}
    assert len(rows) == len(records) == table.num_rows == 4
    assert client.get(f"{DEMO}/runs/{LAST}?download=exe").status_code == 422


def test_rules_have_their_findings_their_use_and_their_numbers(airflow: AirflowApp) -> None:
    text = text_of(airflow, f"{DEMO}/rules")

    assert "Table 2 findings" in text
    assert "Warning, column 73: the line has 92 columns" in text
    assert "4 runs with this table and 49 messages" in text
    assert (
        "Rule 6 line 9 DESTQ(NOBODY.*) REASON(MQRC_NOT_AUTHORIZED) ACTION(IGNORE) Never used"
        in text
    )
    assert "RETRY(2) All attempts failed" in text
    assert "is the table of the newest run." in text


def test_a_rule_leads_to_its_messages(airflow: AirflowApp) -> None:
    page = airflow.client("viewer").get(f"{DEMO}/rules").text
    (link,) = set(re.findall(rf'href="({DEMO}/runs/[^"]+\?rule=3)#messages"', page))

    assert "Rule 3" in text_of(airflow, link)
    assert "Messages 2 that fit the filters" in text_of(airflow, f"{DEMO}/runs/{LAST}?rule=3")


def verdict_of(ledger: Ledger, run_id: str) -> RecordedVerdict:
    found = ledger.accounts.verdict_of(run_id)
    assert found is not None
    return found


def test_the_page_has_the_error_of_each_stage_and_the_next_step(
    airflow: AirflowApp, own_world: World
) -> None:
    failure = Failure("snapshot", "MQGET failed [MQDLQ-100]", "MQDLQ-100", "set GET(ENABLED)")
    ledger = own_world.ledger
    why = f"stage execute failed: {failure.why}"
    ledger.accounts.record_verdict(FAILED, replace(verdict_of(ledger, FAILED), why=why), {})
    for run_id in (FAILED, LAST, "restore-1"):
        ledger.runs.record_failure(run_id, "demo", replace(failure, task="execute"), NOON)

    shown = "task execute: MQGET failed [MQDLQ-100] Next: set GET(ENABLED)"
    assert shown in text_of(airflow, f"{DEMO}/runs/{FAILED}")
    assert shown in text_of(airflow, f"{DEMO}/runs/restore-1")
    assert shown not in text_of(airflow, f"{DEMO}/runs/{LAST}")  # a later attempt succeeded


def test_faults_are_shown_and_never_hidden(airflow: AirflowApp, own_world: World) -> None:
    ledger: Ledger = own_world.ledger
    ledger.runs.record_failure(
        "demo-manual__bad", "demo", Failure("sense", "no such table: x.rules"), NOON
    )
    snapshot = ledger.snapshots.of_run(FIRST)
    assert snapshot is not None
    (Path(snapshot.location) / "_MANIFEST.json").unlink()
    rules = Path(own_world.directory) / "handlers" / "demo.rules"
    changed = rules.read_text().replace("DESTQ(CLOSED) ACTION(RETRY)", "DESTQ(SHUT) ACTION(RETRY)")
    rules.write_text(changed)

    refused = text_of(airflow, f"{DEMO}/runs/demo-manual__bad")
    unreadable = text_of(airflow, f"{DEMO}/runs/{FIRST}")
    differs = text_of(airflow, f"{DEMO}/rules")
    rules.write_text("REASON(NO_SUCH) ACTION(RETRY)\n")
    rejected = text_of(airflow, f"{DEMO}/rules")

    assert "Refused: the run did not start" in refused
    assert "no such table: x.rules" in refused
    assert "Refused The run did not start: no such table" in text_of(airflow, f"{DEMO}/runs")
    assert "the snapshot cannot be read: " in unreadable
    assert "messages are listed as the ledger has them" in unreadable
    assert "Messages 15" in unreadable
    assert "differs from the table of the newest run." in differs
    assert "- DESTQ(CLOSED) ACTION(RETRY) RETRY(2)" in differs
    assert "In meaning changed, line 6 -> 6: DESTQ(CLOSED)" in differs
    assert "Today's table cannot be used. The next run will be refused." in rejected
    assert "NO_SUCH" in rejected


def test_a_refused_run_leads_to_its_dag_run_if_airflow_has_it(
    airflow: AirflowApp, own_world: World
) -> None:
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 (reads settings)
    from airflow.models.serialized_dag import SerializedDagModel  # noqa: PLC0415 (the same)
    from airflow.utils.session import create_session  # noqa: PLC0415 (the same)
    from airflow.utils.state import DagRunState  # noqa: PLC0415 (the same)
    from airflow.utils.types import DagRunTriggeredByType, DagRunType  # noqa: PLC0415 (the same)

    at, name = "2026-11-21T02", "mq_dlq_demo"
    for minute in (49, 50):
        refused = f"demo-manual__{at}-{minute}-22"
        own_world.ledger.runs.record_failure(
            refused, "demo", Failure("sense", "no such table"), NOON
        )
    with create_session() as session:
        dag: Any = SerializedDagModel.get_dag(name)
        dag.create_dagrun(
            run_id=f"manual__{at}:49:22+00:00",
            run_after=NOON,
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.UI,
            state=DagRunState.FAILED,
            session=session,
        )
    viewer = airflow.client("viewer")
    found, gone = (
        viewer.get(f"{DEMO}/runs/demo-manual__{at}-{minute}-22").text for minute in (49, 50)
    )
    with create_session() as session:
        session.query(DagRun).filter_by(dag_id=name).delete()

    run = f'href="/dags/{name}/runs/manual__{at}%3A49%3A22%2B00%3A00"'
    assert run in found
    assert run not in gone
    assert f'href="/dags/{name}" target="_top"' in gone


def test_a_run_without_a_plan_or_a_snapshot_says_so(airflow: AirflowApp, own_world: World) -> None:
    ledger = own_world.ledger
    (Path(own_world.lake_root) / "plans").rename(Path(own_world.lake_root) / "gone")
    old = ledger.runs.get(FIRST)
    assert old is not None
    started = replace(old, run_id="demo-manual__new", started_at=NOON - timedelta(hours=9))
    ledger.runs.record(started)

    assert "the lake no longer has the plan" in text_of(airflow, f"{DEMO}/runs/{FIRST}")
    new = text_of(airflow, f"{DEMO}/runs/demo-manual__new")
    assert "Not finished · No snapshot yet" in new
    assert "There is no account: the run took no snapshot." in new
    assert "no plan was made" in new
    assert "No task runs, and there is no report" in new
    assert "No report No report, and its time limit of 1 h 0 min is over" in text_of(
        airflow, f"{DEMO}/runs"
    )


def test_a_run_shows_how_far_its_ramps_are(airflow: AirflowApp, tmp_path: Path) -> None:
    create_ledger(tmp_path / "ledger.db")
    step = Why.RAMP_STEP(step=1, steps=3, messages=1)
    why = Why.STEP_WATCHED(step=step, place="PAYMENTS @ QM1", until=NOON, unmet=None)
    with open_ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        run = RecordedRun(run={"controls": '{"ramp": {}}'}).record(ledger)
        subject = Subject(run.queue_manager, run.queue, "0bc7646ee98b", "PAYMENTS", "QM1")
        state = RampState(
            run.run_id, RampPhase.WATCHING, 1, 1, None, 0, 0, NOON, why, run.started_at
        )
        ledger.ramps.record(subject, state)
        overrides = application().dependency_overrides
        with patch.dict(overrides, {requests.ledger: lambda: ledger}):
            text = text_of(airflow, f"{DEMO}/runs/{run.run_id}")

    assert f"cause 0bc7646ee98b, to PAYMENTS @ QM1: {why.words}" in text
