"""The account of the demo's messages over all runs: where each is, and what the ledger says."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from mqdlq.model import Outcome
from tests.e2e.containers.services import AirflowInContainers, Containers

PUT_BY_THE_DEMO = 75
STORY = {
    "delivered": 25,
    "forwarded": 24,
    "discarded": 12,
    "left_by_rule": 3,
    "unmatched": 2,
    "unprocessable": 5,
}
LEFT = ("left_by_rule", "unmatched", "unprocessable")
LEASE_S = 400
RUN_LIMIT_S = 600


def wait_for_the_scheduled_run(airflow: AirflowInContainers, containers: Containers) -> None:
    """Wait for the run that Airflow starts once the DAG is unpaused; it must tell the story."""
    airflow.wait(lambda: bool(airflow.runs("demo")))
    (scheduled,) = airflow.runs("demo")
    ended = airflow.wait_for_run("demo", scheduled["dag_run_id"], RUN_LIMIT_S)
    assert (scheduled["run_type"], ended) == ("scheduled", "success"), containers.last_words()
    assert airflow.outcomes("demo", scheduled["dag_run_id"]) == STORY


def run_once(airflow: AirflowInContainers, containers: Containers) -> dict[str, int]:
    """Fill the queue, run the demo by hand, and return the run's outcomes."""
    containers.fill()
    run = airflow.trigger("demo")
    assert airflow.wait_for_run("demo", run, RUN_LIMIT_S) == "success", containers.last_words()
    return airflow.outcomes("demo", run)


def complete(
    airflow: AirflowInContainers, containers: Containers, tell: Callable[[str], None]
) -> None:
    """Run until nothing is leased to a dead run; then the account must add up."""
    deadline = time.monotonic() + LEASE_S
    while True:
        outcomes = run_once(airflow, containers)
        tell(f"the run after: {outcomes}")
        if "leased_by_run" not in outcomes:
            break
        assert time.monotonic() < deadline, outcomes
        time.sleep(20)
    check_the_account(airflow, containers)


def check_the_account(airflow: AirflowInContainers, containers: Containers) -> None:
    """Each message is in one place, or was discarded once; no run booked more than it saw."""
    found = containers.places()
    fills = containers.fills
    with airflow.ledger() as ledger, ledger.engine.connect() as connection:
        counted = connection.exec_driver_sql("SELECT run_id, messages FROM snapshots")
        runs = {str(run_id): int(messages) for run_id, messages in counted}
        booked = Counter(connection.exec_driver_sql("SELECT run_id FROM outcomes").scalars())
        for run_id in runs:
            booked[run_id] += sum(ledger.settled.outcomes(run_id).values())
        (discarded,) = connection.exec_driver_sql(
            "SELECT count(DISTINCT message_id) FROM outcomes WHERE outcome = %s",
            (str(Outcome.DISCARDED),),
        ).one()
        settled = set(connection.exec_driver_sql("SELECT run_id FROM sightings").scalars())
        states = Counter(connection.exec_driver_sql("SELECT state FROM attempt_states").scalars())

    assert [one for one, count in found["ids"].items() if count > 1] == []
    assert sum(found["ids"].values()) + discarded == fills * PUT_BY_THE_DEMO
    left = fills * sum(STORY[outcome] for outcome in LEFT)
    assert found["depths"]["SYSTEM.DEAD.LETTER.QUEUE"] == left
    assert {run: booked[run] for run in settled} == {run: runs[run] for run in settled}
    assert not {"intended", "unknown"} & states.keys(), states


def rows(airflow: AirflowInContainers) -> dict[str, int]:
    """Return the numbers of rows of the ledger's accounts."""
    with airflow.ledger() as ledger, ledger.engine.connect() as connection:
        return {
            table: int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() or 0)  # noqa: S608
            for table in ("snapshots", "outcomes", "attempts", "sightings")
        }
