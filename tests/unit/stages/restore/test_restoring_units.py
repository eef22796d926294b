"""Test that interrupted or failing restorations lose no message and put none twice."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace

import pytest
from sqlalchemy import insert

from mqdlq.errors import LedgerError
from mqdlq.ledger.tables import restorations
from mqdlq.model import Outcome, RestorationState
from mqdlq.stages.execute import make_pass, settle
from tests.support.restorations import (
    DISCARD,
    attempt_and_count,
    copy_states,
    discard,
    interrupt,
    prepare_restoration,
    reasons,
    restore_and_count,
)
from tests.support.world import World

pytestmark = pytest.mark.slow
BODIES = [b"0", b"1", b"2", b"3"]
BROKEN = 2009


def bodies(world: World, queue: str = "DLQ") -> list[bytes]:
    return [body[172:] for body in world.bodies(queue)]


def test_a_full_queue_stops_a_restoration_that_can_continue_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    discard(world, *BODIES)
    work = prepare_restoration(world)
    world.mqsc("ALTER QLOCAL(DLQ) MAXDEPTH(2)")

    with caplog.at_level(logging.WARNING, "mqdlq.test"):
        assert attempt_and_count(work) == {"restored": 2, "failed": 1, "not_attempted": 1}

    assert reasons(world) == [
        "",
        "",
        "put to DLQ: MQRC_Q_FULL (2053)",
        "DLQ has MQRC_Q_FULL (2053)",
    ]
    assert [state.mqrc for state in copy_states(world)] == [0, 0, 2053, 2053]
    (line,) = [r.getMessage() for r in caplog.records if "unable" in r.getMessage()]
    assert line.endswith(": put to DLQ: MQRC_Q_FULL (2053)")
    world.mqsc("ALTER QLOCAL(DLQ) MAXDEPTH(5000)")
    assert attempt_and_count(work) == {"restored": 4}
    assert bodies(world) == BODIES


def test_a_put_inhibited_queue_is_inquired_and_not_tried(world: World) -> None:
    discard(world, *BODIES)

    assert restore_and_count(world, to_queue="CLOSED") == {"not_attempted": 4}

    assert set(reasons(world)) == {"CLOSED has MQRC_PUT_INHIBITED (2051)"}


# -- markers of a restoration


def test_a_restoration_leaves_no_marker_behind(world: World) -> None:
    discard(world, *BODIES)
    world.mqsc("CLEAR QLOCAL(MQDLQ.STATE)")

    restore_and_count(world)

    assert world.depths("MQDLQ.STATE") == (0,)


def test_a_cleared_state_queue_makes_a_lost_answer_unknown(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    discard(world, b"body")
    work = prepare_restoration(world)
    interrupt(work, f"MQCMIT:2:{BROKEN}:after")
    world.mqsc("CLEAR QLOCAL(MQDLQ.STATE)")

    assert attempt_and_count(work) == {"unknown": 1}
    assert attempt_and_count(work) == {"unknown": 1}

    why = (
        "its unit of work was interrupted, and no marker tells whether it committed: look for its"
        " MsgId on DLQ and at who reads from there; if it never came, restore it with again"
    )
    assert reasons(world) == [why]
    assert f"1 messages of restoration restoration-1 are recorded as unknown: {why}" in caplog.text
    assert world.depths("DLQ") == (1,)
    assert restore_and_count(world, "restoration-2") == {"refused": 1}
    assert reasons(world, "restoration-2") == [
        (
            "restoration restoration-1 may have put it to DLQ: look there for its MsgId;"
            " if it is not there, again puts it"
        )
    ]


def test_a_late_marker_still_proves_the_result(world: World) -> None:
    discard(world, b"body")
    work = prepare_restoration(world)
    interrupt(work, f"MQCMIT:2:{BROKEN}:after")
    kept = world.messages("MQDLQ.STATE")
    world.mqsc("CLEAR QLOCAL(MQDLQ.STATE)")
    attempt_and_count(work)
    for descriptor, body in kept:
        world.put("MQDLQ.STATE", body, MsgId=descriptor.MsgId)

    assert attempt_and_count(work) == {"restored": 1}
    assert reasons(world) == ["known from the unit's marker after an interruption"]
    assert world.depths("DLQ") == (1,)


def test_without_a_state_queue_a_lost_answer_is_unknown(world: World) -> None:
    discard(world, *BODIES)
    world.mqsc("DELETE QLOCAL(MQDLQ.STATE) PURGE")
    work = prepare_restoration(world)
    interrupt(work, f"MQCMIT:2:{BROKEN}:before")

    assert attempt_and_count(work) == {"restored": 3, "unknown": 1}

    assert bodies(world) == [b"0", b"2", b"3"]
    assert len({state.unit for state in copy_states(world)}) == 4  # each alone


def test_an_executor_neither_needs_nor_clears_the_markers_of_a_restoration(world: World) -> None:
    discard(world, b"body")
    work = prepare_restoration(world)
    interrupt(work, f"MQCMIT:2:{BROKEN}:after")

    assert world.handle("ACTION(RETRY)") == {1: "delivered"}

    assert attempt_and_count(work) == {"restored": 1}
    assert world.bodies("PAYMENTS") == [b"body"]


def test_a_restoration_neither_needs_nor_clears_the_markers_of_an_executor(world: World) -> None:
    discard(world, b"first")
    world.dead_letter(b"second")
    execution = world.plan("ACTION(RETRY)")
    world.interrupted_pass(execution, f"MQCMIT:1:{BROKEN}:after")

    assert restore_and_count(world, run_id="run-1") == {"restored": 1}

    make_pass(execution)
    assert settle(execution) == {Outcome.DELIVERED: 1}
    assert world.bodies("PAYMENTS") == [b"second"]


def test_another_restoration_settles_an_interrupted_one_and_clears_its_markers(
    world: World,
) -> None:
    discard(world, *BODIES)
    world.mqsc("CLEAR QLOCAL(MQDLQ.STATE)")
    first = prepare_restoration(world, to_queue="PARKED")
    interrupt(first, f"MQCMIT:3:{BROKEN}:after")

    assert restore_and_count(world, "restoration-2", to_queue="ORDERS") == {
        "refused": 3,
        "restored": 1,
    }
    assert attempt_and_count(first) == {"restored": 3, "refused": 1}

    assert sorted(bodies(world, "PARKED") + bodies(world, "ORDERS")) == BODIES
    assert world.depths("MQDLQ.STATE") == (0,)


def test_two_tasks_of_one_restoration_cannot_both_put_a_message(world: World) -> None:
    """The first task stopped before it recorded its intention, and continues too late."""
    discard(world, b"body")
    work = prepare_restoration(world)
    (selected,) = copy_states(world)
    attempt_and_count(work)
    woken = replace(selected, state=RestorationState.INTENDED, unit="ab" * 24)

    with pytest.raises(LedgerError) as refused:
        world.ledger.restorations.intend(work.restoration, [woken])

    assert str(refused.value) == (
        "restoration restoration-1: another task of it puts the same messages at this"
        " moment, or has put them, so this one ends; no message was put twice [MQDLQ-713]"
    )


def test_a_message_that_another_restoration_is_putting_is_refused(world: World) -> None:
    discard(world, b"body")
    other = prepare_restoration(world)
    (selected,) = copy_states(world)
    elsewhere = replace(other.restoration, restoration_id="elsewhere", state_queue="ELSEWHERE")
    with world.ledger.engine.begin() as connection:
        connection.execute(insert(restorations), asdict(elsewhere))
    intended = replace(selected, state=RestorationState.INTENDED, unit="ab" * 24)
    world.ledger.restorations.add_states(elsewhere.restoration_id, [intended])

    assert attempt_and_count(other) == {"refused": 1}
    assert reasons(world) == ["restoration elsewhere is about to put it to DLQ, or was interrupted"]


def test_a_discard_during_a_restoration_does_not_confuse_it(world: World) -> None:
    """Between two attempts the next run discards the messages of the first attempt again."""
    discard(world, *BODIES)
    work = prepare_restoration(world)
    interrupt(work, f"MQCMIT:3:{BROKEN}:after")
    world.handle(DISCARD)
    assert world.depths("DLQ") == (0,)

    assert attempt_and_count(work) == {"restored": 4}

    assert bodies(world) == [b"3"]
