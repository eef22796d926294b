"""A run that is summarized by SQL comes to the same as its report, which reads every message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Look
from mqdlq.model import AttemptState, Outcome, Verdict
from mqdlq.reading.report.building import read_report, summarize_run
from mqdlq.reading.report.files import write_report
from mqdlq.reasons import Why
from tests.unit.reading.report.conftest import WRITTEN_AT
from tests.unit.reading.report.ended_runs import (
    START,
    EndedMessage,
    EndedRun,
    Try,
    delivered,
    exhausted,
    failed_at,
    left_no_word_at,
    messages_of_every_outcome,
    unmatched,
)

pytestmark = pytest.mark.stages

OF_A_DRY_RUN = [
    delivered(outcome=Outcome.NOT_ATTEMPTED, why=Why.DRY_RUN(), tries=()),
    EndedMessage(
        outcome=Outcome.NOT_ATTEMPTED,
        why=Why.DRY_RUN(),
        rule=5,
        action="IGNORE",
        target_q="",
        tries=(),
    ),
    unmatched(),
]
RUNS: dict[str, EndedRun] = {
    "every outcome": EndedRun(messages_of_every_outcome(), seen=12),
    "all handled": EndedRun([delivered(), delivered()]),
    "an account that does not add up": EndedRun([delivered()], returned=1),
    "a dry run": EndedRun(OF_A_DRY_RUN, dry_run=True),
    "a run without a plan": EndedRun([delivered()], plan=False, last_browse=False),
    "a run without a snapshot": EndedRun(snapshot=False),
    "a run that broke off": EndedRun([unmatched(outcome=None), delivered()], last_browse=False),
    "a run on an empty queue": EndedRun(snapshot=False, look=Look(0, False, "", START)),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_summary_has_the_account_and_verdict_of_the_report(
    run: EndedRun, ledger: Ledger, lake_root: str
) -> None:
    run_id = run.record(ledger, lake_root)
    report = read_report(run_id, ledger=ledger, lake_root=lake_root, stages={}, now=WRITTEN_AT)

    summary = summarize_run(run_id, ledger, lake_root)

    assert summary.account == report.account
    assert (summary.verdict, summary.headline) == (report.verdict, report.headline)
    assert summary.needs_attention == report.needs_attention
    assert summary.rules == report.rules
    assert summary.failed_rules == report.failed_rules
    assert summary.timeline == report.timeline
    assert summary.attempts == report.attempts
    assert not summary.is_reported


def test_a_rule_whose_attempts_all_failed_is_listed(ledger: Ledger, lake_root: str) -> None:
    failed = [Try(20.0, 2053), Try(21.0, 2053)]
    # Rule 2 failed, and rule 1 decided in the end: only the attempts know of rule 2.
    run = EndedRun([exhausted(tries=failed, outcome=None), delivered()])
    run_id = run.record(ledger, lake_root)

    (rule,) = summarize_run(run_id, ledger, lake_root).failed_rules

    assert (rule.rule, rule.attempts, rule.messages, rule.reasons) == (2, 2, 1, {2053: 2})


def test_the_verdict_of_the_last_report_is_kept(ledger: Ledger, lake_root: str) -> None:
    run_id = EndedRun([delivered()]).record(ledger, lake_root)
    write_report(
        run_id,
        ledger=ledger,
        lake_root=lake_root,
        stages=failed_at("retry"),
        clock=lambda: WRITTEN_AT,
    )

    summary = summarize_run(run_id, ledger, lake_root)

    assert summary.is_reported
    assert (summary.verdict, summary.why) == (Verdict.FAILED, left_no_word_at("retry"))


def test_an_unreadable_snapshot_is_a_trouble_and_the_counts_stay(
    ledger: Ledger, lake_root: str
) -> None:
    run_id = EndedRun([delivered(), unmatched()]).record(ledger, lake_root)
    snapshot = ledger.snapshots.of_run(run_id)
    assert snapshot is not None
    (Path(snapshot.location) / "_MANIFEST.json").unlink()

    summary = summarize_run(run_id, ledger, lake_root)

    assert summary.account is not None
    assert summary.account.outcomes == {Outcome.DELIVERED: 1, Outcome.UNMATCHED: 1}
    assert summary.sources.troubles[0].startswith("the snapshot cannot be read: ")
    assert summary.attempts == {AttemptState.CONFIRMED: 1}


def test_a_run_for_named_messages_accounts_for_the_others(ledger: Ledger, lake_root: str) -> None:
    run_id = EndedRun([delivered()]).record(ledger, lake_root)
    run = ledger.runs.get(run_id)
    assert run is not None
    key = ledger.messages.of_run(run_id)[0].message_key.hex()
    ledger.runs.record(replace(run, run_id="named", message_keys=(key,)))

    assert summarize_run("named", ledger, lake_root).sources.is_for_named
