"""Under which id ledger and report know a DAG run that a backfill has taken over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mqdlq.airflow.operators.stages import Report, Sense

DAG_RUN = "scheduled__2026-11-21T02:00:00+00:00"


class Told:
    """The task instance of a stage, as far as it passes on the result of sense."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def xcom_push(self, *, key: str, value: str) -> None:
        self.told[key] = value

    def xcom_pull(self, *, task_ids: str, key: str) -> str | None:
        assert task_ids == "sense"
        return self.told.get(key)


def context(ti: Told, clear_number: int, run_type: str = "backfill") -> Any:
    kind = SimpleNamespace(value=run_type)
    run = SimpleNamespace(run_id=DAG_RUN, run_type=kind, clear_number=clear_number)
    return {"dag_run": run, "ti": ti}


def test_a_backfill_has_its_own_ledger_id_beside_that_of_the_original_run() -> None:
    sense, ti = Sense(task_id="sense", handler="demo"), Told()

    assert (
        sense.run_id(context(ti, 0, "scheduled")),
        sense.run_id(context(ti, 1)),
        sense.run_id(context(ti, 2)),
    ) == (
        "demo-scheduled__2026-11-21T02-00-00",
        "demo-scheduled__2026-11-21T02-00-00-backfill-1",
        "demo-scheduled__2026-11-21T02-00-00-backfill-2",
    )


def test_a_cleared_task_stays_in_the_ledger_run_that_sense_started() -> None:
    ti = Told()
    Sense(task_id="sense", handler="demo").run_id(context(ti, 1))

    assert Report(task_id="report", handler="demo").run_id(context(ti, 2)) == (
        "demo-scheduled__2026-11-21T02-00-00-backfill-1"
    )


def test_a_backfill_whose_sense_failed_has_its_own_report() -> None:
    assert Report(task_id="report", handler="demo").run_id(context(Told(), 1)) == (
        "demo-scheduled__2026-11-21T02-00-00-backfill-1"
    )
