"""Runs follow each other while WAIT continues, on the test's clock and with the real stages."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from typing import Any

import pytest

from mqdlq.handlers import Handler
from mqdlq.ledger.tables import Look, Run
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense import (
    SenseResources,
    WaitForMessages,
    follower_of,
    inspect_queue,
    must_be_followed,
)
from tests.support.world import NOON, World

pytestmark = pytest.mark.stages

RETRY = "INPUTQ(DLQ) RETRYINT(2) WAIT({})\nDESTQ(PAYMENTS) ACTION(RETRY)\nACTION(RETRY)\n"
MOST = 10


@dataclass
class Runs:
    """Runs a handler as Airflow does: each run that must be followed is followed at once.

    `arrivals` are the seconds after the start of the first run at which a message is put.
    """

    world: World
    arrivals: list[float] = field(default_factory=list)

    def run(self, wait: str, run_type: str = "scheduled", **given: Any) -> list[str]:
        """Return what each run did: the number of messages of its snapshot, or "nothing"."""
        keys = given.pop("keys", {})
        folder = self.world.directory / "rules"
        folder.mkdir()
        (folder / "test.rules").write_text(RETRY.format(wait))
        handler = Handler(
            name="test", directory=folder, connection="mq", rules="test.rules", **keys
        )
        dag_run_id, follows = "first", ""
        done: list[str] = []
        self._arrive()
        while len(done) < MOST:
            options = RunOptions(dag_run_id=dag_run_id, run_type=run_type, follows=follows, **given)
            done.append(self._run_once(handler, options))
            run = self._recorded(dag_run_id)
            now = self.world.clock()
            ledger = self.world.ledger
            if not must_be_followed(run, handler, follows=bool(follows), ledger=ledger, now=now):
                return done
            follows, dag_run_id = dag_run_id, follower_of(dag_run_id)
        return [*done, "without end"]

    def _run_once(self, handler: Handler, options: RunOptions) -> str:
        world, event = self.world, None
        while True:
            step = inspect_queue(self._sensing(handler, options), event)
            if not isinstance(step, WaitForMessages):
                break
            self._wait(step)
            until = step.until and step.until.isoformat()
            event = {"until": until}
        if not (isinstance(step, Look) and step.is_work):
            return "nothing"
        run = self._recorded(options.dag_run_id)
        manifest = world.snapshot(run)
        if not manifest.full:
            settle(world.execution(run))
            return f"{manifest.messages} settled"
        world.accept(run)
        execution = world.execution(run)
        result = make_pass(execution)
        while result.next_pass_at is not None:
            world.clock.now = result.next_pass_at
            self._arrive()
            result = make_pass(execution)
        settle(execution)
        self._tick(4)  # the report
        return str(manifest.messages)

    def _wait(self, wait: WaitForMessages) -> None:
        """Wait as the trigger does, a second at a time."""
        for _ in range(100_000):
            self._tick(1)
            depth = self.world.depths("DLQ")[0]
            now = self.world.clock()
            if wait.find_work(depth, now) or (wait.until and now >= wait.until):
                return
        pytest.fail("it waits without end")

    def _tick(self, seconds: float) -> None:
        self.world.clock.now += timedelta(seconds=seconds)
        self._arrive()

    def _arrive(self) -> None:
        passed = (self.world.clock.now - NOON).total_seconds()
        while self.arrivals and self.arrivals[0] <= passed:
            self.world.dead_letter(f"{self.arrivals.pop(0)}".encode())

    def _recorded(self, run_id: str) -> Run:
        run = self.world.ledger.runs.get(run_id)
        assert run is not None
        return run

    def _sensing(self, handler: Handler, options: RunOptions) -> SenseResources:
        world = self.world
        return SenseResources(
            run_id=options.dag_run_id,
            handler=handler,
            options=options,
            settings=world.settings,
            ledger=world.ledger,
            lake_root=world.lake_root,
            clock=world.clock,
            sleep=lambda seconds: pytest.fail(f"it slept for {seconds} s"),
            log=world.log,
            min_deferred_wait_s=-inf,
            awaits_approval=lambda _: False,
            warnings=lambda _: (),
            report_depth=lambda *_: None,
        )


@pytest.mark.parametrize("run_type", ["scheduled", "manual", "operator_triggered"])
def test_each_message_within_wait_is_handled_and_then_the_runs_end(
    world: World, run_type: str
) -> None:
    """Messages come while the first is handled, 20 s later, and when the wait is over."""
    runs = Runs(world, [0, 1, 25, 500])

    assert runs.run("25", run_type) == ["1", "1", "1", "nothing"]
    assert world.depths("PAYMENTS", "DLQ") == (3, 0)
    ended = (world.clock() - NOON).total_seconds()
    assert 50 <= ended < 70


def test_messages_that_only_wait_for_a_retry_or_a_rescan_start_no_run(world: World) -> None:
    """They are tried within their run; WAIT is longer than RETRYINT and ten times RETRYINT."""
    world.mqsc("ALTER QLOCAL(PAYMENTS) PUT(DISABLED)")
    runs = Runs(world, [0, 300])

    assert runs.run("600") == ["1", "2", "nothing"]
    assert world.depths("DLQ") == (2,)


def test_messages_that_a_browse_does_not_see_start_runs_once_only(world: World) -> None:
    """The depth counts what another program has put and not committed."""
    with world.connect() as other:
        module, constants = other.client.module, other.client.CMQC
        target, options = module.OD(), module.PMO()
        target.ObjectName, options.Options = b"DLQ", constants.MQPMO_SYNCPOINT
        other.handle.put1(target, b"uncommitted", module.MD(), options)

        assert Runs(world, [0]).run("60")[:3] == ["1", "0 settled"]
        other.back_out()


def test_wait_yes_goes_on_until_the_next_start_of_the_schedule(world: World) -> None:
    runs = Runs(world, [0, 1, 600])

    assert runs.run("YES", keys={"schedule": "0 * * * *"}) == ["1", "1", "1", "nothing"]
    assert world.clock() - NOON == timedelta(hours=1)


@pytest.mark.parametrize(
    ("wait", "given"),
    [
        ("NO", {}),
        ("YES", {}),
        ("YES", {"run_type": "manual", "keys": {"schedule": "0 * * * *"}}),
        ("25", {"keys": {"schedule": "event"}}),
        ("25", {"keys": {"schedule": "@continuous"}}),
        ("25", {"dry_run": True}),
        ("25", {"given_wait": (0,)}),
    ],
)
def test_a_run_that_waits_no_longer_is_not_followed(
    world: World, wait: str, given: dict[str, Any]
) -> None:
    assert Runs(world, [0]).run(wait, **given) == ["1"]


def test_the_parameter_wait_goes_before_that_of_the_table(world: World) -> None:
    assert Runs(world, [0, 1]).run("NO", given_wait=(25,)) == ["1", "1", "nothing"]
