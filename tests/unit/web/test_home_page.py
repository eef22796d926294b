"""The overview and a handler's home after a person has acted: what runs settled is not counted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq.ledger.tables import Look
from mqdlq.reading.fleet import QueueState, read_fleet
from mqdlq.reading.report.files import write_report
from mqdlq.stages.execute import make_pass
from mqdlq.tools.acting import Sources
from mqdlq.web.overview import read_queues
from tests.support.web.demo_world import ALL_WELL
from tests.support.world import Outcome, World

pytestmark = pytest.mark.stages

RULES = "DESTQ(NOWHERE) ACTION(RETRY)\n"
FULL, NO_QUEUE = 2053, 2085


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    with (world := World(tmp_path)).ledger:
        for number in range(5):
            world.dead_letter(b"full %d" % number, reason=FULL)
        for number in range(3):
            world.dead_letter(b"none %d" % number, dest_q="ORDERS", reason=NO_QUEUE)
        handle(world)
        yield world


def handle(world: World, *keys: str, action: str | None = None, reports: bool = True) -> None:
    """Handle the queue, or act on some messages as admin, ten minutes after the last run."""
    world.clock.now += timedelta(minutes=10)
    world.handle(RULES, action=action, message_keys=keys, user="admin" if keys else "")
    run_id = f"run-{world.runs}"
    if reports:
        files = write_report(
            run_id,
            ledger=world.ledger,
            lake_root=world.lake_root,
            stages=ALL_WELL,
            clock=world.clock,
        )
        run = world.ledger.runs.get(run_id)
        assert run is not None
        world.ledger.accounts.oldest_that_stays(run, files.oldest_left)


def keys_of(world: World, reason: int) -> list[str]:
    found = (one for queue in queues(world) for one in queue["troubles"] or ())
    rows = (row for one in found if f"({reason})" in one.first.cause for row in one.rows)
    return [row.message_key for row in rows]


def queues(world: World) -> list[dict[str, Any]]:
    return read_queues(Sources("test", world.ledger, world.lake_root, world.clock), {})


def test_the_home_shows_the_remaining_messages_and_who_handled_the_others(world: World) -> None:
    full = keys_of(world, FULL)
    assert len(full) == 5
    handle(world, full[0], action="ACTION(RETRY) RETRY(1)")
    handle(world, *full[1:], action="ACTION(RETRY) RETRY(1)")

    (queue,) = queues(world)

    row = queue["row"]
    assert (row.attention, row.depth, row.state) == (3, 3, QueueState.ATTENTION)
    assert row.findings[0][1] == (
        "3 messages need attention. 5 were handled by 2 runs, the last at"
        " 2026-11-21 12:30:00 UTC by admin."
    )
    assert [(one.run_id, one.who, one.messages) for one in row.since] == [
        ("run-3", "admin", 4),
        ("run-2", "admin", 1),
    ]
    assert queue["troubles"] is not None
    assert [one.messages for one in queue["troubles"]] == [3]
    assert "MQRC_UNKNOWN_OBJECT_NAME (2085)" in queue["troubles"][0].first.cause
    assert queue["attention"] == [(Outcome.UNMATCHED, 3)]


def test_a_part_of_a_group_that_was_handled_is_left_out_of_it(world: World) -> None:
    handle(world, *keys_of(world, FULL)[:2], action="ACTION(DISCARD)")

    (queue,) = queues(world)

    assert sorted(one.messages for one in queue["troubles"] or ()) == [3, 3]


def test_a_failed_retry_still_needs_attention(world: World) -> None:
    handle(world, *keys_of(world, FULL), action="ACTION(FWD) FWDQ(CLOSED)")

    (queue,) = queues(world)

    assert (queue["row"].attention, queue["row"].since) == (8, ())
    assert queue["attention"] == [(Outcome.UNMATCHED, 3), (Outcome.EXHAUSTED, 5)]


def test_a_queue_whose_messages_were_all_handled_says_by_whom(world: World) -> None:
    handle(world, *keys_of(world, FULL), *keys_of(world, NO_QUEUE), action="ACTION(IGNORE)")

    (row,) = read_fleet(world.ledger, {}, frozenset, world.clock())

    assert (row.state, row.attention, row.depth) == (QueueState.HANDLED, 0, 8)
    assert row.findings[0][1] == "8 were handled at 2026-11-21 12:20:00 UTC by admin."


def test_a_run_for_the_whole_queue_without_a_report_has_settled_what_it_booked(
    world: World,
) -> None:
    handle(world)
    world.clock.now += timedelta(minutes=10)
    world.handle("REASON(MQRC_Q_FULL) ACTION(RETRY)\n")

    (row,) = read_fleet(world.ledger, {}, frozenset, world.clock())

    assert (row.attention, row.depth) == (3, 3)
    assert row.findings[0][1].startswith(
        "3 messages need attention by the account of 2026-11-21 12:20:00 UTC, 10 min 0 s ago. 5"
    )


def test_messages_that_a_run_in_progress_has_moved_are_off_the_depth(world: World) -> None:
    world.clock.now += timedelta(minutes=10)
    execution = world.plan("REASON(MQRC_Q_FULL) ACTION(RETRY)\n")

    world.ledger.runs.record_look(execution.run.run_id, Look(8, True, "", world.clock()))
    make_pass(execution)

    (row,) = read_fleet(world.ledger, {}, frozenset, world.clock())

    assert (row.depth, row.attention) == (3, 3)
