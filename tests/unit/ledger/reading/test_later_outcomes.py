"""Test what later runs did with the messages of a snapshot, as the ledger counts it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq.ledger.reading.later_outcomes import LaterCount
from mqdlq.model import Outcome
from tests.support.world import World

pytestmark = pytest.mark.stages

RULES = "DESTQ(NOWHERE) ACTION(RETRY)\n"
HOUR = timedelta(hours=1)


@pytest.fixture(name="world")
def _world(tmp_path: Path, ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    with (world := World(tmp_path, ledger_url=ledger_url)).ledger:
        yield world


def fill(world: World, number: int) -> list[str]:
    """Put messages that no rule matches, and handle them; return their keys."""
    for body in range(number):
        world.dead_letter(bytes([body]))
    world.handle(RULES)
    return sorted(one.message_key.hex() for one in world.ledger.messages.of_run("run-1"))


def act(
    world: World, *keys: str, action: str = "ACTION(RETRY) RETRY(1)", **options: object
) -> None:
    """Act on messages an hour after the last run, as admin."""
    world.clock.now += HOUR
    given = {"action": action, "message_keys": keys, "user": "admin", **options}
    world.handle(RULES, **given)


def counts(world: World, run_id: str = "run-1") -> list[tuple[str, Outcome | None, Outcome, int]]:
    found: tuple[LaterCount, ...] = world.ledger.later.counts([run_id]).get(run_id, ())
    rows = [(one.since.run_id, one.before, one.outcome, one.since.messages) for one in found]
    return sorted(rows, key=str)


def test_a_run_without_later_runs_has_no_later_outcomes(world: World) -> None:
    fill(world, 2)

    assert world.ledger.later.counts(["run-1"]) == {}
    assert world.ledger.later.of_run("run-1").by_key == {}


def test_messages_that_a_later_run_moved_are_counted_with_who_and_when(world: World) -> None:
    keys = fill(world, 4)
    act(world, *keys[:3])

    (found,) = world.ledger.later.counts(["run-1"])["run-1"]

    assert (found.before, found.outcome) == (Outcome.UNMATCHED, Outcome.DELIVERED)
    assert (found.was_open, found.is_open, found.is_settled) == (True, False, True)
    since = found.since
    assert (since.run_id, since.who, since.messages, since.at) == (
        "run-2",
        "admin",
        3,
        world.clock.now,
    )
    assert {key.hex() for key in world.ledger.later.of_run("run-1").by_key} == {*keys[:3]}


def test_the_newest_outcome_of_a_message_counts(world: World) -> None:
    keys = fill(world, 2)
    act(world, *keys, action="ACTION(FWD) FWDQ(CLOSED)")
    assert counts(world) == [("run-2", Outcome.UNMATCHED, Outcome.EXHAUSTED, 2)]

    act(world, keys[0], action="ACTION(DISCARD)")

    assert counts(world) == [
        ("run-2", Outcome.UNMATCHED, Outcome.EXHAUSTED, 1),
        ("run-3", Outcome.UNMATCHED, Outcome.DISCARDED, 1),
    ]


def test_dry_runs_and_unselected_messages_do_not_count(world: World) -> None:
    keys = fill(world, 3)
    act(world, *keys, dry_run=True)

    assert counts(world) == []


def test_a_message_that_a_person_leaves_needs_no_attention_any_more(world: World) -> None:
    keys = fill(world, 1)
    act(world, *keys, action="ACTION(IGNORE)")

    (found,) = world.ledger.later.counts(["run-1"])["run-1"]

    assert (found.outcome, found.is_settled) == (Outcome.LEFT_BY_RULE, True)


def test_messages_that_came_after_the_snapshot_have_no_outcome_before(world: World) -> None:
    fill(world, 1)
    world.dead_letter(b"late")
    world.clock.now += HOUR
    world.handle("REASON(MQRC_Q_FULL) ACTION(RETRY)\n")

    assert counts(world) == [
        ("run-2", Outcome.UNMATCHED, Outcome.DELIVERED, 1),
        ("run-2", None, Outcome.DELIVERED, 1),
    ]


def test_settled_messages_of_a_compact_snapshot_have_their_earlier_outcome(world: World) -> None:
    keys = fill(world, 2)
    world.dead_letter(b"late", dest_q="NOWHERE")
    world.clock.now += HOUR
    world.handle(RULES)
    assert world.ledger.settled.outcomes("run-2")
    act(world, keys[0])

    assert counts(world, "run-2") == [("run-3", Outcome.UNMATCHED, Outcome.DELIVERED, 1)]


def test_runs_on_other_queues_do_not_count(world: World) -> None:
    fill(world, 1)
    world.mqsc("DEFINE QLOCAL(OTHER)")
    world.dead_letter(b"\x00", dest_q="NOWHERE")
    world.clock.now += HOUR
    world.handle(f"INPUTQ(OTHER)\n{RULES}")

    assert counts(world) == []
