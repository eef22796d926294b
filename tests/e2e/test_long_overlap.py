"""Runs that overlap, share a ramp, or lose their scheduler, under Airflow's real services."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.reasons import words_of
from tests.e2e.running.place import Place
from tests.e2e.running.services import Airflow
from tests.faults.recorded_moves import check_ramps

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


def test_a_ramp_continues_in_the_next_pass_and_in_the_next_run(
    running: Airflow, place: Place
) -> None:
    """Steps of 1 and 3: the first run moves 1 and 1, the next one 2 more, and then the rest."""
    runs, delays = [], []
    for messages in (2, 4):
        for _ in range(messages):
            place.put("ramp", "PAYMENTS")
        run = running.trigger("ramp")
        assert running.wait_for_run("ramp", run) == "success", running.tasks("ramp", run)
        assert running.outcomes("ramp", run) == {"delivered": messages}
        runs.append(ledger_run_id("ramp", run))
        with running.ledger() as ledger:
            moved_at = [attempt.at for attempt in ledger.attempts.of_run(runs[-1])]
        pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(moved_at)]
        delays.append([pause >= 12 for pause in pauses])

    assert delays == [[True], [False, True, False]]
    with running.ledger() as ledger:
        check_ramps(ledger, runs)
        (state,) = ledger.ramps.current("QM1", "DLQ.RAMP").values()
    assert words_of(state.why) == "ramp: all messages may move"
