"""Test that a run for named messages plans, handles and counts only these messages."""

from __future__ import annotations

from collections import Counter

import pytest

from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.slow

RETRY = "ACTION(RETRY)"
FORWARD = "ACTION(FWD) FWDQ(PARKED) HEADER(YES)"


def keys(world: World) -> list[str]:
    """Return the keys of the messages on the DLQ, as a report would show them."""
    probe = world.plan("ACTION(RETRY)", dry_run=True)
    return [message.message_key.hex() for message in world.ledger.messages.of_run(probe.run.run_id)]


def put_messages(world: World, number: int) -> list[str]:
    for each in range(number):
        world.dead_letter(b"%d" % each)
    return keys(world)


def test_only_the_named_message_is_planned_and_the_others_are_counted(world: World) -> None:
    _, one, _ = put_messages(world, 3)

    execution = world.plan(RETRY, message_keys=(one,))
    result = make_pass(execution)

    assert [m.browse_seq for m in world.ledger.messages.of_run(execution.run.run_id)] == [2]
    assert (result.pending, result.attempts) == (0, 1)
    assert settle(execution) == {Outcome.DELIVERED: 1, Outcome.NOT_SELECTED: 2}
    assert settle(execution) == {Outcome.DELIVERED: 1, Outcome.NOT_SELECTED: 2}
    assert world.outcomes(execution.run) == {2: "delivered"}
    assert world.bodies("PAYMENTS") == [b"1"]
    sighting = world.ledger.accounts.of_run(execution.run.run_id)
    assert sighting is not None
    assert (sighting.depth, sighting.seen, sighting.arrived) == (2, 2, 0)


def test_a_given_action_replaces_the_rules_for_the_named_message(world: World) -> None:
    _, one = put_messages(world, 2)

    execution = world.plan(
        "RETRYINT(5) WAIT(NO)\nACTION(IGNORE)", message_keys=(one,), action=FORWARD
    )
    make_pass(execution)

    assert settle(execution) == {Outcome.FORWARDED: 1, Outcome.NOT_SELECTED: 1}
    assert world.depths("PARKED", "DLQ") == (1, 1)
    run = execution.run
    assert (run.rules_source, run.retry_interval_s) == ("the parameter action", 5)


def test_a_key_names_all_messages_that_are_equal(world: World) -> None:
    for _ in range(2):
        world.dead_letter(b"twin", MsgId=b"T" * 24)
    world.dead_letter(b"other")
    twin, again, _ = keys(world)
    assert twin == again

    execution = world.plan(RETRY, message_keys=(twin,))
    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 2, Outcome.NOT_SELECTED: 1}
    assert world.bodies("PAYMENTS") == [b"twin"] * 2


def test_a_run_for_named_messages_ignores_changes_of_other_messages(world: World) -> None:
    *_, last = put_messages(world, 3)
    execution = world.plan(RETRY, message_keys=(last,))
    world.lose_first()
    world.dead_letter(b"new")
    before = world.clock.now

    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1, Outcome.NOT_SELECTED: 2}
    assert world.clock.now == before  # no message is missing, so no second look
    sighting = world.ledger.accounts.of_run(execution.run.run_id)
    assert sighting is not None
    assert (sighting.depth, sighting.seen, sighting.arrived) == (2, 1, 1)


def test_a_named_message_that_vanishes_has_its_own_outcome(world: World) -> None:
    first, *_ = put_messages(world, 2)
    execution = world.plan(RETRY, message_keys=(first,))
    world.lose_first()
    make_pass(execution)

    assert settle(execution) == {Outcome.TAKEN: 1, Outcome.NOT_SELECTED: 1}


def test_unselected_messages_are_work_for_the_next_run_over_all(world: World) -> None:
    put_messages(world, 2)
    world.put("DLQ", b"no dead letter")
    whole = "WAIT(NO)\nDESTQ(ORDERS) ACTION(RETRY)\n"
    first, *_ = keys(world)
    execution = world.plan(whole, message_keys=(first,))
    make_pass(execution)
    assert settle(execution) == {Outcome.UNMATCHED: 1, Outcome.NOT_SELECTED: 2}
    world.clock.sleep(1)

    run = world.start(whole)
    manifest = world.snapshot(run)
    world.accept(run)

    assert (manifest.full, manifest.settled) == (2, 1)
    make_pass(world.execution(run))
    assert settle(world.execution(run)) == {Outcome.UNMATCHED: 2, Outcome.UNPROCESSABLE: 1}


def test_settled_messages_that_are_not_named_stay_compact_and_are_not_selected(
    world: World,
) -> None:
    rules = "WAIT(NO)\nDESTQ(ORDERS) ACTION(RETRY)\n"
    put_messages(world, 3)
    settle(world.plan(rules))
    world.clock.sleep(1)
    first, *_ = keys_of_settled(world)

    run = world.start(rules, message_keys=(first,))
    manifest = world.snapshot(run)
    world.accept(run)
    make_pass(world.execution(run))

    assert (manifest.full, manifest.settled) == (1, 2)
    assert settle(world.execution(run)) == {Outcome.UNMATCHED: 1, Outcome.NOT_SELECTED: 2}
    world.clock.sleep(1)
    after = world.snapshot(world.start(rules))
    assert (after.full, after.settled) == (0, 3)


def keys_of_settled(world: World) -> list[str]:
    lots = world.ledger.settled.lots_for(world.start("WAIT(NO)\nDESTQ(ORDERS) ACTION(RETRY)\n"))
    found = [
        message
        for lot in lots
        for part in world.ledger.settled.of_lot(lot.lot_id)
        for message in part
    ]
    return [message.message_key.hex() for message in found]


def test_a_dry_run_plans_only_the_named_message(world: World) -> None:
    first, *_ = put_messages(world, 3)

    execution = world.plan(RETRY, message_keys=(first,), dry_run=True)
    make_pass(execution)

    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 1, Outcome.NOT_SELECTED: 2}
    facts = world.ledger.outcomes.of_run(execution.run.run_id).values()
    assert [(fact.why.words, fact.action) for fact in facts] == [("dry run", "RETRY")]


def test_another_run_may_move_the_others_at_the_same_time(world: World) -> None:
    first, *_ = put_messages(world, 3)
    named = world.plan(RETRY, message_keys=(first,))
    whole = world.plan(FORWARD)

    make_pass(named)
    make_pass(whole)

    assert settle(named) == {Outcome.DELIVERED: 1, Outcome.NOT_SELECTED: 2}
    assert settle(whole) == {Outcome.LEASED_BY_RUN: 1, Outcome.FORWARDED: 2}
    assert Counter(world.depths("DLQ", "PAYMENTS", "PARKED")) == Counter([0, 1, 2])


def test_attempts_of_a_given_action_do_not_count_for_a_table_that_reads_like_it(
    world: World,
) -> None:
    first, *_ = put_messages(world, 1)
    rules = "WAIT(YES)\nACTION(FWD) FWDQ(CLOSED) HEADER(YES) RETRY(2)\n"
    given = world.plan(
        rules, message_keys=(first,), action="ACTION(FWD) FWDQ(CLOSED) HEADER(YES) RETRY(2)"
    )
    world.passes(given, 2)
    assert settle(given) == {Outcome.EXHAUSTED: 1}
    world.clock.sleep(3600)

    whole = world.plan(rules)

    assert whole.run.rules_digest == given.run.rules_digest
    assert [result.pending for result in world.passes(whole, 2)] == [1, 0]
    assert settle(whole) == {Outcome.EXHAUSTED: 1}


def test_settled_messages_stay_settled_when_an_action_names_one(world: World) -> None:
    rules = "WAIT(NO)\nDESTQ(ORDERS) ACTION(RETRY)\n"
    put_messages(world, 3)
    settle(world.plan(rules))
    world.clock.sleep(1)
    first, *_ = keys_of_settled(world)
    given = world.plan(rules, message_keys=(first,), action="ACTION(FWD) FWDQ(CLOSED)")
    make_pass(given)
    assert settle(given) == {Outcome.EXHAUSTED: 1, Outcome.NOT_SELECTED: 2}
    world.clock.sleep(1)

    run = world.start(rules)

    assert world.snapshot(run).settled == 3
    assert settle(world.execution(run)) == {Outcome.UNMATCHED: 3}
