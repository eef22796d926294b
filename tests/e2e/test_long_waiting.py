"""Runs that wait for messages under Airflow's real services, and what happens meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from tests.e2e.running.place import Place
from tests.e2e.running.services import Airflow

pytestmark = [pytest.mark.e2e, pytest.mark.long]


@pytest.fixture(scope="module", name="waiting")
def _waiting(running: Airflow, place: Place) -> dict[str, str]:
    """Start the runs of all tests of this file; return the ids of the waiting runs, by handler."""
    for handler in ("event", "always"):
        place.put(handler, "PAYMENTS")
        place.put(handler, "ELSEWHERE")
    return {name: running.trigger(name) for name in ("race", "change", "outlive")}


def test_a_message_that_arrives_as_sense_defers_does_not_fail_the_task(
    running: Airflow, place: Place, waiting: dict[str, str]
) -> None:
    """Airflow takes a task that is resumed while its worker winds up for a failed one."""
    run = waiting["race"]
    running.wait_for_task("race", run, "sense", "deferred")
    place.put("race", "PAYMENTS")

    assert running.wait_for_run("race", run) == "success", running.tasks("race", run)
    assert running.outcomes("race", run) == {"delivered": 1}


def test_rules_that_change_during_the_wait_are_those_of_the_run(
    running: Airflow, place: Place, waiting: dict[str, str]
) -> None:
    """The run goes on to wait, with the rules that are there now."""
    run, table = waiting["change"], place.rules / "change.rules"
    running.wait_for_task("change", run, "sense", "deferred")
    table.write_text("INPUTQ(DLQ.CHANGE) WAIT(300)\nDESTQ(PAYMENTS) ACTION(FWD) FWDQ(PARKED)\n")
    says = "the rules have changed while this run waited; the run reads them again"
    running.wait(lambda: says in running.log("change", run, "sense"))
    running.wait_for_task("change", run, "sense", "deferred")
    place.put("change", "PAYMENTS")

    assert running.wait_for_run("change", run) == "success", running.tasks("change", run)
    assert running.outcomes("change", run) == {"forwarded": 1}
    with running.ledger() as ledger:
        begun = ledger.runs.get(ledger_run_id("change", run))
    assert begun is not None
    assert begun.rules_text == table.read_text()


def test_a_wait_outlives_the_triggerer(
    running: Airflow, place: Place, waiting: dict[str, str]
) -> None:
    run = waiting["outlive"]
    running.wait_for_task("outlive", run, "sense", "deferred")

    running.restart("triggerer")
    place.put("outlive", "PAYMENTS")

    assert running.wait_for_run("outlive", run) == "success", running.tasks("outlive", run)
    assert running.outcomes("outlive", run) == {"delivered": 1}


@pytest.mark.usefixtures("waiting")
def test_each_continuous_run_follows_the_last_and_waits(running: Airflow, place: Place) -> None:
    """One has taken what there was; the next has waited, through all the tests of this file."""
    running.wait(lambda: [run["state"] for run in by_start(running)] == ["success", "running"])
    first, second = (run["dag_run_id"] for run in by_start(running))
    assert running.outcomes("always", first) == {"delivered": 1, "unmatched": 1}
    running.wait_for_task("always", second, "sense", "deferred")

    place.put("always", "PAYMENTS")

    assert running.wait_for_run("always", second) == "success", running.tasks("always", second)
    assert running.outcomes("always", second) == {"delivered": 1}
    assert place.depths("DLQ.ALWAYS") == (1,)


def test_a_message_after_the_run_is_taken_by_the_run_that_follows(
    running: Airflow, place: Place
) -> None:
    """The next start of the schedule is on New Year's Day."""
    place.put("onward", "PAYMENTS")
    first = running.trigger("onward")
    second, third = f"wait_1__{first}", f"wait_2__{first}"
    assert running.wait_for_run("onward", first) == "success", running.tasks("onward", first)
    assert running.outcomes("onward", first) == {"delivered": 1}

    running.wait_for_task("onward", second, "sense", "deferred")
    place.put("onward", "PAYMENTS")

    assert running.wait_for_run("onward", second) == "success", running.tasks("onward", second)
    assert running.outcomes("onward", second) == {"delivered": 1}
    with running.ledger() as ledger:
        followed = ledger.runs.get(ledger_run_id("onward", second))
    assert followed is not None
    assert followed.started_by == f"the WAIT of {first}, for admin"
    assert running.wait_for_run("onward", third) == "success", running.tasks("onward", third)
    assert running.outcomes("onward", third) == {}
    by_hand = {
        run["dag_run_id"] for run in running.runs("onward") if run["run_type"] != "scheduled"
    }
    assert by_hand == {first, second, third}


def by_start(running: Airflow) -> list[dict[str, Any]]:
    """Return the continuous handler's runs, the earliest first."""
    return sorted(running.runs("always"), key=lambda run: str(run["run_after"]))


@pytest.mark.usefixtures("waiting")
def test_messages_start_a_run_with_schedule_event(running: Airflow, place: Place) -> None:
    """One run takes the messages from before the other tests of this file, one the later ones.

    Settled messages started none, though a trigger has looked at them all the while.
    """
    running.wait(lambda: bool(running.runs("event")))
    (first,) = running.runs("event")
    run = first["dag_run_id"]
    assert first["run_type"] == "asset_triggered"
    assert running.wait_for_run("event", run) == "success", running.tasks("event", run)
    assert running.outcomes("event", run) == {"delivered": 1, "unmatched": 1}
    with running.ledger() as ledger:
        recorded = ledger.runs.get(ledger_run_id("event", run))
    assert recorded is not None
    assert recorded.started_by == "the asset mq_dlq_event.arrivals"

    place.put("event", "PAYMENTS")

    running.wait(lambda: len(running.runs("event")) == 2)
    (second,) = {one["dag_run_id"] for one in running.runs("event")} - {run}
    assert running.wait_for_run("event", second) == "success", running.tasks("event", second)
    assert running.outcomes("event", second) == {"delivered": 1}
    assert place.depths("DLQ.EVENT") == (1,)
