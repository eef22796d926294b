"""Test the engine of units of work: their growth, and messages that fail in them."""

from __future__ import annotations

import pytest

import embedded_mq
from mqdlq.mqi.unit_of_work import Syncpoint
from mqdlq.stages.units import engine
from tests.support.moving_tasks import MovingTask

pytestmark = pytest.mark.stages

SMALL = "DEFINE QLOCAL(SMALL.BASE) MAXMSGL(4)\nDEFINE QALIAS(SMALL) TARGET(SMALL.BASE)"
"""Nobody knows how long a message an alias takes before the first put."""


def numbered(count: int) -> list[bytes]:
    return [b"%02d" % number for number in range(count)]


def attempt_with_fault(moving: MovingTask, fault: str) -> None:
    embedded_mq.faults.set(fault)
    moving.attempt()
    embedded_mq.faults.set("")


def test_units_double_while_puts_succeed(moving: MovingTask) -> None:
    moving.prepare(*numbered(20))

    moving.attempt()

    assert moving.sizes() == [1, 2, 4, 8, 5]
    assert moving.world.bodies("PAYMENTS") == numbered(20)


def test_maxumsgs_bounds_a_unit(moving: MovingTask) -> None:
    """Gets, puts, the new marker and the cleared marker all count."""
    moving.prepare(*numbered(15))
    ((limit, most),) = moving.moves_per_maxumsgs.items()
    moving.world.mqsc(f"ALTER QMGR MAXUMSGS({limit})")

    moving.attempt()

    assert max(moving.sizes()) == most
    assert moving.world.bodies("PAYMENTS") == numbered(15)


def test_trigger_and_report_messages_count_against_maxumsgs(moving: MovingTask) -> None:
    """A put counts three, with its trigger message and its COA report; a get counts one more."""
    moving.prepare(*numbered(4), Report=256, ReplyToQ=b"ORDERS")
    moving.world.mqsc("ALTER QMGR MAXUMSGS(7)\nALTER QLOCAL(PAYMENTS) TRIGGER TRIGTYPE(EVERY)")

    moving.attempt()

    assert moving.sizes() == [1, 1, 1, 1]
    assert moving.world.bodies("PAYMENTS") == numbered(4)


def test_a_unit_holds_no_more_bytes_than_its_limit(
    moving: MovingTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is 32 MiB; in this test it is the size of two messages."""
    monkeypatch.setattr(engine, "MAX_BYTES_IN_A_UNIT", 4)
    moving.prepare(*numbered(7))

    moving.attempt()

    assert moving.sizes() == [1, 2, 2, 2]


def test_a_message_that_fails_costs_its_neighbours_nothing(moving: MovingTask) -> None:
    """The unit is backed out, the message recorded, and the others move before later messages."""
    moving.world.mqsc(SMALL)
    bodies = [*numbered(5), b"too long", b"06"]
    moving.prepare(*bodies, to="SMALL")

    moving.attempt()

    assert moving.world.bodies("SMALL") == [*numbered(5), b"06"]
    assert moving.failed() == [2030]
    assert moving.sizes() == [1, 2, 1, 1, 1]


def test_a_queue_that_fills_up_takes_what_fits(moving: MovingTask) -> None:
    moving.world.mqsc("DEFINE QLOCAL(ROOM.FOR.FIVE) MAXDEPTH(5)")
    moving.prepare(*numbered(9), to="ROOM.FOR.FIVE")

    moving.attempt()

    assert moving.world.bodies("ROOM.FOR.FIVE") == numbered(5)
    assert moving.failed() == [2053] * 4


def test_a_blocked_destination_is_inquired_and_not_tried(moving: MovingTask) -> None:
    moving.prepare(*numbered(5), to="CLOSED")

    attempt_with_fault(moving, "MQPUT1[CLOSED]:1:2195:before")  # would say so if it were tried

    assert moving.failed() == [2051] * 5


def test_a_message_too_long_for_its_queue_is_recorded_without_a_put(moving: MovingTask) -> None:
    moving.world.mqsc("DEFINE QLOCAL(NARROW) MAXMSGL(4)")
    moving.prepare(b"four", b"fiver", b"1234", to="NARROW")

    moving.attempt()

    assert moving.world.bodies("NARROW") == [b"four", b"1234"]
    assert moving.failed() == [2030]
    assert moving.sizes() == [1, 1]


# -- faults of the whole unit


@pytest.mark.parametrize("reason", [2003, 2024])
@pytest.mark.parametrize("call", ["MQPUT1[PAYMENTS]:3", "MQPUT1[MQDLQ.STATE]:{second}"])
def test_a_failure_of_a_whole_unit_charges_no_message(
    moving: MovingTask, call: str, reason: int
) -> None:
    """MQRC_SYNCPOINT_LIMIT_REACHED (2024): trigger and report messages count, too.

    Each message of the unit is moved alone, and units grow again from one message.
    """
    moving.prepare(*numbered(7))

    attempt_with_fault(moving, f"{call.format(second=moving.nth(2))}:{reason}:before")

    assert moving.failed() == []
    assert moving.world.bodies("PAYMENTS") == numbered(7)
    assert moving.sizes() == [1, 1, 1, 1, 2, 1]


def test_a_unit_that_mqcmit_backs_out_is_repeated_message_by_message(moving: MovingTask) -> None:
    """MQRC_BACKED_OUT (2003) at MQCMIT means that the unit had no effect."""
    moving.prepare(*numbered(5))

    attempt_with_fault(moving, f"MQCMIT:{moving.nth(2)}:2003:before")

    assert moving.failed() == []
    assert moving.world.bodies("PAYMENTS") == numbered(5)
    assert moving.sizes() == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("call", ["MQPUT1[PAYMENTS]:{0}", "MQPUT1[MQDLQ.STATE]:{1}", "MQCMIT:{1}"])
@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_message_alone_whose_unit_is_backed_out_is_tried_twice_more(
    moving: MovingTask, call: str, failures: int
) -> None:
    """After that it waits for the next pass, uncounted, or fails until the next attempt."""
    moving.prepare(b"body")
    faults = [f"{call.format(n, moving.nth(n))}:2003:before" for n in range(1, failures + 1)]

    attempt_with_fault(moving, ",".join(faults))

    is_moved = failures < 1 + engine.SINGLE_MOVE_TRIES
    assert moving.world.bodies("PAYMENTS") == ([b"body"] if is_moved else [])
    assert moving.sizes() == ([1] if is_moved else [])
    is_booked = not is_moved and moving.name().startswith("restoration")
    assert moving.failed() == ([2003] if is_booked else [])
    moving.bring_to_the_end()
    assert moving.world.bodies("PAYMENTS") == [b"body"]


def test_a_message_alone_that_no_unit_can_hold_fails(moving: MovingTask) -> None:
    """MQRC_SYNCPOINT_LIMIT_REACHED (2024) for a single message is the message's fault."""
    moving.prepare(b"body")

    attempt_with_fault(moving, "MQPUT1[PAYMENTS]:1:2024:before")

    assert moving.failed() == [2024]


def test_a_neighbour_that_fails_alone_is_recorded_too(moving: MovingTask) -> None:
    moving.prepare(*numbered(4))

    attempt_with_fault(moving, "MQPUT1[PAYMENTS]:3:2030:before,MQPUT1[PAYMENTS]:4:2030:before")

    assert moving.failed() == [2030, 2030]
    assert moving.world.bodies("PAYMENTS") == [b"00", b"03"]


# -- interruptions


def test_an_exception_in_the_block_backs_out_uncommitted_messages(
    moving: MovingTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving.prepare(*numbered(6))
    were_open: list[bool] = []
    back_out = Syncpoint.back_out

    def noted(unit: Syncpoint) -> None:
        were_open.append(unit._open)
        back_out(unit)

    monkeypatch.setattr(Syncpoint, "back_out", noted)
    embedded_mq.faults.set("MQPUT1[PAYMENTS]:6:2009:before")

    with pytest.raises(Exception, match=r"\(2009\)"):
        moving.attempt()

    embedded_mq.faults.set("")
    assert were_open[-1]
    assert moving.world.bodies("PAYMENTS") == numbered(3)
    moving.bring_to_the_end()
    assert moving.world.bodies("PAYMENTS") == numbered(6)
