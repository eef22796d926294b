"""Messages a run names that will not be acted on are told: they do not pass for handled ones."""

from __future__ import annotations

import pytest

from mqdlq.errors import HandlerError
from mqdlq.execute import settle
from mqdlq.lake import snapshot_rows
from mqdlq.snapshot.named import told_of_named
from world import World

RULES = "WAIT(NO)\nACTION(IGNORE)\n"
NOBODY = "ab" * 32


def told(world: World, *keys: str, **options: bool) -> list[str]:
    run = world.start(RULES, message_keys=keys)
    world.snapshot(run, **options)
    return list(told_of_named(run, world.ledger.snapshot(run.run_id).location))


def key_of_one(world: World) -> str:
    """Put a message, and see its key as a report would show it."""
    world.dead_letter()
    run = world.start(RULES, dry_run=True)
    world.snapshot(run)
    (row,) = snapshot_rows(world.ledger.snapshot(run.run_id).location, ["message_key"])
    return str(row["message_key"].hex())


def test_nothing_is_told_where_all_are_there_or_none_is_named(world: World) -> None:
    key = key_of_one(world)

    assert told(world) == []
    assert told(world, key) == []


def test_those_that_are_not_on_the_queue_are_told(world: World) -> None:
    key = key_of_one(world)

    assert told(world, key, NOBODY) == [
        "1 of 2 named messages are not on DLQ of QM1: abababababab…"
    ]


def test_a_run_that_names_nobody_at_all_is_refused(world: World) -> None:
    key_of_one(world)

    with pytest.raises(HandlerError) as refused:
        told(world, NOBODY)

    assert str(refused.value) == (
        "of the messages named in message_keys none is on DLQ of QM1: they have left it, or the"
        " keys are not those of the JSON report's `message_key`"
    )


def test_those_that_are_settled_under_these_rules_are_told(world: World) -> None:
    key = key_of_one(world)
    world.clock.sleep(1)
    settle(world.plan(RULES))
    world.clock.sleep(1)

    assert told(world, key) == [
        (
            "1 of 1 named messages are settled under these rules and stay as they are, unless"
            f" `action` or other rules are given: {key[:12]}…"
        )
    ]
