"""Test that an interrupted task that moves messages loses and repeats none."""

from __future__ import annotations

import os
import signal

import pytest

import embedded_mq
from mqdlq.errors import QueueManagerError
from tests.support.moving_tasks import KINDS, MovingTask

pytestmark = pytest.mark.slow

BODIES = [b"0", b"1", b"2", b"3"]
BROKEN = 2009
ALL = "MQDLQ_ALL_REASONS" in os.environ
KILLS = ("MQCMIT:{unit}:kill:before", "MQCMIT:{unit}:kill:after")


def calls(moving: MovingTask, when: str) -> list[str]:
    """Return every call of a task that moves four messages, in units of 1, 2 and 1.

    The first MQGETs of the state queue find no marker: they have no effect to interrupt them after.
    """
    last, looks = moving.nth(3), moving.looks_for_markers
    return [
        *("MQCONNX:1", "MQINQ:1", "MQOPEN[MQDLQ.STATE]:1"),
        *(f"MQGET[MQDLQ.STATE]:{number}" for number in range(1, looks + 1) if when == "before"),
        *(f"MQPUT1[PAYMENTS]:{number}" for number in range(1, 5)),
        *(f"MQPUT1[MQDLQ.STATE]:{number}" for number in range(1, last + 1)),
        *(f"MQGET[MQDLQ.STATE]:{number}" for number in range(looks + 1, looks + last)),
        *(f"MQCMIT:{number}" for number in range(1, last + moving.markers_before + 1)),
        *("MQCLOSE:1", "MQDISC:1"),
    ]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failure_of_any_call_loses_and_repeats_no_message(moving: MovingTask, when: str) -> None:
    """Each call in turn, with or without effect; then the task is run again."""
    for call in calls(moving, when):
        moving.prepare(*BODIES)
        embedded_mq.faults.set(f"{call}:{BROKEN}:{when}")
        broke = False
        try:
            moving.attempt()
        except QueueManagerError:
            broke = True
        embedded_mq.faults.set("")

        moving.bring_to_the_end()

        assert sorted(moving.world.bodies("PAYMENTS")) == BODIES, call
        # A connection that breaks at MQDISC does not fail the task; at any other call it does.
        is_harmless = call.startswith(("MQCLOSE", "MQDISC"))
        assert broke or is_harmless, call
        moving.world.mqsc("CLEAR QLOCAL(PAYMENTS)\nCLEAR QLOCAL(MQDLQ.STATE)")


def test_a_whole_unit_is_known_after_a_lost_answer(moving: MovingTask) -> None:
    moving.prepare(*(b"%d" % number for number in range(7)))
    embedded_mq.faults.set(f"MQCMIT:{moving.nth(3)}:{BROKEN}:after")
    with pytest.raises(QueueManagerError, match=r"MQCMIT of QM1 failed: .* \(2009\)"):
        moving.attempt()
    embedded_mq.faults.set("")

    moving.bring_to_the_end()

    assert moving.world.bodies("PAYMENTS") == [b"%d" % number for number in range(7)]
    assert moving.sizes() == [1, 2, 4]


@pytest.mark.parametrize("moving", [(kind, "ibmmq") for kind in KINDS], indirect=True, ids="-".join)
@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_task_resumes_where_it_stopped(moving: MovingTask, kill: str) -> None:
    """SIGKILL at the commit of a unit of two; tests/faults kills at every step."""
    moving.prepare(*BODIES)

    status = moving.attempt_elsewhere(kill.format(unit=moving.nth(2)))

    assert status == -signal.SIGKILL
    moving.bring_to_the_end()
    assert sorted(moving.world.bodies("PAYMENTS")) == BODIES


@pytest.mark.skipif(not ALL, reason="takes minutes; MQDLQ_ALL_REASONS=1 runs it, as make soak does")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_killed_at_any_call_resumes_where_it_stopped(moving: MovingTask, when: str) -> None:
    for call in calls(moving, when):
        moving.prepare(*BODIES)

        status = moving.attempt_elsewhere(f"{call}:kill:{when}")

        assert status == -signal.SIGKILL, call
        moving.bring_to_the_end()
        assert sorted(moving.world.bodies("PAYMENTS")) == BODIES, call
        moving.world.mqsc("CLEAR QLOCAL(PAYMENTS)\nCLEAR QLOCAL(MQDLQ.STATE)")
