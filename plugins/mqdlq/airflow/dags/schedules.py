"""Choose the schedule of a handler's DAG: none, a timetable, or a watched asset."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from airflow.sdk import Asset, AssetWatcher

from mqdlq.airflow.older_versions import CronDataIntervalTimetable
from mqdlq.airflow.operators.sense import POLL_S
from mqdlq.airflow.triggers.arrival import ArrivalTrigger
from mqdlq.handlers import Handler

LONG_AGO: Final = datetime(2020, 1, 1, tzinfo=UTC)


def start_of(handler: Handler) -> datetime | None:
    """Return what Airflow takes as a DAG's `start_date`: any past one under @continuous, else none.

    Without one the interval of the first continuous run begins and ends at one moment. The next
    interval begins where the last has ended, so the second run would have the first one's logical
    date, and Airflow would skip every later run: "run already exists; skipping dagrun creation".
    """
    return LONG_AGO if handler.is_continuous else None


def schedule_of(handler: Handler, directory: Path | None = None) -> Any:
    """Return what Airflow takes as a DAG's `schedule`.

    The intervals of a cron schedule go each from one start to the next, so that a backfill knows
    its snapshots. `directory` is where the triggerer reads the handler's files, None for
    MQDLQ_RULES_DIR.
    """
    if handler.schedule is None or handler.is_continuous:
        return handler.schedule
    if not handler.is_by_event:
        return CronDataIntervalTimetable(handler.schedule, timezone="UTC")
    name = f"mq_dlq_{handler.name}.arrivals"
    trigger = ArrivalTrigger(handler=handler.name, poll_s=POLL_S, directory=directory)
    watcher = AssetWatcher(name=name, trigger=trigger)
    return [Asset(name=name, uri=f"mqdlq://{handler.name}/arrivals", watchers=[watcher])]
