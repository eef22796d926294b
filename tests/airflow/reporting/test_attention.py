"""Test what becomes of the task report if messages need attention."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mqdlq.airflow.operators.stages import Report
from mqdlq.ledger import open_ledger
from mqdlq.model import Verdict
from mqdlq.reading.report.files import write_report
from tests.support.world import NOON

HEADLINE = "3 messages: 1 handled, 2 need attention. The account adds up."


def failure(directory: Path, verdict: Verdict, keys: str = "", why: str = "") -> str:
    (directory / "demo.yaml").write_text(f"connection: mq\nrules: demo.rules\n{keys}")
    with (
        pytest.MonkeyPatch.context() as patch,
        open_ledger(f"sqlite:///{directory}/ledger.db") as ledger,
    ):
        patch.setenv("MQDLQ_HOME", str(directory))
        written = write_report(
            "demo-1", ledger=ledger, lake_root=str(directory), stages={}, clock=lambda: NOON
        )
    files = replace(written, verdict=verdict, why=why, headline=HEADLINE)
    return Report(task_id="report", handler="demo", directory=directory).failure_of(files)


@pytest.mark.parametrize("keys", ["", "attention: note\n"])
def test_a_run_that_needs_attention_succeeds_unless_the_handler_says_otherwise(
    tmp_path: Path, keys: str
) -> None:
    assert failure(tmp_path, Verdict.ATTENTION, keys) == ""


def test_a_run_that_needs_attention_fails_with_its_headline(tmp_path: Path) -> None:
    assert failure(tmp_path, Verdict.ATTENTION, "attention: fail\n") == HEADLINE


@pytest.mark.parametrize("verdict", [Verdict.OK, Verdict.EMPTY, Verdict.SETTLED])
def test_other_runs_succeed_with_attention_fail(tmp_path: Path, verdict: Verdict) -> None:
    assert failure(tmp_path, verdict, "attention: fail\n") == ""


def test_a_failed_run_fails_with_its_own_reason(tmp_path: Path) -> None:
    why = "stage execute failed"

    assert failure(tmp_path, Verdict.FAILED, "attention: fail\n", why) == why
