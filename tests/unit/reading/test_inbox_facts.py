"""Runs book for the inbox what is on their queues, and when it arrived, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq.causes import find_cause
from mqdlq.handlers.owners import Owners
from mqdlq.lake.cause_numbers import book_causes
from mqdlq.ledger.tables import CauseNumbers, Look
from mqdlq.model import Outcome
from mqdlq.reading.inbox import notifications_of_owners, read_inbox
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.postgresql import ledger_url_fixture
from tests.support.world import NOON, World

__all__ = ["ledger_url_fixture"]
pytestmark = pytest.mark.stages

RULES = "REASON(MQRC_Q_FULL) ACTION(RETRY)\nDESTQ(CLOSED) ACTION(RETRY) RETRY(1)\n"
FULL = find_cause("dead_letter", 2053, "PAYMENTS", "QM1").cause_id
CLOSED = find_cause("dead_letter", 2051, "CLOSED", "QM1").cause_id
STRAY = find_cause("no_dlh", 0, "", "").cause_id


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger_url: str) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    with (world := World(tmp_path, ledger_url=ledger_url)).ledger:
        yield world


def numbers(world: World) -> dict[str, CauseNumbers]:
    return {row.numbers.cause_id: row.numbers for row in world.ledger.inbox.all()}


def conclude(world: World, run_id: str) -> None:
    run = world.ledger.runs.get(run_id)
    assert run is not None
    book_causes(run, world.ledger)


def test_a_run_books_what_it_left_on_the_queue_by_cause(world: World) -> None:
    for number in range(3):
        world.dead_letter(bytes([number]), PutApplName=b"billing")
    world.dead_letter(b"x", dest_q="CLOSED", reason=2051, PutApplName=b"web", Expiry=36_000)
    world.put("DLQ", b"no header")
    world.handle(RULES)
    conclude(world, "run-1")

    found = numbers(world)
    assert {one: (n.messages, n.attention, n.expiring) for one, n in found.items()} == {
        FULL: (0, 0, 0),
        CLOSED: (1, 1, 1),
        STRAY: (1, 1, 0),
    }
    assert found[CLOSED].applications == '{"web": 1}'
    assert found[FULL].last_at is not None


def test_messages_count_from_their_snapshot_on_while_the_run_goes_on(world: World) -> None:
    """A run that waits for an approval may take hours."""
    world.dead_letter(b"1")
    world.dead_letter(b"2", dest_q="CLOSED", reason=2051)
    run = world.start(RULES)
    world.snapshot(run)
    record_causes(run, ledger=world.ledger)

    assert {one: (n.messages, n.attention) for one, n in numbers(world).items()} == {
        FULL: (1, 1),
        CLOSED: (1, 1),
    }


def test_a_message_that_several_snapshots_see_arrived_once(world: World) -> None:
    for round_ in (1, 2, 3):
        world.dead_letter(bytes([round_]), dest_q="CLOSED", reason=2051)
        world.handle("DESTQ(CLOSED) ACTION(IGNORE)\n", dry_run=round_ == 1)
        conclude(world, f"run-{round_}")
        conclude(world, f"run-{round_}")

    found = world.ledger.inbox.arrivals([CLOSED], ["test"], NOON - timedelta(days=99))
    assert sum(found[CLOSED].values()) == 3
    assert numbers(world)[CLOSED].messages == 3


def test_what_a_run_for_some_messages_moved_no_longer_counts(world: World) -> None:
    for number in range(3):
        world.dead_letter(bytes([number]))
    world.handle("ACTION(IGNORE)\n")
    conclude(world, "run-1")
    key = next(iter(world.ledger.messages.of_run("run-1"))).message_key
    world.clock.sleep(60)
    assert Outcome.DELIVERED in world.handle(RULES, message_keys=(key.hex(),)).values()
    conclude(world, "run-2")

    (row,) = read_inbox(world.ledger, ["test"], NOON)
    assert (row.numbers.messages, row.numbers.attention) == (2, 0)
    assert world.ledger.inbox.messages([FULL]) == {FULL: 2}


def test_a_look_at_an_empty_queue_leaves_no_message(world: World) -> None:
    world.dead_letter(b"1", dest_q="CLOSED", reason=2051)
    world.handle(RULES)
    conclude(world, "run-1")
    world.clear("DLQ")
    world.clock.sleep(60)
    run = world.start(RULES)
    world.ledger.runs.record_look(run.run_id, Look(0, False, "empty", world.clock()))
    conclude(world, run.run_id)

    assert [one.numbers.messages for one in read_inbox(world.ledger, ["test"], NOON)] == [0]


def test_a_person_who_may_read_one_handler_sees_its_messages_only(world: World) -> None:
    world.dead_letter(b"1", dest_q="CLOSED", reason=2051)
    world.handle(RULES)
    conclude(world, "run-1")

    assert read_inbox(world.ledger, ["another"], NOON) == []


def test_alerts_go_to_the_owners_of_the_causes_on_the_queue(world: World) -> None:
    world.dead_letter(b"1", dest_q="CLOSED", reason=2051)
    world.dead_letter(b"2")
    world.handle(RULES)
    conclude(world, "run-1")
    run = world.ledger.runs.get("run-1")
    assert run is not None
    notify = {"notifier": "mqdlq.airflow.notifications.WebhookNotifier"}
    people = {name: {"users": ["ann"], "notify": [notify]} for name in ("closed", "paid")}
    causes = [
        {"destination": "CLOSED", "owner": "closed"},
        {"destination": "PAY*", "owner": "paid"},
    ]
    owners = Owners.model_validate({"owners": people, "causes": causes})

    found = notifications_of_owners(run, world.ledger, owners)

    assert found == list(owners.owners["closed"].notify)
    assert notifications_of_owners(run, world.ledger, Owners()) == []
