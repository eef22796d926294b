"""Report, page, search, downloads, metrics and alerts say the same numbers of the same run."""

from __future__ import annotations

import csv
import io
import json
import socket
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.sdk._shared.observability.metrics.stats import _get_backend
from airflow.sdk._shared.observability.metrics.statsd_logger import SafeStatsdLogger
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from hypothesis import given, settings
from hypothesis import strategies as st

from mqdlq.airflow.metrics import emit
from mqdlq.handlers import Handler
from mqdlq.handlers.operation import Alerts
from mqdlq.lake.filters import MessageFilter, Presence, RunMessageFilter
from mqdlq.ledger import Ledger
from mqdlq.model import Outcome, Verdict
from mqdlq.reading.alerts import alerts_of
from mqdlq.reading.find import Search, found_messages
from mqdlq.reading.outcome_files import outcomes_of
from mqdlq.reading.report.building import Report, RunReading, read_report, summarize_run
from mqdlq.reading.report.files import ReportFiles, write_report
from mqdlq.reading.run import read_sources
from mqdlq.reading.run_messages import MessageList
from mqdlq.reasons import Why
from mqdlq.words import NO_OUTCOME, count
from tests.unit.reading.report.conftest import WRITTEN_AT
from tests.unit.reading.report.ended_runs import (
    ALL_WELL,
    EndedRun,
    Try,
    bare,
    delivered,
    discarded,
    exhausted,
    forwarded,
    ledger_in,
    left_by_rule,
    truncated,
    unmatched,
)

pytestmark = pytest.mark.slow

LETTERS = st.sampled_from(
    [
        delivered(),
        delivered(tries=(Try(20.0, 2053), Try(26.0))),
        delivered(outcome=None, tries=(Try(20.0, 2053),)),
        forwarded(),
        discarded(),
        exhausted(),
        exhausted(outcome=Outcome.NOT_ATTEMPTED, why=Why.DRY_RUN(), tries=()),
        left_by_rule(),
        unmatched(),
        unmatched(outcome=None),
        bare(),
        truncated(),
    ]
)
RUNS = st.builds(
    EndedRun,
    st.lists(LETTERS, max_size=12),
    plan=st.booleans(),
    last_browse=st.booleans(),
    dry_run=st.booleans(),
    arrived=st.integers(0, 2),
    returned=st.integers(0, 1),
)


NEEDED: Final = ("unprocessable", "exhausted", "quarantined")
"""The outcomes that alerts count."""
QUIET: Final = Alerts(growth=1_000, oldest_age=timedelta(days=365))


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[socket.socket]:
    """Listen as a StatsD server does, and have Airflow send its metrics here."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        pytest.MonkeyPatch.context() as p,
    ):
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        p.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        p.setenv("AIRFLOW__METRICS__STATSD_PORT", str(server.getsockname()[1]))
        p.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        yield server
        logger = _get_backend()
        assert isinstance(logger, SafeStatsdLogger)
        logger.statsd.close()
        p.undo()
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


@settings(deadline=None, max_examples=40)
@given(run=RUNS)
def test_everything_that_reads_a_run_counts_alike(run: EndedRun, server: socket.socket) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQDLQ_HOME", name)
        with ledger_in(Path(name)) as ledger:
            check(run.record(ledger, f"{name}/lake"), ledger, f"{name}/lake", server)


def check(run_id: str, ledger: Ledger, root: str, server: socket.socket) -> None:
    places: dict[str, Any] = {"ledger": ledger, "lake_root": root}
    report = read_report(run_id, stages=ALL_WELL, now=WRITTEN_AT, **places)
    before = summarize_run(run_id, ledger, root)
    files = write_report(run_id, stages=ALL_WELL, clock=lambda: WRITTEN_AT, **places)
    page = summarize_run(run_id, ledger, root)

    # The page reads counts, the report every message.
    names = [one.name for one in fields(RunReading) if one.name not in {"sources", "is_reported"}]
    assert [getattr(page, name) for name in names] == [getattr(report, name) for name in names]
    assert before.account == report.account
    assert before.needs_attention == report.needs_attention
    closed = report.account is not None and report.account.last_browse is not None
    assert files.adds_up == (not closed or not page.account or page.account.adds_up)
    assert files.failed == report.failed == (page.verdict is Verdict.FAILED)
    assert sum(files.attention.values()) == report.needs_attention
    recorded = ledger.accounts.verdict_of(run_id)
    assert recorded is not None
    assert (recorded.verdict, recorded.headline, recorded.attention) == (
        report.verdict,
        report.headline,
        report.needs_attention,
    )

    told = Counter(
        {str(one): n for one, n in report.account.outcomes.items()} if report.account else {}
    )
    check_files(files, report, told)
    check_lists(run_id, report, told, **places)
    check_metrics_and_alerts(run_id, files, told, ledger, server)


def check_files(files: ReportFiles, report: Report, told: Counter[str]) -> None:
    """Compare the report's text, HTML and JSON with its numbers."""
    document = json.loads(files.json_path.read_text(encoding="utf-8"))
    text, html = " ".join(files.text.split()), files.html_path.read_text(encoding="utf-8")
    assert document["needs_attention"] == report.needs_attention
    assert Counter((document["account"] or {"outcomes": {}})["outcomes"]) == told
    for place in (text, html, document["headline"]):
        assert report.headline in place
    counted = {Outcome(name).words: number for name, number in told.items()}
    for words, number in (counted | {NO_OUTCOME: report.without_outcome}).items():
        if number:
            assert f"{number:,} {words}" in text
            assert f"{number:,} {words}</span>" in html
    if report.needs_attention:
        assert f"Needs attention {count(report.needs_attention, 'message')}" in text
        assert f'Needs attention <span class="total">{report.needs_attention:,}</span>' in html


def check_lists(
    run_id: str, report: Report, told: Counter[str], ledger: Ledger, lake_root: str
) -> None:
    """Compare the page's list, the search and both downloads with the report's numbers."""
    listed = MessageList(read_sources(run_id, ledger, lake_root), ledger)
    for outcome in (*Outcome, Presence.NO_OUTCOME):
        if outcome is Outcome.NOT_SELECTED:
            continue
        selected, _ = listed.select(RunMessageFilter(outcome=outcome))
        number = report.without_outcome if outcome is Presence.NO_OUTCOME else told[outcome.value]
        found = Search(MessageFilter(state=outcome), ["demo"], ledger, lake_root).page().messages
        assert len(selected) == number == len(found)
    everything, _ = listed.select(RunMessageFilter())
    searched = Search(MessageFilter(), ["demo"], ledger, lake_root).messages()
    for one in (outcomes_of("", run_id, listed, everything), found_messages(searched)):
        lines = io.StringIO(b"".join(one.parts("csv")).decode())
        rows = Counter(row["outcome"] for row in csv.DictReader(lines))
        assert rows.pop("", 0) == report.without_outcome
        assert rows == told


def check_metrics_and_alerts(
    run_id: str, files: ReportFiles, told: Counter[str], ledger: Ledger, server: socket.socket
) -> None:
    run = ledger.runs.get(run_id)
    assert run is not None
    handler = Handler(name="demo", directory=Path(), connection="mq", rules="x")
    emit(run, files, handler, ledger=ledger, now=WRITTEN_AT)
    sent: dict[str, Counter[str]] = defaultdict(Counter)
    with suppress(BlockingIOError):
        while line := server.recv(4096).decode():
            name, *tags = line.rpartition(":")[0].split(",")
            outcome = dict(tag.split("=", 1) for tag in tags).get("outcome", "")
            number = int(float(line.rpartition(":")[2].partition("|")[0]))
            sent[name.removeprefix("airflow.mqdlq.")][outcome] += number
    assert sent["outcomes"] == told
    if ledger.accounts.of_run(run_id) is not None:
        assert +sent["needs_attention"] == Counter(map_keys(files.attention))

    alerts, _ = alerts_of(run, files, QUIET, ledger=ledger, now=WRITTEN_AT)
    counted = {str(one.event): one.title for one in alerts if one.event in NEEDED}
    assert counted.keys() == {name for name in NEEDED if told[name]}
    assert all(f" {count(told[name], 'message')} " in title for name, title in counted.items())


def map_keys(attention: Mapping[Outcome, int]) -> dict[str, int]:
    return {str(outcome): number for outcome, number in attention.items()}
