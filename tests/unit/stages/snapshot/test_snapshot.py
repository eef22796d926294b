"""Test that a snapshot lists a queue, changes no message, and exists only when complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import embedded_mq
from mqdlq import lake
from mqdlq.errors import QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.ledger.tables import Run
from mqdlq.stages.run_options import RunOptions
from tests.support.world import NOON, World


def rows(world: World, run: Run) -> list[dict[str, Any]]:
    snapshot = world.ledger.snapshots.of_run(run.run_id)
    assert snapshot is not None
    return list(lake.snapshot_rows(snapshot.location))


def test_every_message_has_a_row_in_browse_order(world: World) -> None:
    world.dead_letter(b"first", dest_q="PAYMENTS")
    world.put("DLQ", b"no header")
    world.dead_letter(b"urgent", dest_q="ORDERS", Priority=9)
    run = world.start("ACTION(IGNORE)")

    manifest = world.snapshot(run)

    found = [(r["browse_seq"], r["class"], r["dlh_dest_q_name"]) for r in rows(world, run)]
    assert found == [
        (1, "dead_letter", "ORDERS"),
        (2, "dead_letter", "PAYMENTS"),
        (3, "no_dlh", None),
    ]
    assert (manifest.messages, manifest.bytes) == (3, 172 + 6 + 172 + 5 + 9)
    assert (manifest.taken_at, manifest.rules_text) == (NOON, "ACTION(IGNORE)")


def test_browsing_changes_no_message(world: World) -> None:
    world.dead_letter()
    before = [(md.pack(), body) for md, body in world.messages("DLQ")]

    world.snapshot(world.start("ACTION(IGNORE)"))

    assert [(md.pack(), body) for md, body in world.messages("DLQ")] == before


def test_two_snapshots_of_a_quiet_queue_are_equal(world: World) -> None:
    world.dead_letter(b"one")
    world.dead_letter(b"two")
    first, second = world.start("ACTION(IGNORE)"), world.start("ACTION(IGNORE)")
    world.snapshot(first)
    world.snapshot(second)

    assert rows(world, first) == rows(world, second)


def test_the_snapshot_of_a_run_is_taken_once(world: World) -> None:
    world.dead_letter()
    run = world.start("ACTION(IGNORE)")
    first = world.snapshot(run)
    world.dead_letter()

    assert world.snapshot(run) == first


def test_messages_without_a_valid_mqdlh_are_logged_as_amq8721(world: World) -> None:
    world.put("DLQ", b"stray")
    told: list[str] = []

    world.snapshot(world.start("ACTION(IGNORE)"), told)

    assert told[0] == "AMQ8721: 1 messages are not prefixed by a valid MQDLH; they are left"


def test_a_message_as_long_as_the_queue_allows_may_have_been_cut(world: World) -> None:
    world.mqsc("ALTER QLOCAL(DLQ) MAXMSGL(200)")
    world.dead_letter(b"x" * 28)
    world.dead_letter(b"x" * 27)
    run = world.start("ACTION(IGNORE)")
    world.snapshot(run)

    assert [row["maybe_truncated"] for row in rows(world, run)] == [True, False]


def test_an_interrupted_snapshot_does_not_exist(world: World) -> None:
    for _ in range(3):
        world.dead_letter()
    run = world.start("ACTION(IGNORE)")
    embedded_mq.faults.set("MQGET:2:2009:before")
    with pytest.raises(QueueManagerError):
        world.snapshot(run)
    embedded_mq.faults.set("")

    assert world.ledger.snapshots.of_run(run.run_id) is None
    assert list(Path(world.lake_root).rglob("_MANIFEST.json")) == []
    assert world.snapshot(run).messages == 3


def test_a_queue_name_with_every_character_names_a_safe_directory(world: World) -> None:
    world.mqsc("DEFINE QLOCAL('dlq/a%b_c.D')")
    run = world.start("INPUTQ('dlq/a%b_c.D')\nACTION(IGNORE)")

    manifest = world.snapshot(run)

    assert manifest.queue == "dlq/a%b_c.D"
    assert rows(world, run) == []


def test_a_snapshot_stores_the_handlers_nul_as_blank(world: World) -> None:
    world.start("ACTION(IGNORE)\n")
    handler = Handler(
        name="h",
        directory=world.directory / "rules",
        connection="mq",
        rules="test.rules",
        nul_as_blank=True,
    )
    run = world.begin("r", handler, RunOptions())

    assert world.snapshot(run).nul_as_blank is True
    assert world.ledger.runs.get("r") == run
