"""Test that merged snapshots of backfills do not count as snapshots of a queue."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest

from mqdlq import lake
from mqdlq.cli.rules_diff import stored_snapshots
from mqdlq.ledger.tables import Run
from mqdlq.model import Outcome
from mqdlq.stages.backfill import drop_pruned, merge_snapshots
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.retention import find_reasons_to_keep, prune_snapshots
from mqdlq.stages.sense import BackfillWindow, find_snapshots_in_window
from tests.support.world import NOON, World

pytestmark = pytest.mark.slow

RULES = "WAIT(NO)\nACTION(RETRY)\n"
DAY = BackfillWindow(NOON, NOON + timedelta(days=1))


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    with world.ledger:
        yield world


def taken(world: World) -> str:
    """Add a message and take a snapshot, an hour after the last one; return its id."""
    world.clock.sleep(3600)
    world.dead_letter(dest_q="CLOSED")
    execution = world.plan("WAIT(NO)\nDESTQ(NOWHERE) ACTION(RETRY)")
    make_pass(execution)
    settle(execution)
    return str(world.recorded_snapshot(execution.run.run_id).snapshot_id)


def backfilled(
    world: World, *, apply: bool = False, message_keys: tuple[str, ...] = ()
) -> tuple[Run, str]:
    """Merge the snapshots of the day, an hour after the last one; return run and id."""
    world.clock.sleep(3600)
    run = world.start(RULES, dry_run=not apply, message_keys=message_keys)
    taken = drop_pruned(find_snapshots_in_window(run, DAY, world.ledger))
    manifest = merge_snapshots(world.execution(run), taken, apply=apply)
    return run, manifest.snapshot_id


def pruned(world: World, **limits: Any) -> list[str]:
    removed, _ = prune_snapshots(world.lake_root, ledger=world.ledger, now=world.clock(), **limits)
    return [one.manifest.snapshot_id for one in removed]


def test_evaluations_of_backfills_push_out_no_taken_snapshot(world: World) -> None:
    for _ in range(3):
        taken(world)
        backfilled(world)

    assert pruned(world, keep=3) == []
    assert pruned(world, keep=2) == []  # the first is referred to by compact rows


def test_a_backfill_does_not_replace_the_newest_taken_snapshot(world: World) -> None:
    newest = taken(world)
    _, evaluated = backfilled(world)

    found = lake.finished_snapshots(world.lake_root)

    assert find_reasons_to_keep(found, world.ledger, world.clock()) == {
        newest: "it is the newest of its queue",
        evaluated: "a backfill may still evaluate it",
    }
    assert pruned(world, keep=0) == []


def test_evaluations_are_pruned_by_the_same_limits_after_a_day(world: World) -> None:
    newest = taken(world)
    first, second = backfilled(world)[1], backfilled(world)[1]
    assert pruned(world, keep=1) == []
    world.clock.now += timedelta(days=1)

    assert pruned(world, keep=1) == [first]
    assert pruned(world, keep_for=timedelta(hours=2)) == [second]
    assert [one.manifest.snapshot_id for one in lake.finished_snapshots(world.lake_root)] == [
        newest
    ]


def test_a_snapshot_that_a_backfill_acts_on_stays_until_its_account_is_settled(
    world: World,
) -> None:
    taken(world)
    run, acted_on = backfilled(world, apply=True)
    world.accept(run)
    make_pass(world.execution(run))
    world.clock.now += timedelta(days=2)

    assert pruned(world, keep=0) == []
    settle(world.execution(run))
    assert pruned(world, keep=0) == [acted_on]


def test_rules_are_compared_over_taken_snapshots_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = taken(world)
    backfilled(world)
    monkeypatch.setattr("mqdlq.cli.output.datetime", _Now)

    stored = stored_snapshots((), timedelta(days=1))

    assert [one.manifest.snapshot_id for one in stored] == [newest]


class _Now(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> _Now:
        return cls.fromtimestamp((NOON + timedelta(hours=3)).timestamp(), tz)


def test_the_manifest_of_a_backfill_names_its_snapshots(world: World) -> None:
    names = [taken(world), taken(world)]
    _, evaluated = backfilled(world)

    directory = lake.find_snapshot(world.lake_root, evaluated)

    assert lake.read_manifest(directory).put_together_from == tuple(names)


def test_a_backfill_for_named_messages_contains_only_these(world: World) -> None:
    for _ in range(3):
        taken(world)
    _, whole = backfilled(world)
    rows = list(lake.snapshot_rows(lake.find_snapshot(world.lake_root, whole)))
    key = rows[1]["message_key"]

    run, some = backfilled(world, apply=True, message_keys=(key.hex(),))

    location = lake.find_snapshot(world.lake_root, some)
    assert [row["message_key"] for row in lake.snapshot_rows(location)] == [key]
    assert lake.read_manifest(location).message_keys == (key.hex(),)
    world.accept(run)
    execution = world.execution(run)
    make_pass(execution)
    assert settle(execution) == {Outcome.EXHAUSTED: 1}
