"""Test that `mqdlq snapshots` lists, shows and prunes, and keeps every needed snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mqdlq import lake
from mqdlq.causes import find_cause
from mqdlq.cli import app
from mqdlq.reading.report.files import write_report
from mqdlq.stages.execute import settle
from mqdlq.stages.retention import prune_snapshots
from tests.support.world import World

pytestmark = pytest.mark.slow

RULES = "WAIT(NO)\nACTION(IGNORE)\n"


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")
    world = World(tmp_path)
    with world.ledger:
        yield world


def snapshot(world: World, *, settled: bool = True, rescan: bool = False) -> str:
    """Take a snapshot an hour after the last one, and settle its run; return its id."""
    world.clock.sleep(3600)
    run = world.start(RULES)
    world.snapshot(run, rescan=rescan)
    if settled:
        world.accept(run)
        settle(world.execution(run))
    return str(world.recorded_snapshot(run.run_id).snapshot_id)


def finished_snapshot_ids(world: World) -> list[str]:
    return [found.manifest.snapshot_id for found in lake.finished_snapshots(world.lake_root)]


def prune(world: World, **limits: Any) -> list[str]:
    removed, _ = prune_snapshots(world.lake_root, ledger=world.ledger, now=world.clock(), **limits)
    return [one.manifest.snapshot_id for one in removed]


def call(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["snapshots", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_the_list_of_an_empty_lake_says_that_there_are_no_snapshots(world: World) -> None:
    assert call("list") == f"no snapshots in {world.lake_root}\n"
    assert json.loads(call("list", "--format", "json")) == {"snapshots": []}


def test_the_list_names_each_snapshot_and_why_pruning_keeps_it(world: World) -> None:
    world.dead_letter()
    first, second = snapshot(world), snapshot(world)

    newest, oldest = json.loads(call("list", "--format", "json"))["snapshots"]

    assert (newest["snapshot_id"], newest["full"], newest["settled"]) == (second, 0, 1)
    assert (newest["refers_to"], newest["kept_because"]) == (
        [first],
        "it is the newest of its queue",
    )
    assert (oldest["messages"], oldest["bytes"], oldest["payload"]) == (1, 176, "none")
    assert oldest["kept_because"] == f"compact rows of {second} refer to it"


def test_the_list_keeps_every_snapshot_id_whole_within_80_columns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    world.dead_letter()
    first, second = snapshot(world), snapshot(world)

    listed = call("list").splitlines()

    assert listed == [
        "DLQ @ QM1",
        "Snapshot                     Messages   Settled      Stored  Payload",
        f"{second}           1         1{_stored(second):>12}  none",
        "  kept: it is the newest of its queue",
        f"{first}           1         0{_stored(first):>12}  none",
        f"  kept: compact rows of {second} refer to it",
    ]
    assert max(map(len, listed)) <= 80


def _stored(snapshot_id: str) -> str:
    found = json.loads(call("list", "--format", "json"))["snapshots"]
    (size,) = (one["stored_bytes"] for one in found if one["snapshot_id"] == snapshot_id)
    return f"{size / 1024:.1f} KiB"


def test_a_snapshot_is_shown_with_its_causes(world: World) -> None:
    world.dead_letter(reason=2053, dest_q="PAYMENTS")
    world.dead_letter(reason=2053, dest_q="PAYMENTS")
    world.put("DLQ", b"stray")
    identifier = snapshot(world)

    shown = json.loads(call("show", identifier, "--format", "json"))

    assert [
        (c["class"], c["reason"], c["dest_q_name"], c["messages"]) for c in shown["causes"]
    ] == [
        ("dead_letter", 2053, "PAYMENTS", 2),
        ("no_dlh", 0, "", 1),
    ]
    text = call("show", identifier)
    assert "MQRC_Q_FULL (2053): the queue is full" in text
    assert "no MQDLH" in text


def test_a_snapshot_is_shown_with_queues_of_generated_names_as_one_cause(world: World) -> None:
    for number in range(3):
        world.dead_letter(reason=2085, dest_q=f"AMQ.{number:016X}")
    identifier = snapshot(world)

    (cause,) = json.loads(call("show", identifier, "--format", "json"))["causes"]

    assert (cause["dest_q_name"], cause["queues"], cause["messages"]) == ("AMQ.*", 3, 3)
    assert cause["cause_id"] == find_cause("dead_letter", 2085, "AMQ.*", "QM1").cause_id
    assert "AMQ.* @ QM1 (3 queues)" in call("show", identifier)


def test_an_unknown_snapshot_is_reported_in_one_line(world: World) -> None:
    assert call("show", "s9", code=1) == (
        f"mqdlq: {world.lake_root} holds no finished snapshot s9 [MQDLQ-419]\n"
    )


def test_pruning_needs_a_limit() -> None:
    assert call("prune", code=2) == (
        "mqdlq: say how many to keep: --keep N, --keep-days D, or both\n"
    )


def test_pruning_keeps_the_newest_of_each_queue(world: World) -> None:
    world.dead_letter()
    ids = [snapshot(world, rescan=True) for _ in range(4)]

    assert call("prune", "--keep", "2", "--dry-run").splitlines() == [
        f"would be removed: {ids[1]} of DLQ @ QM1",
        f"would be removed: {ids[0]} of DLQ @ QM1",
    ]
    assert len(finished_snapshot_ids(world)) == 4
    call("prune", "--keep", "2")

    assert finished_snapshot_ids(world) == [ids[3], ids[2]]
    assert list(Path(world.lake_root).glob(f"plans/{ids[0]}-*")) == []
    assert len(list(Path(world.lake_root).glob("plans/*"))) == 2


def test_pruning_by_age_never_removes_the_newest_snapshot(world: World) -> None:
    world.dead_letter()
    ids = [snapshot(world, rescan=True) for _ in range(3)]
    world.clock.sleep(10 * 86400)

    assert prune(world, keep_for=timedelta(days=1)) == [ids[1], ids[0]]
    assert finished_snapshot_ids(world) == [ids[2]]


def test_pruning_takes_its_limit_in_days_and_is_told_as_json(world: World) -> None:
    world.dead_letter()
    old, new = [snapshot(world, rescan=True) for _ in range(2)]

    said = json.loads(call("prune", "--keep-days", "0", "--format", "json"))

    assert (said["removed"], said["dry_run"]) == ([old], False)
    assert finished_snapshot_ids(world) == [new]


def test_pruning_keeps_snapshots_that_compact_rows_refer_to(world: World) -> None:
    world.dead_letter()
    full, *_, newest = [snapshot(world) for _ in range(4)]

    said = call("prune", "--keep", "1").splitlines()

    assert finished_snapshot_ids(world) == [newest, full]
    assert said[-1] == f"kept: {full}: compact rows of {newest} refer to it"
    (batch,) = lake.settled_rows(lake.find_snapshot(world.lake_root, newest))
    assert batch.column("snapshot_id").to_pylist() == [full]


def test_pruning_removes_snapshots_that_only_removed_ones_refer_to(world: World) -> None:
    world.dead_letter()
    for _ in range(2):
        snapshot(world)
    last = snapshot(world, rescan=True)

    assert len(prune(world, keep=1)) == 2
    assert finished_snapshot_ids(world) == [last]


def test_pruning_keeps_the_snapshot_of_an_unfinished_run(world: World) -> None:
    world.dead_letter()
    unfinished = snapshot(world, settled=False)
    later = snapshot(world)

    assert prune(world, keep=1) == []
    assert finished_snapshot_ids(world) == [later, unfinished]


def test_the_next_snapshot_after_pruning_has_full_rows(world: World) -> None:
    world.dead_letter()
    snapshot(world)
    for found in lake.finished_snapshots(world.lake_root):
        lake.remove_snapshot(world.lake_root, found.directory, found.manifest.snapshot_id)

    snapshot(world)

    (found,) = lake.finished_snapshots(world.lake_root)
    assert (found.manifest.full, found.manifest.settled) == (1, 0)


def test_the_report_of_a_run_with_a_pruned_snapshot_is_the_stored_one(
    world: World,
) -> None:
    world.dead_letter()
    execution = world.plan(RULES)
    settle(execution)
    run_id = execution.run.run_id
    written = write_report(
        run_id,
        ledger=world.ledger,
        lake_root=world.lake_root,
        stages={"sense": "success"},
        clock=world.clock,
    )
    snapshot(world, rescan=True)
    assert prune(world, keep=1) == [world.recorded_snapshot(run_id).snapshot_id]

    result = CliRunner().invoke(app, ["report", run_id])
    as_json = CliRunner().invoke(app, ["report", run_id, "--format", "json"])

    assert (result.exit_code, as_json.exit_code) == (0, 0)
    assert result.output == (
        "The snapshot was pruned (2026-11-21 13:00:00 UTC); this was written at the run's end:\n\n"
        f"{written.text}"
    )
    assert json.loads(as_json.output)["verdict"] == "ok"
