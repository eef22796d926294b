"""Test that a run for a condition handles the messages that met it in a snapshot, and no others."""

from __future__ import annotations

import pytest

from mqdlq.causes import find_cause
from mqdlq.errors import HandlerError, LakeError, MqDlqError
from mqdlq.lake import read_manifest
from mqdlq.lake.selected import chosen_of
from mqdlq.lake.snapshots import Snapshot
from mqdlq.model import MessageClass, Outcome
from mqdlq.stages.execute import Execution, make_pass, settle
from mqdlq.stages.snapshot.taking import check_named_messages
from tests.support.world import World

pytestmark = pytest.mark.slow

RULES = "WAIT(NO)\nDESTQ(ORDERS) ACTION(RETRY)\n"
RETRY = "ACTION(RETRY)"
FULL = find_cause(MessageClass.DEAD_LETTER, 2053, "PAYMENTS", "QM1").cause_id


def seen(world: World) -> str:
    """Take a snapshot by a dry run over all messages; return its id."""
    execution = world.plan(RULES, dry_run=True)
    settle(execution)
    world.clock.sleep(1)
    return world.recorded_snapshot(execution.run.run_id).snapshot_id


def warnings(world: World, execution: Execution) -> list[str]:
    taken = world.recorded_snapshot(execution.run.run_id)
    return list(check_named_messages(execution.run, taken.location, taken.absent))


def test_all_messages_of_a_cause_are_moved_however_many(world: World) -> None:
    for number in range(1407):
        world.dead_letter(b"%d" % number)
    world.dead_letter(b"other", dest_q="ORDERS")
    before = seen(world)

    execution = world.plan(RULES, where=f"cause={FULL}", as_of=before, action=RETRY)
    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1407, Outcome.NOT_SELECTED: 1}
    assert world.depths("DLQ", "PAYMENTS") == (1, 1407)


def test_messages_that_arrived_since_are_left_and_those_that_left_are_counted(
    world: World,
) -> None:
    for body in (b"gone", b"one", b"two"):
        world.dead_letter(body)
    before = seen(world)
    world.lose_first()
    world.dead_letter(b"new")

    execution = world.plan(RULES, where="reason=MQRC_Q_FULL", as_of=before, action=RETRY)
    said = warnings(world, execution)
    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 2, Outcome.NOT_SELECTED: 1}
    assert world.bodies("PAYMENTS") == [b"one", b"two"]
    assert world.bodies("DLQ")[0].endswith(b"new")
    assert said == ["1 messages that met the condition are not on DLQ of QM1 any more"]
    assert world.recorded_snapshot(execution.run.run_id).absent == 1


def test_without_a_snapshot_the_condition_holds_for_the_messages_that_are_there(
    world: World,
) -> None:
    world.dead_letter(b"one")
    world.dead_letter(b"other", dest_q="ORDERS")

    execution = world.plan(RULES, where="dest_q_name=PAY*", action="ACTION(FWD) FWDQ(PARKED)")
    make_pass(execution)

    assert settle(execution) == {Outcome.FORWARDED: 1, Outcome.NOT_SELECTED: 1}
    assert (execution.run.condition, execution.run.as_of) == ("dest_q_name=PAY*", "")


def test_settled_messages_meet_a_condition_by_their_full_rows(world: World) -> None:
    world.dead_letter(b"one", MsgId=b"T" * 24)
    world.dead_letter(b"one", MsgId=b"T" * 24)
    world.dead_letter(b"other", dest_q="ORDERS", reason=2035)
    settle(world.plan(RULES))
    world.clock.sleep(1)
    settle(world.plan(RULES))
    world.clock.sleep(1)
    last = world.recorded_snapshot("run-2")
    assert last.settled == 2

    execution = world.plan(RULES, where=f"cause={FULL}", as_of=last.snapshot_id)
    manifest = read_manifest(world.recorded_snapshot("run-3").location)

    assert (manifest.full, manifest.settled) == (3, 0)
    assert settle(execution) == {Outcome.UNMATCHED: 2, Outcome.NOT_SELECTED: 1}
    assert warnings(world, execution) == []


def test_a_state_is_the_last_outcome_that_the_ledger_knows(world: World) -> None:
    world.dead_letter(b"known")
    settle(world.plan(RULES))
    world.clock.sleep(1)
    world.dead_letter(b"new")

    execution = world.plan(RULES, where="state=unmatched", action=RETRY)
    make_pass(execution)
    settle(execution)

    assert world.bodies("PAYMENTS") == [b"known"]


def test_messages_that_an_action_cannot_be_carried_out_on_are_left(world: World) -> None:
    world.dead_letter(b"one")
    world.put("DLQ", b"no dead letter")
    run, told = world.start(RULES, where="application=putter", action=RETRY), list[str]()

    world.snapshot(run, told)

    chosen = chosen_of(Snapshot.at(world.recorded_snapshot(run.run_id).location))
    assert chosen is not None
    assert len(chosen) == 1
    assert "1 messages are left: a legal hold, or no MQDLH for the action" in told


def test_a_condition_that_no_message_meets_is_an_error(world: World) -> None:
    world.dead_letter()
    execution = world.execution(world.start(RULES, where="application='a b'", action=RETRY))
    world.snapshot(execution.run)

    with pytest.raises(HandlerError) as caught:
        warnings(world, execution)

    assert str(caught.value) == (
        "none of the messages with application='a b' is on DLQ of QM1 and fit for the action; look"
        " at the condition, and at what became of the messages, on the handler's page [MQDLQ-527]"
    )


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"where": "cause=1"},
            "where: cause_id: found '1'; expected 12 hexadecimal digits [MQDLQ-975]",
        ),
        (
            {"where": "user=a and user=b"},
            "where: user: it is given twice; expected one value [MQDLQ-975]",
        ),
        ({"where": "user= and text=a"}, "where: user: it is empty; expected a value [MQDLQ-975]"),
        (
            {"where": "user=a and"},
            (
                "where: found 'user=a and'; expected conditions such as cause=14e0cdf53d6f and"
                " application='a b*' [MQDLQ-975]"
            ),
        ),
        (
            {"where": "user=a", "message_keys": ("ab" * 32,)},
            (
                "where is for a run without message_keys, and as_of for a run with where; give"
                " either message_keys, or where and perhaps as_of [MQDLQ-529]"
            ),
        ),
        (
            {"as_of": "s1"},
            (
                "where is for a run without message_keys, and as_of for a run with where; give"
                " either message_keys, or where and perhaps as_of [MQDLQ-529]"
            ),
        ),
    ],
)
def test_a_condition_that_is_not_valid_is_refused_before_the_run_begins(
    world: World, options: dict[str, str], fault: str
) -> None:
    with pytest.raises(MqDlqError) as caught:
        world.start(RULES, **options)  # type: ignore[arg-type]

    assert str(caught.value) == fault


def test_a_snapshot_of_another_queue_or_none_is_refused(world: World) -> None:
    world.dead_letter()
    before = seen(world)
    elsewhere = world.start(
        RULES.replace("WAIT", "INPUTQ(ORDERS) WAIT"), where="user=a", as_of=before
    )

    with pytest.raises(
        HandlerError, match=r"as_of: snapshot \S+ is of DLQ of QM1; expected one of"
    ):
        world.snapshot(elsewhere)
    with pytest.raises(LakeError, match="holds no finished snapshot s1"):
        world.snapshot(world.start(RULES, where="user=a", as_of="s1"))
