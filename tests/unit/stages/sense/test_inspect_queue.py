"""Test the inquiry of a run's queue: its record, its log, and the waits that it sleeps."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

import embedded_mq
from mqdlq.errors import QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.ledger.tables import Approval, Look, Run, TakenSnapshot
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense import (
    BackfillWindow,
    Decision,
    SenseResources,
    WaitForMessages,
    WaitForQueueManager,
    inspect_queue,
)
from tests.support.run_records import outline
from tests.support.world import World

AWAY = "MQCONNX:1:2059:before"
DEFER_FROM_S = 10


@dataclass
class Looker:
    """Inspects the queue of a world, each time for a new run unless a run is named."""

    world: World
    awaiting: set[str] = field(default_factory=set)
    warned: list[str] = field(default_factory=list)
    depths: list[tuple[int, int]] = field(default_factory=list)

    def look(self, rules: str, run_id: str = "one", **changes: Any) -> Decision:
        folder = self.world.directory / "rules"
        folder.mkdir(exist_ok=True)
        (folder / "test.rules").write_text(rules, encoding="utf-8")
        keys = changes.pop("keys", {})
        options = changes.pop("options", {"run_type": "scheduled"})
        handler = Handler(
            name="test", directory=folder, connection="mq", rules="test.rules", **keys
        )
        sensing = SenseResources(
            run_id=run_id,
            handler=handler,
            options=RunOptions(dag_run_id=run_id, **options),
            settings=self.world.settings,
            ledger=self.world.ledger,
            lake_root=self.world.lake_root,
            clock=self.world.clock,
            sleep=self.world.clock.sleep,
            log=self.world.log,
            min_deferred_wait_s=DEFER_FROM_S,
            awaits_approval=self.awaiting.__contains__,
            warnings=self._warnings,
            report_depth=lambda _run, depth, limit: self.depths.append((depth, limit)),
            **changes,
        )
        return inspect_queue(sensing)

    def _warnings(self, run: Run) -> list[str]:
        self.warned.append(run.run_id)
        return [f"careful, {run.run_id}"]

    def recorded(self, run_id: str = "one") -> Look | None:
        return self.world.ledger.runs.last_look(run_id)


@pytest.fixture(name="looker")
def _looker(world: World, caplog: pytest.LogCaptureFixture) -> Looker:
    caplog.set_level(logging.INFO)
    return Looker(world)


def rules(wait: str = "NO") -> str:
    return f"INPUTQ(DLQ) WAIT({wait})\nACTION(IGNORE)\n"


def test_a_run_with_work_is_recorded_with_its_depth(
    looker: Looker, caplog: pytest.LogCaptureFixture
) -> None:
    looker.world.dead_letter()

    assert outline(looker.look(rules())) == (True, 1, "1 messages")

    assert looker.recorded() == Look(1, True, "1 messages", looker.world.clock(), 5000)
    assert looker.depths == [(1, 5000)]
    assert caplog.messages == ["careful, one", "1 messages on DLQ of QM1; rules: test.rules"]


def test_a_run_without_work_is_recorded_as_such(
    looker: Looker, caplog: pytest.LogCaptureFixture
) -> None:
    assert outline(looker.look(rules())) == (False, 0, "")

    assert looker.recorded() == Look(0, False, "", looker.world.clock(), 5000)
    assert (
        caplog.messages[-1]
        == "no messages on DLQ of QM1: nothing to do, the other tasks are skipped"
    )


def test_a_run_that_waits_has_not_begun(looker: Looker, caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(looker.look(rules("600")), WaitForMessages)

    assert looker.world.ledger.runs.get("one") is None
    assert caplog.messages[-1] == "no messages on DLQ of QM1; waiting until 2026-11-21 12:10:00 UTC"


def test_a_short_wait_for_messages_ends_with_a_second_inquiry(
    looker: Looker, caplog: pytest.LogCaptureFixture
) -> None:
    began = looker.world.clock()

    assert outline(looker.look(rules("9"))) == (False, 0, "")

    assert looker.world.clock() == began + timedelta(seconds=9)
    assert "no messages on DLQ of QM1; looking again in 9 s" in caplog.messages
    assert looker.warned == ["one"]


def test_a_short_wait_for_the_queue_manager_ends_with_a_second_connect(looker: Looker) -> None:
    looker.world.dead_letter()
    embedded_mq.faults.set(AWAY)
    wake = looker.world.clock.sleep

    def come_back(seconds: float) -> None:
        embedded_mq.faults.set("")
        wake(seconds)

    looker.world.clock.sleep = come_back  # type: ignore[method-assign]

    assert outline(looker.look(rules("9"))) == (True, 1, "1 messages")


def test_a_queue_manager_that_stays_away_through_a_short_wait_is_an_error(looker: Looker) -> None:
    """Airflow runs the task again, which is unnecessary for a run with a long wait."""
    embedded_mq.faults.set("MQCONNX:1+:2059:before")

    with pytest.raises(QueueManagerError):
        looker.look(rules("9"))

    embedded_mq.faults.set("")


def test_a_queue_manager_that_is_away_is_waited_for_by_its_name_in_the_rules(
    looker: Looker, caplog: pytest.LogCaptureFixture
) -> None:
    embedded_mq.faults.set(AWAY)

    found = looker.look("INPUTQM(QM1) " + rules("600"))

    embedded_mq.faults.set("")
    until = looker.world.clock() + timedelta(seconds=600)
    assert found == WaitForQueueManager("mq", "QM1", until, None)
    assert caplog.messages[-1].endswith(
        "; the run waits for the queue manager until 2026-11-21 12:10:00 UTC [MQDLQ-127]"
    )


def test_a_scheduled_run_ignores_messages_that_wait_for_approval(
    looker: Looker, caplog: pytest.LogCaptureFixture
) -> None:
    looker.world.dead_letter()
    looker.look(rules())
    at: datetime = looker.world.clock()
    looker.world.ledger.snapshots.record(TakenSnapshot("one", "a snapshot", "/nowhere", 1, at))
    question = Approval("0" * 64, ("discard",), "asked", "", at)
    looker.world.ledger.plans.record_approval("one", question)
    looker.awaiting.add("one")

    assert outline(looker.look(rules(), run_id="two")) == (False, 1, "")
    said = "one waits for an approval of its plan for 1 messages"
    assert said in caplog.messages
    by_hand = looker.look(rules(), run_id="three", options={"run_type": "manual"})
    assert outline(by_hand) == (True, 1, "1 messages")
    looker.awaiting.clear()
    assert outline(looker.look(rules(), run_id="four")) == (True, 1, "1 messages")


def test_a_continuous_run_pauses_after_a_run_without_an_account(
    looker: Looker, caplog: pytest.LogCaptureFixture
) -> None:
    looker.world.dead_letter()
    keys = {"schedule": "@continuous"}
    began = looker.world.clock()
    looker.look(rules(), keys=keys)

    assert looker.look(rules(), run_id="two", keys=keys) == began + timedelta(minutes=1)

    said = (
        "the previous run has left no account of the queue; this run continues in 60 s [MQDLQ-134]"
    )
    assert caplog.messages[-1] == said
    watched = looker.look(rules(), run_id="three", keys=keys, is_watched=True)
    assert outline(watched) == (True, 1, "1 messages")


def test_a_short_pause_is_slept(looker: Looker) -> None:
    looker.world.dead_letter()
    keys = {"schedule": "@continuous"}
    looker.look(rules(), keys=keys)
    looker.world.clock.sleep(55)

    assert outline(looker.look(rules(), run_id="two", keys=keys)) == (True, 1, "1 messages")


def test_a_full_snapshot_of_an_empty_queue_is_work(looker: Looker) -> None:
    assert outline(looker.look(rules("600"), full_snapshot=True)) == (
        True,
        0,
        "a full snapshot is requested",
    )


def test_a_backfill_looks_for_the_snapshots_of_its_window(
    looker: Looker, caplog: pytest.LogCaptureFixture
) -> None:
    noon = looker.world.clock()
    window = BackfillWindow(noon, noon + timedelta(hours=1))

    none = looker.look(rules(), run_id="first", window=window)
    looker.world.snapshot(looker.world.start(rules()))
    one = looker.look(rules(), run_id="second", window=window)

    span = "2026-11-21 12:00:00 to 2026-11-21 13:00:00 UTC"
    why = f"No snapshot of DLQ of QM1 was taken from {span}: nothing to evaluate."
    assert outline(none) == (False, 0, why)
    assert outline(one) == (True, 1, "a backfill")
    assert caplog.messages[-1] == f"1 snapshots of DLQ of QM1 from {span}"
    assert looker.recorded("second") == Look(1, True, "a backfill", noon)
