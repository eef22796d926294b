"""Test that a run reports named messages that it cannot act on, before it acts."""

from __future__ import annotations

import pytest

from mqdlq import lake
from mqdlq.errors import HandlerError
from mqdlq.lake import snapshot_rows
from mqdlq.stages.execute import settle
from mqdlq.stages.snapshot.taking import check_named_messages
from tests.support.world import World

pytestmark = pytest.mark.stages

RULES = "WAIT(NO)\nACTION(IGNORE)\n"
NOBODY = "ab" * 32


def warnings(world: World, *keys: str, action: str | None = None) -> list[str]:
    run = world.start(RULES, message_keys=keys, action=action)
    world.snapshot(run)
    return list(check_named_messages(run, world.recorded_snapshot(run.run_id).location))


def snapshot_warnings(world: World, *keys: str, action: str | None = None) -> list[str]:
    """Take the snapshot; return its warnings."""
    run, said = world.start(RULES, message_keys=keys, action=action), list[str]()
    world.snapshot(run, said)
    return said


def key_of_one(world: World, bare: bytes = b"") -> str:
    """Put a dead letter, or a bare message; return its key as a report shows it."""
    world.put("DLQ", bare) if bare else world.dead_letter()
    run = world.start(RULES, dry_run=True)
    world.snapshot(run)
    *_, row = snapshot_rows(world.recorded_snapshot(run.run_id).location, ["message_key"])
    return str(row["message_key"].hex())


def test_no_warning_if_all_named_messages_are_on_the_queue(world: World) -> None:
    key = key_of_one(world)

    assert warnings(world) == []
    assert warnings(world, key) == []


def test_named_messages_that_are_not_on_the_queue_are_reported(world: World) -> None:
    key = key_of_one(world)

    assert warnings(world, key, NOBODY) == [
        "1 of 2 named messages are not on DLQ of QM1: abababababab…"
    ]


def test_a_run_whose_named_messages_are_all_gone_is_refused(world: World) -> None:
    key_of_one(world)

    with pytest.raises(HandlerError) as refused:
        warnings(world, NOBODY)

    assert str(refused.value) == (
        "none of the messages named in message_keys is on DLQ of QM1: they have left the"
        " queue, or the keys are not those of the JSON report; name messages that are on"
        " the queue [MQDLQ-120]"
    )


def test_a_settled_message_that_is_named_is_read_in_full(world: World) -> None:
    key = key_of_one(world)
    world.dead_letter(b"another")
    world.clock.sleep(1)
    settle(world.plan(RULES))
    world.clock.sleep(1)

    assert warnings(world, key) == []
    location = world.recorded_snapshot("run-3").location
    assert [row["message_key"].hex() for row in snapshot_rows(location)] == [key]
    assert lake.read_manifest(location).settled == 1


def test_a_named_message_without_an_mqdlh_and_action_causes_a_warning(world: World) -> None:
    key, other = key_of_one(world), key_of_one(world, b"no dead letter")

    assert warnings(world, key, other) == [
        (
            "1 of 2 named messages have no valid MQDLH, so that no rule applies to them; they stay"
            f" unless `action` is given: {other[:12]}…"
        )
    ]


@pytest.mark.parametrize(
    ("action", "refused"),
    [
        ("ACTION(RETRY)", "ACTION(RETRY)"),
        ("ACTION(FWD) FWDQ(&REPLYQ)", "FWDQ(&REPLYQ)"),
        ("ACTION(FWD) FWDQ(&DESTQ) HEADER(NO)", "FWDQ(&DESTQ)"),
        ("ACTION(FWD) FWDQ(PARKED) FWDQM(&DESTQM)", "FWDQM(&DESTQM)"),
    ],
)
def test_an_action_that_needs_an_mqdlh_is_refused_for_a_message_without_one(
    world: World, action: str, refused: str
) -> None:
    key, other = key_of_one(world), key_of_one(world, b"no dead letter")

    with pytest.raises(HandlerError) as caught:
        warnings(world, key, other, action=action)

    assert str(caught.value) == (
        f"{refused} is refused for 1 of 2 named messages, which have no valid MQDLH:"
        f" {other[:12]}…; forward such messages to a queue given by its name, discard or"
        " ignore them [MQDLQ-121]"
    )
    assert warnings(world, key, action=action) == []


def test_the_snapshot_announces_unprocessable_messages_only_where_they_stay(world: World) -> None:
    key, other = key_of_one(world), key_of_one(world, b"no dead letter")
    announced = "AMQ8721: 1 messages are not prefixed by a valid MQDLH; they are left"

    assert announced in snapshot_warnings(world)
    assert announced in snapshot_warnings(world, other)
    assert announced not in snapshot_warnings(world, key)
    assert announced not in snapshot_warnings(world, other, action="ACTION(FWD) FWDQ(PARKED)")
