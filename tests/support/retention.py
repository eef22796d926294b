"""Builders for tests of retention: a policy, a prune, and the state that it leaves."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, select

from mqdlq.handlers import Handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.retention import Protection
from mqdlq.ledger.tables import Look, metadata
from mqdlq.stages.retention import Pruner, PruneResult, prune_snapshots
from tests.support.world import World

DAY = timedelta(days=1)
HANDLER = "test"


def policy(
    *, archive: float | None = None, runs: float | None = None, name: str = HANDLER
) -> Handler:
    """Return a handler that keeps archive copies and runs for so many days."""
    handler = Handler(name=name, directory=Path(), connection="mq", table="ACTION(IGNORE)")
    days = [None if number is None else number * DAY for number in (archive, runs)]
    limits = zip(("keep_archive_for", "keep_runs_for"), days, strict=True)
    return handler.model_copy(update=dict(limits))


def pruner(world: World) -> Pruner:
    return Pruner(world.ledger, world.lake_root, world.clock, "alex", world.log.info)


def pass_days(world: World, days: int) -> None:
    """Let days pass; at least every ten days a run finds no work."""
    while days:
        step = min(days, 10)
        world.clock.now += step * DAY
        days -= step
        idle_run(world)


def idle_run(world: World) -> str:
    """Record a run that found no work."""
    run = world.start("ACTION(IGNORE)")
    world.ledger.runs.record_look(run.run_id, Look(0, False, "0 messages", world.clock.now))
    return run.run_id


def change(world: World, table: Table, where: ColumnElement[bool], **values: Any) -> None:
    """Change facts of the ledger, to which no test could come otherwise."""
    with world.ledger.engine.begin() as connection:
        connection.execute(table.update().where(where).values(values))


def prune_now(
    world: World,
    *,
    archive: int | None = None,
    runs: int | None = None,
    is_dry_run: bool = False,
    trust_clock: bool = False,
) -> PruneResult:
    (result,) = pruner(world).prune(
        [policy(archive=archive, runs=runs)], is_dry_run=is_dry_run, trust_clock=trust_clock
    )
    return result


def forget_snapshots(world: World) -> None:
    """Prune all snapshots but the newest of each queue."""
    prune_snapshots(world.lake_root, ledger=world.ledger, now=world.clock.now, keep=1)


def kept_words(counted: Counter[Protection]) -> dict[str, int]:
    return {why.value: number for why, number in counted.items()}


def contents(ledger: Ledger) -> dict[str, list[str]]:
    """Return all rows of the ledger, without the times and numbers of prunes."""
    without = {"prunes", "pruned_files"}
    with ledger.engine.connect() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(_without_prune_ids(table))))
            for table in metadata.sorted_tables
            if table.name not in without
        }


def _without_prune_ids(table: Table) -> Select[Any]:
    return select(*(column for column in table.c if column.name != "prune_id"))


def files(lake_root: str) -> dict[str, int]:
    """Return the files of archive, plans and snapshots with their sizes."""
    root = Path(lake_root)
    return {
        str(path.relative_to(root)): path.stat().st_size
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
