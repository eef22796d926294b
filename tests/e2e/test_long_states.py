"""What people say of causes outlives restarts of Airflow's services, as the page shows it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.e2e.running.forms import Forms
from tests.e2e.running.outage import HANDLER, Outage, outage
from tests.e2e.running.services import Airflow, now

pytestmark = [pytest.mark.e2e, pytest.mark.long]

STATES = {
    "ACKNOWLEDGED": {"state": "acknowledged"},
    "DATE": {"state": "muted", "until": f"{now() + timedelta(days=2):%Y-%m-%dT%H:%M}"},
    "COUNT": {"state": "muted", "more": "2"},
    "FACTOR": {"state": "muted", "times": "3"},
    "RESOLVED": {"state": "resolved", "ticket": "INC-42"},
}
"""A cause for each queue, and what a person says of it."""


def test_states_of_causes_outlive_restarts_and_change_with_their_messages(tmp_path: Path) -> None:
    with outage(tmp_path, messages=0) as (place, running):
        page = Forms(running)
        come(place, running, "NEW", *STATES)
        for queue, said in STATES.items():
            page.say(queue, said)
        expected = {
            "NEW": "new",
            "ACKNOWLEDGED": "acknowledged",
            "DATE": "muted",
            "COUNT": "muted",
            "FACTOR": "muted",
            "RESOLVED": "resolved",
        }
        assert page.states() == expected

        for name in ("api-server", "scheduler", "triggerer", "dag-processor"):
            running.restart(name)
        running.wait(running.services.is_healthy)
        assert page.states() == expected

        come(place, running, *STATES)
        assert page.states() == expected | {"RESOLVED": "came back"}

        running.restart("api-server")
        running.wait(running.services.is_healthy)
        come(place, running, "COUNT", "FACTOR")
        assert page.states() == expected | {
            "RESOLVED": "came back",
            "COUNT": "new",
            "FACTOR": "new",
        }


def come(place: Outage, running: Airflow, *queues: str) -> None:
    """Let a message for each queue be dead-lettered now, and the handler look at its queue."""
    for queue in queues:
        place.put(queue)
    run = running.trigger(HANDLER)
    assert running.wait_for_run(HANDLER, run) == "success", running.tasks(HANDLER, run)
