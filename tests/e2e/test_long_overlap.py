"""Runs that overlap, and runs whose scheduler dies, under Airflow's real services."""

from __future__ import annotations

import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from tests.e2e.running.place import Place
from tests.e2e.running.services import Airflow

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def test_a_run_that_waits_for_retries_does_not_delay_new_messages(
    running: Airflow, place: Place
) -> None:
    """The next run takes what is new, and by ownership neither touches the other's."""
    place.put("overlap", "CLOSED")
    first = running.trigger("overlap")
    running.wait_for_task("overlap", first, "retry", "deferred")
    place.put("overlap", "PAYMENTS")

    second = running.trigger("overlap")

    assert running.wait_for_run("overlap", second) == "success", running.tasks("overlap", second)
    assert running.outcomes("overlap", second) == {"delivered": 1, "leased_by_run": 1}
    assert running.tasks("overlap", first)["retry"] == "deferred"
    assert place.depths("DLQ.OVERLAP") == (1,)
    with running.ledger() as ledger:
        tried = {
            run: {
                attempt.target_q
                for attempt in ledger.attempts.of_run(ledger_run_id("overlap", run))
            }
            for run in (first, second)
        }
    assert tried == {first: {"CLOSED"}, second: {"PAYMENTS"}}


def test_a_run_completes_after_scheduler_and_triggerer_were_killed(
    running: Airflow, place: Place
) -> None:
    """Killed in mid-task, and while the run is deferred: what was under way is run again."""
    (before,) = place.depths("PARKED")
    place.put("retry", "CLOSED")
    run = running.trigger("retry")
    running.wait_for_task("retry", run, "evaluate", "running")

    running.restart("scheduler")
    running.wait_for_task("retry", run, "retry", "deferred")
    running.restart("triggerer")
    running.restart("scheduler")

    assert running.wait_for_run("retry", run, 240) == "success", running.tasks("retry", run)
    assert running.outcomes("retry", run) == {"forwarded": 1}
    assert place.depths("DLQ.RETRY", "PARKED") == (0, before + 1)
