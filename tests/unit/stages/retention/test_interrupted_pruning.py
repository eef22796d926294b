"""Test that a prune that is killed at any step ends in the same state after a second prune."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import event

from mqdlq.handlers import Handler
from mqdlq.lake.archive import file_in_lake, read_back
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.stages.retention import Pruner
from tests.support.restorations import discard, restore_and_count
from tests.support.retention import (
    DAY,
    contents,
    files,
    forget_snapshots,
    pass_days,
    policy,
)
from tests.support.world import World

pytestmark = pytest.mark.slow

FILE_EVENTS = {"os.remove", "os.rename", "os.rmdir", "shutil.rmtree"}
POLICY = policy(archive=10, runs=10)


@dataclass
class Place:
    """A copy of a world's ledger and lake, which a prune may change."""

    directory: Path
    clock: Callable[[], datetime]

    @classmethod
    def copy(cls, world: World, directory: Path) -> Place:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        world.ledger.engine.dispose()
        for name in ("ledger.db", "ledger.db-wal"):
            if (world.directory / name).exists():
                shutil.copy(world.directory / name, directory / name)
        shutil.copytree(world.lake_root, directory / "lake")
        return cls(directory, world.clock)

    @property
    def lake_root(self) -> str:
        return str(self.directory / "lake")

    def open(self) -> Ledger:
        return open_ledger(f"sqlite:///{self.directory}/ledger.db")

    def prune(self, ledger: Ledger, *policies: Handler) -> None:
        self._pruner(ledger).prune(policies or [POLICY])

    def complete(self, ledger: Ledger) -> None:
        self._pruner(ledger).complete_interrupted_prunes()

    def _pruner(self, ledger: Ledger) -> Pruner:
        return Pruner(ledger, self.lake_root, self.clock, "alex", lambda _: None)

    def state(self, ledger: Ledger) -> tuple[object, object]:
        return contents(ledger), set(files(self.lake_root))


def prepare(world: World) -> None:
    """Let there be runs and copies that go, in part, and a copy that a hold keeps."""
    discard(world, b"one", b"two", b"three")
    restore_and_count(world, to_queue="PARKED")
    discard(world, b"four")
    world.dead_letter(b"stays")
    world.handle("ACTION(IGNORE)\n")
    world.clock.now += DAY / 24
    world.handle("ACTION(IGNORE)\n")
    pass_days(world, 20)
    world.dead_letter(b"new", dest_q="ORDERS")
    world.handle("DESTQ(ORDERS) ACTION(RETRY)\nACTION(IGNORE)\n")
    forget_snapshots(world)
    key = world.ledger.archive.copies()[1].message_key.hex()
    world.ledger.holds.add(message_key=key, reason="case 7", who="legal", at=world.clock.now)


def count_steps(place: Place, kill_at: int = 0) -> int:
    """Prune in a child process, which dies at this step; return the number of steps it made."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        made = 0

        def step(*_: object) -> None:
            nonlocal made
            made += 1
            if made == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        ledger = place.open()
        event.listen(ledger.engine, "commit", step)  # before it; nothing changes between two steps
        sys.addaudithook(lambda name, _: step() if name in FILE_EVENTS else None)
        place.prune(ledger)
        os.write(writer, b"%d" % made)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        made = int(told.read() or 0)
    os.waitpid(child, 0)
    return made


def check_that_no_copy_is_lost(place: Place, ledger: Ledger) -> None:
    """Check that every copy that no prune has recorded as going is in the archive, unchanged."""
    for copy in ledger.archive.copies():
        if copy.pruned_at is None:
            found = read_back(file_in_lake(place.lake_root, copy.location))
            assert found[copy.message_id] == copy.digest


@pytest.fixture(name="prepared")
def _prepared(world: World) -> World:
    prepare(world)
    return world


def test_a_prune_killed_at_any_step_ends_in_the_same_state(prepared: World, tmp_path: Path) -> None:
    whole = Place.copy(prepared, tmp_path / "whole")
    steps = count_steps(whole)
    with whole.open() as ledger:
        expected = whole.state(ledger)
        assert len(ledger.archive.copies()) == 3
    assert steps > 12

    for step in range(1, steps + 1):
        place = Place.copy(prepared, tmp_path / "killed")
        assert count_steps(place, kill_at=step) == 0, "it was not killed"
        with place.open() as ledger:
            check_that_no_copy_is_lost(place, ledger)
            place.prune(ledger)
            assert place.state(ledger) == expected, f"killed at step {step} of {steps}"


def test_a_killed_prune_is_completed_although_the_policy_was_removed(
    prepared: World, tmp_path: Path
) -> None:
    """The ledger says already that its copies and runs are gone."""
    steps = count_steps(Place.copy(prepared, tmp_path / "whole"))
    place = Place.copy(prepared, tmp_path / "killed")
    count_steps(place, kill_at=steps * 2 // 3)

    with place.open() as ledger:
        place.complete(ledger)

        assert ledger.prunes.open_files() == []
        assert ledger.prunes.open_runs() == []
        check_that_no_copy_is_lost(place, ledger)


def test_two_prunes_at_once_end_in_the_state_of_one(prepared: World, tmp_path: Path) -> None:
    whole = Place.copy(prepared, tmp_path / "whole")
    with whole.open() as ledger:
        whole.prune(ledger)
        expected = whole.state(ledger)
    place = Place.copy(prepared, tmp_path / "together")
    children = []
    for _ in range(2):
        child = os.fork()
        if not child:
            with place.open() as ledger:
                place.prune(ledger)
            os._exit(0)
        children.append(child)

    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

    assert ended == [0, 0]
    with place.open() as ledger:
        assert place.state(ledger) == expected
