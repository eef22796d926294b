"""A backfill of three intervals under Airflow's real services; it acts with `apply`."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.running.place import TABLES, Place
from tests.e2e.running.services import ENDED, Airflow, now

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def test_a_backfill_reports_differences_and_acts_once_with_apply(
    running: Airflow, place: Place
) -> None:
    """The snapshot with the message is from the middle interval; the last had a scheduled run.

    The run that took the snapshot is made here, by its own clock, so that no test waits for hours.
    """
    running.wait(lambda: all(run["state"] in ENDED for run in running.runs("night")))
    hour = now().replace(minute=0, second=0, microsecond=0)
    place.put("night", "PAYMENTS")
    place.world.clock.now = hour - timedelta(minutes=90)
    booked = place.world.handle(f"INPUTQ(DLQ.NIGHT) {TABLES['night']}")
    assert list(booked.values()) == ["left_by_rule"]
    window = {
        "from_date": (hour - timedelta(hours=3)).isoformat(),
        "to_date": (hour - timedelta(minutes=59)).isoformat(),
    }

    for apply, outcomes in ((False, []), (True, [{"delivered": 1}]), (True, [])):
        (before,) = place.depths("PAYMENTS")
        running.backfill("night", window, {"rules": "new.rules", "apply": apply})
        filled = [run for run in running.runs("night") if run["run_type"] == "backfill"]
        assert len(filled) == 3
        assert {run["state"] for run in filled} == {"success"}
        found = [running.outcomes_of_backfill("night", run["dag_run_id"]) for run in filled]
        assert [one for one in found if one] == outcomes
        assert place.depths("PAYMENTS") == (before + len(outcomes),)
        if not apply:
            assert _changed(place.world.directory) == [
                {"then": "IGNORE", "now": "RETRY to PAYMENTS", "messages": 1}
            ]


def _changed(home: Path) -> list[dict[str, Any]]:
    """Return what the evaluations of backfills have found to be different, all together."""
    files = home.glob("reports/night-*/differences.json")
    return [one for file in files for one in json.loads(file.read_text())["differences"]]
