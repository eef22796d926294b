"""Test backfills: merged snapshots of a window, and differences under the current rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq import lake
from mqdlq.lake import SnapshotManifest, snapshot_rows
from mqdlq.ledger.tables import Run, TakenSnapshot
from mqdlq.stages.backfill import drop_pruned, find_differences, merge_snapshots
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.retention import prune_snapshots
from mqdlq.stages.sense import BackfillWindow, find_snapshots_in_window
from tests.support.world import NOON, World

pytestmark = pytest.mark.slow

THEN = "WAIT(NO)\nDESTQ(PAYMENTS) ACTION(IGNORE)\nDESTQ(ORDERS) ACTION(FWD) FWDQ(PARKED)\n"
NOW = "WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\nDESTQ(ORDERS) ACTION(FWD) FWDQ(PARKED)\n"
DAY = BackfillWindow(NOON, NOON + timedelta(days=1))


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    """Make a world after two runs, of which the second had one message more."""
    world = World(tmp_path)
    world.dead_letter(dest_q="PAYMENTS")
    world.dead_letter(dest_q="ORDERS")
    world.handle(THEN)
    world.clock.now += timedelta(hours=1)
    world.dead_letter(dest_q="ELSEWHERE")
    world.handle(THEN)
    world.clock.now += timedelta(hours=1)
    return world


def backfill_run(world: World, rules: str) -> Run:
    return world.start(rules, dry_run=True)


def made(world: World, run: Run, *, apply: bool, window: BackfillWindow = DAY) -> SnapshotManifest:
    taken = drop_pruned(find_snapshots_in_window(run, window, world.ledger))
    return merge_snapshots(world.execution(run), taken, apply=apply)


def place(world: World, manifest: SnapshotManifest) -> str:
    return lake.snapshot_directory(world.lake_root, "QM1", "DLQ", manifest.snapshot_id)


def test_the_newest_row_of_each_message_of_the_window_is_taken(world: World) -> None:
    manifest = made(world, backfill_run(world, NOW), apply=False)

    rows = list(snapshot_rows(place(world, manifest)))
    assert [(row["browse_seq"], row["dlh_dest_q_name"]) for row in rows] == [
        (1, "PAYMENTS"),  # the second snapshot has a compact row of it
        (2, "ORDERS"),
        (3, "ELSEWHERE"),
    ]
    assert manifest.rules_text == NOW


def test_a_window_is_from_its_start_up_to_its_end(world: World) -> None:
    run = backfill_run(world, NOW)
    first, second = find_snapshots_in_window(run, DAY, world.ledger)

    assert first.taken_at == NOON
    assert find_snapshots_in_window(run, BackfillWindow(NOON, second.taken_at), world.ledger) == [
        first
    ]
    assert find_snapshots_in_window(
        run, BackfillWindow(second.taken_at, NOON + timedelta(days=9)), world.ledger
    ) == [second]
    assert (
        find_snapshots_in_window(run, BackfillWindow(NOON - timedelta(days=1), NOON), world.ledger)
        == []
    )


def test_snapshots_that_are_pruned_are_left_out(tmp_path: Path) -> None:
    world = World(tmp_path)
    for body in (b"1", b"2", b"3"):
        world.dead_letter(body=body)
        run = world.start(THEN)
        world.snapshot(run, rescan=True)  # no later one needs it
        world.accept(run)
        settle(world.execution(run))
        world.clock.now += timedelta(hours=1)
    prune_snapshots(world.lake_root, ledger=world.ledger, now=world.clock(), keep=2)
    run = backfill_run(world, NOW)

    assert len(find_snapshots_in_window(run, DAY, world.ledger)) == 3
    assert len(drop_pruned(find_snapshots_in_window(run, DAY, world.ledger))) == 2
    assert made(world, run, apply=False).messages == 3


@pytest.mark.parametrize("apply", [False, True])
def test_equal_messages_are_counted_though_some_were_settled_before(
    tmp_path: Path, apply: bool
) -> None:
    world = World(tmp_path)
    world.dead_letter(MsgId=b"A" * 24)
    world.handle(THEN)
    world.clock.now += timedelta(hours=1)
    world.dead_letter(MsgId=b"A" * 24)
    world.handle(THEN)

    assert made(world, backfill_run(world, NOW), apply=apply).messages == 2


def test_an_evaluation_of_a_backfill_leaves_the_ledger_unchanged(world: World) -> None:
    run = backfill_run(world, NOW)

    made(world, run, apply=False)

    assert world.ledger.snapshots.of_run(run.run_id) is None


def test_a_backfill_counts_differences_to_the_plans_of_that_time(world: World) -> None:
    run = backfill_run(world, NOW)
    manifest = made(world, run, apply=False)
    # World.evaluate reads the ledger's snapshot; this one is not in it.
    recorded = world.start(NOW, run_id="evaluation", dry_run=True)
    world.ledger.snapshots.record(
        TakenSnapshot(
            recorded.run_id, manifest.snapshot_id, place(world, manifest), 3, manifest.taken_at
        )
    )
    plan = lake.plan_directory(world.lake_root, world.evaluate(recorded))

    until_then = BackfillWindow(NOON, NOON + timedelta(minutes=90))

    evaluated, changed = find_differences(
        find_snapshots_in_window(run, until_then, world.ledger),
        place(world, manifest),
        plan,
        ledger=world.ledger,
    )

    assert evaluated == 3
    assert changed == [("IGNORE", "RETRY to PAYMENTS", 1)]


def test_a_run_for_named_messages_hides_no_plan_for_the_others(world: World) -> None:
    (named, *_) = snapshot_rows(
        find_snapshots_in_window(world.start(THEN), DAY, world.ledger)[0].location
    )
    settle(world.plan(THEN, message_keys=(named["message_key"].hex(),), action="ACTION(IGNORE)"))
    world.clock.now += timedelta(hours=1)
    run = backfill_run(world, THEN)
    taken = find_snapshots_in_window(run, DAY, world.ledger)
    manifest = made(world, run, apply=False)
    recorded = world.start(THEN, run_id="evaluation", dry_run=True)
    world.ledger.snapshots.record(
        TakenSnapshot(
            recorded.run_id, manifest.snapshot_id, place(world, manifest), 3, manifest.taken_at
        )
    )
    plan = lake.plan_directory(world.lake_root, world.evaluate(recorded))

    assert find_differences(taken, place(world, manifest), plan, ledger=world.ledger) == (3, [])


def test_a_backfill_acts_once_and_only_on_messages_that_are_on_the_queue(world: World) -> None:
    run = replace(world.start(NOW), run_type="backfill")
    manifest = made(world, run, apply=True)

    assert manifest.messages == 2  # the order was forwarded by the first run
    world.accept(run)
    execution = world.execution(run)
    make_pass(execution)
    settle(execution)
    assert sorted(world.outcomes(run).values()) == ["delivered", "unmatched"]
    assert world.depths("DLQ", "PAYMENTS", "PARKED") == (1, 1, 1)

    again = made(world, world.start(NOW), apply=True)
    assert again.messages == 1
    assert world.depths("PAYMENTS") == (1,)
