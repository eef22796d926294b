"""Test that a snapshot with compact rows is read with the full rows of earlier ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.model import Outcome
from tests.support.settled_backlog import count_rows, put_backlog, run_to_end, snapshot_location
from tests.support.world import World

pytestmark = pytest.mark.stages


def test_a_snapshot_is_read_with_the_full_rows_of_earlier_ones(world: World) -> None:
    put_backlog(world)
    world.dead_letter(b"twin", dest_q="ORDERS", MsgId=b"t" * 24)
    world.dead_letter(b"twin", dest_q="ORDERS", MsgId=b"t" * 24)
    first, _ = run_to_end(world)
    world.dead_letter(b"new", dest_q="ORDERS")
    second, _ = run_to_end(world)
    places = [world.ledger.snapshots.of_run(run.run_id) for run in (first, second)]
    columns = ["browse_seq", "message_key", "dlh_dest_q_name"]

    complete, compact = (
        list(lake.whole_rows(place.location, columns)) for place in places if place
    )

    assert count_rows(world, second) == (1, 5)
    assert [row["browse_seq"] for row in compact] == [6, 1, 2, 3, 4, 5]
    assert compact[1:] == complete


def test_a_missing_full_row_is_reported(world: World) -> None:
    put_backlog(world)
    first, _ = run_to_end(world)
    second, _ = run_to_end(world)
    here, gone = snapshot_location(world, second), snapshot_location(world, first)
    for file in Path(gone).glob("headers/*.parquet"):
        file.unlink()

    with pytest.raises(LakeError) as caught:
        list(lake.whole_rows(here, ["class"]))

    assert str(caught.value) == (
        f"{gone}/headers/part-00000.parquet is missing; put the file back from a backup of the"
        " lake, or start a new run, which takes a new snapshot [MQDLQ-472]"
    )


def test_many_equal_messages_are_read_one_by_one(world: World) -> None:
    for _ in range(4):
        world.dead_letter(b"same", MsgId=b"m" * 24, dest_q="ORDERS")
    world.dead_letter(b"other", dest_q="ORDERS")
    run_to_end(world)
    for _ in range(2):
        world.dead_letter(b"same", MsgId=b"m" * 24, dest_q="ORDERS")

    run, outcomes = run_to_end(world)

    assert count_rows(world, run) == (2, 5)
    assert outcomes == {Outcome.LEFT_BY_RULE: 7}
    assert [m.occurrence for m in world.ledger.messages.of_run(run.run_id)] == [4, 5]
