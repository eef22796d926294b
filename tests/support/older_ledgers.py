"""Restore an older copy of a ledger after each kind of move, and collect what the product reports.

`python -m tests.support.older_ledgers` prints the table of copies and moves.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import embedded_mq
from mqdlq import lake
from mqdlq.errors import OlderLedgerError, QueueManagerError
from mqdlq.ledger import open_ledger
from mqdlq.ledger.tables import Run
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.older_ledger import Missing, require_newest_ledger, take_on
from mqdlq.stages.restore.restoration import RestorationResources, restore
from tests.support.restorations import discard, prepare_restoration, restore_and_count
from tests.support.world import World
from tests.unit.controls.loops.returning import send_back
from tests.unit.controls.repair.approved_repairs import approve, keys_on_queue
from tests.unit.controls.sequences.grouped import GROUPS, letter

QUEUES: Final = ("DLQ", "PAYMENTS", "ORDERS", "PARKED")


def copy_ledger(world: World) -> Path:
    """Copy the ledger as a backup does."""
    copy = world.directory / f"copy-{len(list(world.directory.glob('copy-*')))}.db"
    with (
        closing(sqlite3.connect(world.directory / "ledger.db")) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
    return copy


def put_back(world: World, copy: Path) -> None:
    """Restore an older copy of the ledger."""
    world.ledger.close()
    for file in world.directory.glob("ledger.db*"):
        file.unlink()
    (world.directory / "ledger.db").write_bytes(copy.read_bytes())
    world.ledger = open_ledger(world.ledger_url)


def take_on_ledger(world: World) -> Missing:
    """Take on the ledger, a second later than all that was lost; return what it missed."""
    world.clock.sleep(1)
    who, why = "alex", "disk lost"
    _, missing = take_on(world.ledger, world.lake_root, who=who, why=why, clock=world.clock)
    world.clock.sleep(1)
    return missing


def refusal(act: Callable[[], Any]) -> str:
    """Return the id of the error by which an older ledger is recognised, "" if it is not."""
    try:
        act()
    except OlderLedgerError as error:
        return error.error_id
    return ""


def _put(world: World) -> None:
    for number in range(7):
        world.dead_letter(b"%d" % number)


@dataclass(frozen=True)
class Move:
    """A kind of move: how its messages come, by which rules, and the run's other options."""

    rules: str
    options: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[World], None] = _put

    def start(self, world: World) -> Run:
        options = dict(self.options)
        if "repair" in options:
            options["message_keys"] = keys_on_queue(world)
        return world.start(self.rules, **options)


def _put_groups(world: World) -> None:
    for group in (b"a", b"b", b"c"):
        letter(world, b"1", 1, group=group)
        letter(world, b"2", 2, last=True, group=group)


def _put_and_bring_back(world: World) -> None:
    _put(world)
    world.handle("WAIT(NO)\nACTION(RETRY)", **LOOPS)
    send_back(world)


def _put_for_repair(world: World) -> None:
    for number in range(7):
        world.dead_letter(b"%d" % number, inner=(546, 37, "ORDERS"))


LOOPS: Final[dict[str, Any]] = {"loops": {"limit": 1, "then": {"forward": "PARKED"}}}
REPAIR: Final[dict[str, Any]] = {"action": "ACTION(RETRY)", "repair": {"format": "MQSTR"}}
MOVES: Final = {
    "delivery (RETRY)": Move("WAIT(NO)\nACTION(RETRY)"),
    "forward (FWD)": Move("WAIT(NO)\nACTION(FWD) FWDQ(PARKED) HEADER(NO)"),
    "discard": Move("WAIT(NO)\nACTION(DISCARD)"),
    "quarantine": Move("WAIT(NO)\nACTION(RETRY)", LOOPS, _put_and_bring_back),
    "repair": Move("ACTION(IGNORE)", REPAIR, _put_for_repair),
    "group": Move("WAIT(NO)\nACTION(RETRY)", GROUPS, _put_groups),
}
RUN_STAGES: Final = (
    "before the run",
    "after its start",
    "after its snapshot",
    "after its plan",
    "within its pass",
    "after its pass",
    "after its end",
)


@dataclass(frozen=True)
class Told:
    """The refusal, the outcomes when the run continues, and the depths of all queues."""

    refused: str
    outcomes: Counter[tuple[str, bool]]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def in_words(self) -> str:
        recognised = f"refused ({self.refused}), taken on; " if self.refused else ""
        booked = "; ".join(
            f"{number} {outcome}" + (", moved before the ledger was restored" if why else "")
            for (outcome, why), number in sorted(self.outcomes.items())
        )
        return recognised + (booked or "no message of the run is known")


def play_run(world: World, move: Move, stage: str) -> Told:
    """Make a copy of the ledger at a stage, end the run, put the copy back, and continue."""
    move.prepare(world)
    copies = {"before the run": copy_ledger(world)}
    run = move.start(world)
    copies["after its start"] = copy_ledger(world)
    world.snapshot(run)
    copies["after its snapshot"] = copy_ledger(world)
    _accept(world, run)
    copies["after its plan"] = copy_ledger(world)
    world_execution = world.execution(run)
    embedded_mq.faults.set("MQCMIT:2:2009:after")
    try:
        make_pass(world_execution)
    except QueueManagerError:
        embedded_mq.faults.set("")
    copies["within its pass"] = copy_ledger(world)
    make_pass(world_execution)
    copies["after its pass"] = copy_ledger(world)
    settle(world_execution)
    copies["after its end"] = copy_ledger(world)
    before = world.depths(*QUEUES)
    put_back(world, copies[stage])

    refused = refusal(lambda: _go_on(world, run))
    if refused:
        take_on_ledger(world)
        _go_on(world, run)
    booked = world.ledger.outcomes.of_run(run.run_id).values()
    outcomes = Counter((str(one.outcome), "restored" in one.why.words) for one in booked)
    return Told(refused, outcomes, before, world.depths(*QUEUES))


def _accept(world: World, run: Run) -> None:
    """Accept the plan of the run's snapshot, evaluated before or now; approve a repair."""
    snapshot = world.ledger.snapshots.of_run(run.run_id)
    assert snapshot is not None
    plan_id = lake.plan_id(snapshot.snapshot_id, run.rules_digest)
    exists = Path(lake.plan_directory(world.lake_root, plan_id)).exists()
    world.accept(run, plan_id if exists else "")
    if run.repair:
        approve(world, world.execution(run))


def _go_on(world: World, run: Run) -> None:
    """Continue a run as its tasks do when they are cleared; another run begins if it is lost."""
    require_newest_ledger(world.ledger, world.lake_root)
    if world.ledger.runs.get(run.run_id) is None:
        world.handle("WAIT(NO)\nACTION(RETRY)", run_id="another")
        return
    if world.snapshot(run).full and world.ledger.accounts.of_run(run.run_id) is None:
        _accept(world, run)
        make_pass(world.execution(run))
    settle(world.execution(run))


RESTORATION_STAGES: Final = (
    "before the discard",
    "before the request",
    "after the request",
    "within the puts",
    "after the end",
)


@dataclass(frozen=True)
class ToldOfRestoration:
    """The refusal, the same restoration again, another one, and one with again."""

    refused: str
    same: dict[str, int]
    another: dict[str, int]
    puts: int
    again: dict[str, int]

    @property
    def in_words(self) -> str:
        recognised = f"refused ({self.refused}), taken on; " if self.refused else ""
        if not self.another:
            return f"{recognised}the copies stay in the lake, and no restoration knows them"
        words = [
            f"{what}: {', '.join(f'{number} {state}' for state, number in counted.items())}"
            for what, counted in (
                ("the same one", self.same),
                ("another one", self.another),
                ("another one with --again", self.again),
            )
            if counted
        ]
        return recognised + "; ".join(words)


def play_restoration(world: World, stage: str) -> ToldOfRestoration:
    """Make a copy of the ledger at a stage, end the restoration, put it back, and continue."""
    copies = {"before the discard": copy_ledger(world)}
    run_id = discard(world, *(b"%d" % number for number in range(7)))
    copies["before the request"] = copy_ledger(world)
    work = prepare_restoration(world, to_queue="PARKED")
    copies["after the request"] = copy_ledger(world)
    embedded_mq.faults.set("MQCMIT:3:2009:after")
    try:
        restore(work)
    except QueueManagerError:
        embedded_mq.faults.set("")
    copies["within the puts"] = copy_ledger(world)
    restore(work)
    copies["after the end"] = copy_ledger(world)
    assert world.depths("PARKED") == (7,)
    put_back(world, copies[stage])

    def request(name: str, **more: Any) -> dict[str, int]:
        if not world.ledger.archive.copies(run_id=run_id):
            return {}
        return restore_and_count(world, name, run_id=run_id, to_queue="PARKED", **more)

    refused = refusal(lambda: require_newest_ledger(world.ledger, world.lake_root))
    if refused:
        take_on_ledger(world)
    is_known = world.ledger.restorations.get("restoration-1") is not None
    same = _count(_same(work, world)) if is_known else {}
    another = request("restoration-2")
    puts = world.depths("PARKED")[0]
    return ToldOfRestoration(refused, same, another, puts, request("restoration-3", again=True))


def _same(work: RestorationResources, world: World) -> RestorationResources:
    return prepare_restoration(world, work.restoration.restoration_id, to_queue="PARKED")


def _count(work: RestorationResources) -> dict[str, int]:
    return {str(state): number for state, number in restore(work).outcomes.items()}


def table() -> list[str]:
    """Return the table of copies and moves with the reports, as lines of Markdown."""
    lines = ["| move | copy of the ledger | report |", "|---|---|---|"]
    told = [(name, stage) for name in MOVES for stage in RUN_STAGES]
    for name, stage in told:
        with TemporaryDirectory() as directory:
            os.environ["MQDLQ_HOME"] = directory
            world = World(Path(directory))
            with world.ledger:
                lines.append(
                    f"| {name} | {stage} | {play_run(world, MOVES[name], stage).in_words} |"
                )
    for stage in RESTORATION_STAGES:
        with TemporaryDirectory() as directory:
            os.environ["MQDLQ_HOME"] = directory
            world = World(Path(directory))
            with world.ledger:
                lines.append(
                    f"| restoration | {stage} | {play_restoration(world, stage).in_words} |"
                )
    return lines


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
