"""Runs started by REST under Airflow's real services: parameters, dry run, clearing."""

from __future__ import annotations

import re

import pytest

from tests.e2e.running.place import POOL, Place
from tests.e2e.running.services import Airflow

pytestmark = [pytest.mark.e2e, pytest.mark.long]

STAGES = ("sense", "snapshot", "evaluate", "approve", "execute", "retry", "report")


@pytest.mark.parametrize(
    ("name", "value", "wrong", "right"),
    [
        ("dry_run", "perhaps", "'perhaps' is not of type 'boolean'", "The queue is never opened"),
        ("wait", "soon", "'soon' does not match", "YES waits until the next scheduled start"),
        ("message_keys", ["xy"], "'xy' does not match", "a message_key is 64 hex digits"),
    ],
)
def test_airflow_refuses_invalid_parameters_before_a_run_exists(
    running: Airflow, name: str, value: object, wrong: str, right: str
) -> None:
    """By Airflow, in its words: the place, what is wrong, and the schema with what would be right.

    Airflow breaks the lines of a schema's texts as Python does.
    """
    refused = running.try_to_trigger("plain", **{name: value})

    assert refused.status_code == 400
    assert f"Invalid input for param {name}: {wrong}" in refused.json()["detail"]
    assert right in re.sub(r"""["']\s+["']""", "", refused.json()["detail"])
    assert running.runs("plain") == []


def test_an_unknown_parameter_fails_the_run_and_the_error_lists_the_known_ones(
    running: Airflow,
) -> None:
    run = running.trigger("plain", dryrun=True)

    assert running.wait_for_run("plain", run) == "failed"
    log = running.log("plain", run, "sense")
    assert "parameter dryrun: not known; known are action, apply, dry_run, " in log
    told = running.log("plain", run, "report")
    assert "alert failed: plain: the run could not start" in told


def test_a_dry_run_never_opens_the_queue_for_input(running: Airflow, place: Place) -> None:
    """Somebody else has it open for exclusive input all the while, which refuses any other."""
    before = place.depths("PAYMENTS")
    place.put("plain", "PAYMENTS")
    with place.world.connect() as other:
        held = other.open("DLQ.PLAIN", other.client.CMQC.MQOO_INPUT_EXCLUSIVE)
        run = running.trigger("plain", dry_run=True)
        ended = running.wait_for_run("plain", run)
        other.close(held)

    assert ended == "success", running.tasks("plain", run)
    assert running.outcomes("plain", run) == {"not_attempted": 1}
    assert (place.depths("DLQ.PLAIN"), place.depths("PAYMENTS")) == ((1,), before)


def test_every_task_of_a_manual_run_can_be_cleared_and_run_again(
    running: Airflow, place: Place
) -> None:
    (before,) = place.depths("PAYMENTS")
    place.put("plain", "QUOTES")
    place.put("plain", "ELSEWHERE")
    run = running.trigger("plain", wait="NO")
    assert running.wait_for_run("plain", run) == "success", running.tasks("plain", run)
    booked = running.outcomes("plain", run)
    assert booked == {"delivered": 1, "discarded": 1, "unmatched": 1}

    for task in STAGES:
        running.clear("plain", run, task)
        running.wait_for_task("plain", run, task, "queued", "running", "success")
        assert running.wait_for_run("plain", run) == "success", (task, running.tasks("plain", run))

    assert running.outcomes("plain", run) == booked
    assert place.depths("DLQ.PLAIN", "PAYMENTS") == (1, before + 1)


def test_the_pool_that_a_handler_names_exists_when_its_run_begins(running: Airflow) -> None:
    """Airflow would leave the tasks scheduled without end, and only log that in the scheduler."""
    assert running.get(f"/pools/{POOL}")["slots"] == 1
