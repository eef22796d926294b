"""The lines that the terminal shows of a run, from Airflow's log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mqdlq.local.foreground import Follower


def entry(event: str, logger: str = "mqdlq.progress", **more: Any) -> str:
    at = "2026-11-21T02:49:22.562418Z"
    return json.dumps({"timestamp": at, "level": "info", "event": event, "logger": logger, **more})


def told(*lines: str) -> tuple[list[str], Follower]:
    said: list[str] = []
    follower = Follower("mq_dlq_demo", said.append)
    for line in lines:
        follower.follow(line)
    return said, follower


def test_the_terminal_shows_only_tasks_and_their_facts() -> None:
    said, _ = told(
        "a line of something else",
        entry("[DAG TEST] starting task_id=sense map_index=-1", "airflow.sdk.definitions.dag"),
        entry("Task instance state updated", "airflow.api_fastapi"),
        entry("71 messages on DLQ of QM1"),
    )

    assert said == ["02:49:22  sense", "          71 messages on DLQ of QM1"]


def test_the_terminal_shows_the_first_of_many_similar_facts_and_counts_the_rest() -> None:
    alike = [entry(f"unable to put message {number}") for number in range(1, 9)]
    said, _ = told(*alike, entry("pass over"))

    assert [line.strip() for line in said] == [
        "unable to put message 1",
        "unable to put message 2",
        "unable to put message 3",
        "... and 5 more like these",
        "pass over",
    ]


def test_the_terminal_shows_why_a_task_failed() -> None:
    cause = {"exc_type": "RulesError", "exc_value": "a.rules:3:8: no\n   ^", "frames": []}
    said, follower = told(
        entry("Task failed with exception", "task", level="error", exception=[cause])
    )

    assert said == ["          failed: a.rules:3:8: no", "             ^"]
    assert follower.failures == ["a.rules:3:8: no\n   ^"]


def test_the_follower_keeps_the_report_and_the_run_id() -> None:
    said, follower = told(
        entry("creating dag run", "airflow.serialization", run_id="manual__1"),
        entry("a report\nof lines", "mqdlq.reading.report"),
    )

    assert (said, follower.run_id, follower.report) == ([], "manual__1", ["a report\nof lines"])


def test_the_log_file_has_every_line() -> None:
    _, follower = told()

    assert follower.follow("not JSON") == "not JSON"
    assert follower.follow(entry("an event", "task", ti_id="7")) == (
        "2026-11-21T02:49:22.562418Z info    task: an event ti_id=7"
    )


@pytest.mark.parametrize(
    "line",
    [
        '{"timestamp": 1763700562.5, "level": "info", "event": "[DAG TEST] starting task_id=x"}',
        '{"timestamp": "02:49", "level": "error", "event": "boom", "exception": "Traceback"}',
        '{"timestamp": "02:49", "level": "error", "event": "boom", "exception": [{"type": "E"}]}',
        '{"timestamp": "02:49", "event": "no level"}',
        '{"timestamp": "02:49", "level": "info", "event": "creating dag run", "run_id": 7}',
        "[" * 100_000,
    ],
    ids=lambda line: line[:90],
)
def test_json_lines_of_another_program_are_ordinary_lines(line: str) -> None:
    said, follower = told(line)

    assert (said, follower.run_id, follower.failures) == ([], "", [])
    assert follower.follow(line) == line
