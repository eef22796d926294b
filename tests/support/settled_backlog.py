"""A queue of messages that runs leave settled, and runs over it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mqdlq import lake
from mqdlq.ledger.tables import Run
from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World

RULES = """\
WAIT(NO)
DESTQ(ORDERS) ACTION(IGNORE)
DESTQ(PAYMENTS) ACTION(RETRY)
"""


def run_to_end(world: World, rules: str = RULES, **keys: Any) -> tuple[Run, Counter[Outcome]]:
    """Run the handler to its end; return its run, and its outcomes, counted."""
    options = {name: keys.pop(name) for name in ("rescan", "full_every") if name in keys}
    run = world.start(rules, **keys)
    world.clock.sleep(1)
    world.snapshot(run, **options)
    world.accept(run)
    execution = world.execution(run)
    result = make_pass(execution)
    while result.next_pass_at is not None:
        world.clock.now = result.next_pass_at
        result = make_pass(execution)
    return run, settle(execution)


def snapshot_location(world: World, run: Run) -> str:
    snapshot = world.ledger.snapshots.of_run(run.run_id)
    assert snapshot is not None
    return str(snapshot.location)


def count_rows(world: World, run: Run) -> tuple[int, int]:
    found = lake.read_manifest(snapshot_location(world, run))
    return found.full, found.settled


def put_backlog(world: World) -> None:
    """Put one message of each kind that a run leaves settled."""
    world.dead_letter(b"ignored", dest_q="ORDERS")
    world.dead_letter(b"unmatched", dest_q="NOWHERE")
    world.put("DLQ", b"no header")
