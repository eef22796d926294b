"""Test that notable messages are marked while browsing changes no message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mqdlq import lake
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.stages.snapshot.rows import MAX_INQUIRED_DESTINATIONS, Highlighter
from tests.support.world import World

IGNORE = "RETRYINT(60)\nACTION(IGNORE)"
CHANGES_BY_WAITING = {
    "expiry",
    "expires_at",
    "expires_before_next_pass",
    "backout_count",
    "came_from_backout",
}


def rows(world: World, rules: str = IGNORE) -> list[dict[str, Any]]:
    run = world.start(rules)
    world.snapshot(run, rescan=True)
    snapshot = world.ledger.snapshots.of_run(run.run_id)
    assert snapshot is not None
    return list(lake.snapshot_rows(snapshot.location))


def marks(world: World, name: str) -> list[Any]:
    return [row[name] for row in rows(world)]


def back_out(world: World, times: int) -> None:
    """Get the first message of the DLQ and back it out, several times."""
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        queue = queue_manager.open("DLQ", constants.MQOO_INPUT_SHARED)
        for _ in range(times):
            queue.get(None, module.MD(), module.GMO(Options=constants.MQGMO_SYNCPOINT))
            queue_manager.handle.backout()
        queue_manager.close(queue)


def test_a_message_that_expires_before_the_next_pass_is_marked(world: World) -> None:
    world.dead_letter(Expiry=590)
    world.dead_letter(Expiry=6000)
    world.dead_letter()

    assert marks(world, "expires_before_next_pass") == [True, False, False]


def test_a_backout_reason_alone_marks_a_message(world: World) -> None:
    world.dead_letter(reason=2362)
    world.dead_letter(reason=2053)

    assert marks(world, "came_from_backout") == [True, False]


def test_a_backout_count_at_the_destinations_threshold_is_marked(
    world: World,
) -> None:
    world.mqsc("ALTER QLOCAL(PAYMENTS) BOTHRESH(2) BOQNAME(PARKED)")
    world.dead_letter(dest_q="PAYMENTS")
    back_out(world, 1)
    (before,) = rows(world)
    back_out(world, 1)
    (after,) = rows(world)

    assert (before["came_from_backout"], before["backout_count"]) == (False, 1)
    assert (after["came_from_backout"], after["backout_count"]) == (True, 2)
    assert (after["dest_backout_threshold"], after["dest_backout_requeue_q"]) == (2, "PARKED")


def test_a_destination_whose_boqname_is_this_queue_is_marked(world: World) -> None:
    world.mqsc("ALTER QLOCAL(ORDERS) BOQNAME(DLQ)")
    world.dead_letter(dest_q="ORDERS")
    world.dead_letter(dest_q="ORDERS", dest_q_mgr="QM2")
    world.dead_letter(dest_q="NO.SUCH.QUEUE")

    assert marks(world, "came_from_backout") == [True, False, False]
    assert marks(world, "dest_backout_threshold") == [0, None, None]


def test_a_snapshot_inquires_a_limited_number_of_destinations() -> None:
    asked: list[str] = []

    def ask(queue: str) -> tuple[int, str]:
        asked.append(queue)
        return (0, "")

    made = Highlighter("QM1", "DLQ", 60, ask)
    for number in range(2 * MAX_INQUIRED_DESTINATIONS):
        for _ in range(2):
            made._find_backout_rule(f"Q{number}", "QM1")

    assert len(asked) == MAX_INQUIRED_DESTINATIONS


def test_a_queue_whose_maxmsgl_cuts_messages_is_warned_of(world: World) -> None:
    world.mqsc("ALTER QLOCAL(DLQ) MAXMSGL(200)")
    world.dead_letter(b"x" * 28)
    told: list[str] = []

    world.snapshot(world.start(IGNORE), told, rescan=True)

    assert told[0] == (
        "warning: MAXMSGL of DLQ is 200, that of the queue manager 4194304: longer messages are"
        " cut or refused when they are dead-lettered; ALTER QLOCAL(DLQ) MAXMSGL(4194304) keeps"
        " them whole"
    )


def test_two_snapshots_of_a_quiet_queue_differ_only_in_times_and_expiry(world: World) -> None:
    world.dead_letter(b"one", Expiry=36000)
    world.put("DLQ", b"two")
    world.dead_letter(b"three", Expiry=610)
    first = rows(world)
    back_out(world, 1)
    second = rows(world)

    for one, other in zip(first, second, strict=True):
        assert {name for name in one if one[name] != other[name]} <= CHANGES_BY_WAITING


def test_messages_may_come_and_go_while_a_snapshot_is_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        world.dead_letter(b"%d" % number)
    browse = BrowseCursor.messages

    def disturbed(self: BrowseCursor) -> Iterator[Any]:
        for number, message in enumerate(browse(self)):
            if number == 2:
                world.dead_letter(b"late")
                with world.connect() as queue_manager:
                    queue = queue_manager.open("DLQ", 1)
                    for _ in range(5):  # the current one too, and two new ones
                        queue.get()
                    queue_manager.close(queue)
            yield message

    monkeypatch.setattr(BrowseCursor, "messages", disturbed)

    found = rows(world)

    assert [row["browse_seq"] for row in found] == list(range(1, len(found) + 1))
    assert len(found) == 5


def test_a_user_who_may_only_browse_and_inquire_can_take_a_snapshot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.dead_letter()
    only = "PRINCIPAL('alice') AUTHADD(BROWSE,INQ)"
    world.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT,INQ)\n"
        f"SET AUTHREC PROFILE(DLQ) OBJTYPE(QUEUE) {only}"
    )
    run = world.start(IGNORE)
    monkeypatch.setattr("mqdlq.stages.snapshot.taking.connect", lambda _: as_user(world, "alice"))

    assert world.snapshot(run, rescan=True).messages == 1
    snapshot = world.ledger.snapshots.of_run(run.run_id)
    assert snapshot is not None
    (row,) = lake.snapshot_rows(snapshot.location)
    assert row["dest_backout_threshold"] is None  # PAYMENTS may not be inquired
    with as_user(world, "alice") as queue_manager, pytest.raises(QueueManagerError) as refused:
        queue_manager.open("DLQ", queue_manager.client.CMQC.MQOO_INPUT_SHARED)
    assert refused.value.reason == 2035


def as_user(world: World, user: str) -> Any:
    """Connect under another user's name, which the embedded queue manager accepts."""
    queue_manager = world.connect()
    queue_manager.handle.disconnect()
    client = queue_manager.client
    handle = client.module.QueueManager(None, disconnect_on_exit=False)
    handle.connect_with_options(
        "QM1", opts=client.CMQC.MQCNO_HANDLE_SHARE_BLOCK, user=user, password=user
    )
    return type(queue_manager)(client, handle, "QM1")
