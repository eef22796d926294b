"""Test that a DISCARD writes a copy from which the message can be restored completely."""

from __future__ import annotations

import os
from datetime import timedelta
from errno import ENOSPC
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import embedded_mq
from mqdlq.errors import LakeError, QueueManagerError
from mqdlq.lake.archive import Copy, write_copies
from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World
from tests.unit.stages.execute.messages.with_properties import (
    ALL_KINDS,
    BODY,
    copies,
    put_back,
    put_with_properties,
    seen_by_an_application,
)

pytestmark = pytest.mark.stages


def test_a_discarded_message_comes_back_with_its_properties(world: World) -> None:
    put_with_properties(world, *ALL_KINDS)
    before = seen_by_an_application(world)
    assert len(before[0][2]) == len(ALL_KINDS)

    assert world.handle("ACTION(DISCARD)") == {1: "discarded"}
    assert world.depths("DLQ") == (0,)

    (copy,) = copies(world)
    put_back(world, copy)
    assert seen_by_an_application(world) == before


def test_a_message_with_a_property_missing_in_its_copy_stays(world: World) -> None:
    """Twins but for a property: what was copied is taken away, the other is met in its place."""
    put_with_properties(world, (b"colour", "blue", "MQTYPE_STRING", -1))
    ((blue, _),) = world.messages("DLQ")
    execution = world.plan("ACTION(DISCARD)")
    world.interrupted_pass(execution, "MQPUT1[MQDLQ.STATE]:1:2195:before")
    (copy,) = copies(world)
    world.mqsc("CLEAR QLOCAL(DLQ)")
    red = copy | {"body": copy["body"].replace(b">blue<", b">red <")}
    put_back(world, red)
    ((again, _),) = world.messages("DLQ")
    assert again.pack() == blue.pack()

    make_pass(execution)

    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 1}
    assert seen_by_an_application(world)[0][2] in (["red "], [("red ", "colour")])
    (fact,) = world.ledger.outcomes.of_run("run-1").values()
    assert fact.why.words == (
        "its unit of work was backed out: it differs from its archive copy, or the task was"
        " interrupted"
    )


def test_a_message_whose_copy_is_gone_is_not_discarded(world: World) -> None:
    world.dead_letter(BODY)
    execution = world.plan("ACTION(DISCARD)")
    world.interrupted_pass(execution, "MQPUT1[MQDLQ.STATE]:1:2195:before")
    (file,) = Path(world.lake_root).glob("archive/run-1/*.parquet")
    file.unlink()

    make_pass(execution)

    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 1}
    assert world.ledger.outcomes.of_run("run-1")[1].why.words == "it was not archived, so it stays"
    assert world.handle("ACTION(DISCARD)") == {1: "discarded"}  # by a run that copies it again


def test_a_discard_whose_hold_has_ended_at_settling_is_not_said_to_lack_its_copy(
    world: World,
) -> None:
    for _ in range(2):
        world.dead_letter(BODY)
    keys = {"limits": {"messages_per_second": 1 / 120}}
    execution = world.plan("WAIT(NO)\nACTION(DISCARD)", **keys)
    make_pass(execution)
    world.clock.now += timedelta(minutes=10)

    assert settle(execution) == {Outcome.DISCARDED: 1, Outcome.NOT_ATTEMPTED: 1}
    whys = [fact.why.words for fact in world.ledger.outcomes.of_run("run-1").values()]
    assert whys == ["attempt 1", "it was not moved before the run ended"]


def test_only_the_messages_that_a_budget_lets_move_are_archived(world: World) -> None:
    for number in range(5):
        world.dead_letter(bytes([number]))
    execution = world.plan("WAIT(NO)\nACTION(DISCARD)", limits={"messages_per_run": 2})

    make_pass(execution)

    assert settle(execution) == {Outcome.DISCARDED: 2, Outcome.NOT_ATTEMPTED: 3}
    assert len(copies(world)) == 2
    whys = [fact.why.words for fact in world.ledger.outcomes.of_run("run-1").values()]
    assert (
        whys[2:]
        == ["the run has moved as many messages as it may (limits: messages_per_run: 2)"] * 3
    )


def test_a_copy_made_before_an_interruption_is_used_by_the_next_pass(world: World) -> None:
    world.dead_letter(BODY)
    execution = world.plan("ACTION(DISCARD)")
    world.interrupted_pass(execution, "MQPUT1[MQDLQ.STATE]:1:2195:before")

    make_pass(execution)

    assert settle(execution) == {Outcome.DISCARDED: 1}
    assert len(copies(world)) == 1


@pytest.mark.parametrize("directory", ["ledger", "archive/run-1"])
def test_a_full_lake_prevents_discards_and_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    world.dead_letter(BODY)
    execution = world.plan("ACTION(DISCARD)")

    place = f"{world.lake_root}/{directory}"

    def fail(handle: int) -> None:
        written = Path(f"/proc/self/fd/{handle}").resolve()
        if place in {str(written.parent), f"{written}/{Path(place).name}"}:
            raise OSError(ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        with pytest.raises(LakeError) as caught:
            make_pass(execution)

    assert str(caught.value) == (f"{place} cannot be written: No space left on device [MQDLQ-416]")
    assert world.depths("DLQ") == (1,)
    assert make_pass(execution).attempts == 1
    assert settle(execution) == {Outcome.DISCARDED: 1}


def test_small_copies_share_a_row_group_and_a_large_one_has_its_own(tmp_path: Path) -> None:
    lengths = [100, 200, 9_000_000, 300]
    made = [Copy(n, bytes(364), bytes([n]) * length) for n, length in enumerate(lengths)]

    location, digests = write_copies(str(tmp_path), "run-1", "now", made)

    assert digests == {copy.message_id: copy.digest for copy in made}
    with pq.ParquetFile(location) as file:
        groups = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert groups == [2, 1, 1]


@pytest.mark.parametrize("step", ["BROWSE", "GET"])
def test_a_message_that_grows_is_not_waited_for(world: World, step: str) -> None:
    """MQRC_TRUNCATED_MSG_FAILED (2080) without a sufficient length is an error."""
    put_with_properties(world, *ALL_KINDS)
    execution = world.plan("ACTION(DISCARD)")
    nth = {"BROWSE": 2, "GET": 7}[step]
    embedded_mq.faults.set(f"MQGET[DLQ]:{nth}:2080:before")

    with pytest.raises(QueueManagerError, match=r"\(2080\)"):
        make_pass(execution)
    embedded_mq.faults.set("")

    assert make_pass(execution).attempts == 1
    assert settle(execution) == {Outcome.DISCARDED: 1}
