"""The starter of a run, as ledger and report state it."""

from __future__ import annotations

import os
import pwd
from types import SimpleNamespace
from typing import Any

import pytest

from mqdlq.airflow.operators import base
from mqdlq.airflow.operators.base import started_by
from mqdlq.directories import account


def run(kind: str, user: str | None = None, *assets: str, cleared: int = 0) -> Any:
    events = [SimpleNamespace(asset=SimpleNamespace(name=name)) for name in assets]
    return {
        "params": {},
        "dag_run": SimpleNamespace(
            run_id="run-7",
            run_type=SimpleNamespace(value=kind),
            triggering_user_name=user,
            consumed_asset_events=events,
            clear_number=cleared,
        ),
    }


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (run("manual", "alice"), "alice in Airflow"),
        (run("manual"), "somebody in Airflow"),
        (run("scheduled"), "the schedule"),
        (run("backfill", "bert"), "a backfill of bert"),
        (
            run("backfill", "bert", cleared=1),
            (
                "a backfill of bert over run-7, which Airflow skips unless the backfill reprocesses"
                " completed runs"
            ),
        ),
        (run("operator_triggered", "alice"), "another DAG, for alice"),
        (run("operator_triggered"), "another DAG"),
        (run("asset_materialization", "alice"), "alice in Airflow"),
        (
            run("asset_triggered", None, "mq_dlq_demo.arrivals", "mq_dlq_demo.arrivals"),
            "the asset mq_dlq_demo.arrivals",
        ),
    ],
)
def test_a_run_records_who_or_what_started_it(context: Any, words: str) -> None:
    assert started_by(context) == words


def test_a_foreground_run_is_started_by_the_account_of_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base, "in_the_foreground", lambda: True)
    monkeypatch.setenv("LOGNAME", "mallory")  # anybody may say so

    assert account() == pwd.getpwuid(os.getuid()).pw_name
    assert started_by(run("manual", account())) == f"{account()} from the command line"
