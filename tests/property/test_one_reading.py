"""Report, page, search, downloads and alerts say the same numbers of the same run."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqdlq.ledger import Ledger
from mqdlq.model import Outcome, Verdict
from mqdlq.reading.filters import MessageFilter, Presence, RunMessageFilter
from mqdlq.reading.find import Search
from mqdlq.reading.outcome_files import outcome_file
from mqdlq.reading.report.building import RunReading, read_report, summarize_run
from mqdlq.reading.report.files import write_report
from mqdlq.reading.run import read_sources
from mqdlq.reading.run_messages import MessageList
from mqdlq.reasons import Why
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


def outcomes_of(document: dict[str, Any]) -> Counter[str]:
    account = document["account"]
    return Counter(account["outcomes"] if account is not None else {})


@settings(deadline=None, max_examples=40)
@given(RUNS)
def test_everything_that_reads_a_run_counts_alike(run: EndedRun) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQDLQ_HOME", name)
        with ledger_in(Path(name)) as ledger:
            check(run.record(ledger, f"{name}/lake"), ledger, f"{name}/lake")


def check(run_id: str, ledger: Ledger, root: str) -> None:
    places: dict[str, Any] = {"ledger": ledger, "lake_root": root}
    report = read_report(run_id, stages=ALL_WELL, now=WRITTEN_AT, **places)
    before = summarize_run(run_id, ledger, root)
    files = write_report(run_id, stages=ALL_WELL, clock=lambda: WRITTEN_AT, **places)
    page = summarize_run(run_id, ledger, root)
    document = json.loads(files.json_path.read_text(encoding="utf-8"))
    listed = MessageList(read_sources(run_id, ledger, root), ledger)

    # The page reads counts, the report every message.
    names = [one.name for one in fields(RunReading) if one.name not in {"sources", "is_reported"}]
    assert [getattr(page, name) for name in names] == [getattr(report, name) for name in names]
    assert before.account == report.account
    assert before.needs_attention == report.needs_attention
    assert files.adds_up == (report.account is None or report.account.adds_up) or (
        report.account is not None and report.account.last_browse is None
    )
    assert files.failed == report.failed == (page.verdict is Verdict.FAILED)
    assert sum(files.attention.values()) == report.needs_attention
    recorded = ledger.accounts.verdict_of(run_id)
    assert recorded is not None
    assert (recorded.verdict, recorded.headline, recorded.attention) == (
        report.verdict,
        report.headline,
        report.needs_attention,
    )

    told = outcomes_of(document)
    assert document["needs_attention"] == report.needs_attention
    assert report.headline in " ".join(files.text.split())
    assert told == {str(one): number for one, number in (outcomes(report).items())}
    for outcome in (*Outcome, Presence.NO_OUTCOME):
        if outcome is Outcome.NOT_SELECTED:
            continue
        selected, _ = listed.select(RunMessageFilter(outcome=outcome))
        number = report.without_outcome if outcome is Presence.NO_OUTCOME else told[outcome.value]
        found = Search(MessageFilter(state=outcome), ["demo"], ledger, root).page().messages
        assert len(selected) == number == len(found)

    everything, _ = listed.select(RunMessageFilter())
    text = b"".join(outcome_file("csv", run_id, listed, everything)).decode()
    rows = Counter(row["outcome"] for row in csv.DictReader(io.StringIO(text)))
    assert rows.pop("", 0) == report.without_outcome
    assert rows == told


def outcomes(report: Any) -> dict[Outcome, int]:
    return dict(report.account.outcomes) if report.account is not None else {}
