"""Test that markers show the next execution the results of an interrupted one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

import embedded_mq
from mqdlq.errors import ExecutionError, QueueManagerError
from mqdlq.model import AttemptState, Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.paths import ROOT
from tests.support.world import World

pytestmark = pytest.mark.slow

BODIES = [b"one", b"two", b"three"]
RULES = {
    "RETRY": ("ACTION(RETRY)", "PAYMENTS"),
    "FWD": ("ACTION(FWD) FWDQ(PARKED) HEADER(NO)", "PARKED"),
    "DISCARD": ("ACTION(DISCARD)", ""),
}


def dead_letters(world: World) -> None:
    for body in BODIES:
        world.dead_letter(body)


def test_outcomes_are_read_once_and_of_the_proven_messages_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may have a million outcomes, a unit many attempts."""
    for _ in range(7):
        world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    world.interrupted_pass(execution, "MQCMIT:3:2009:after")
    read: list[list[int]] = []
    of_messages = world.ledger.outcomes.of_messages

    def reading(message_ids: list[int]) -> dict[int, dict[str, Outcome]]:
        read.append(message_ids)
        return of_messages(message_ids)

    monkeypatch.setattr(world.ledger.outcomes, "of_messages", reading)

    make_pass(execution)

    assert read == [[4, 5, 6, 7]]
    assert settle(execution) == {Outcome.DELIVERED: 7}


def test_a_unit_that_was_backed_out_charges_no_attempt(world: World) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY) RETRY(1)")
    world.interrupted_pass(execution, "MQCMIT:1:2009:before")

    make_pass(execution)

    states = [attempt.state for attempt in world.ledger.attempts.of_run("run-1")]
    assert states == [AttemptState.BACKED_OUT_WITH_BATCH, AttemptState.CONFIRMED]
    assert world.ledger.attempts.made(execution.run)[1][0] == 1


def test_a_failed_mqback_loses_nothing(world: World) -> None:
    """No MQDISC follows it, which would commit the get without the put."""
    world.mqsc("DEFINE QLOCAL(SMALL.BASE) MAXMSGL(2)\nDEFINE QALIAS(SMALL) TARGET(SMALL.BASE)")
    bodies = [b"0", b"1", b"too long", b"3"]
    for body in bodies:
        world.dead_letter(body, dest_q="SMALL")
    execution = world.plan("WAIT(NO)\nACTION(RETRY)")
    embedded_mq.faults.set(",".join(f"MQBACK:{number}:2195:before" for number in range(1, 9)))
    with pytest.raises(QueueManagerError, match=r"MQBACK of QM1 failed: .* \(2195\)"):
        make_pass(execution)
    embedded_mq.faults.set("")
    gone = bodies[: len(world.bodies("SMALL"))]

    assert world.bodies("SMALL") == gone
    assert len(gone) + len(world.bodies("DLQ")) <= len(bodies)
    assert b"too long" not in world.bodies("SMALL")


def test_a_marker_stays_for_its_own_run(world: World) -> None:
    """A run on another queue with the same state queue neither needs nor clears it."""
    world.mqsc("DEFINE QLOCAL(DLQ2) DEFPSIST(YES)")
    world.dead_letter()
    first = world.plan("ACTION(RETRY)")
    world.interrupted_pass(first, "MQCMIT:1:2009:after")

    make_pass(world.plan("INPUTQ(DLQ2)\nACTION(RETRY)"))

    assert settle(first) == {Outcome.DELIVERED: 1}


def test_a_late_marker_still_proves_the_result(world: World) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    ((md, marker),) = world.messages("MQDLQ.STATE")
    world.mqsc("CLEAR QLOCAL(MQDLQ.STATE)")
    make_pass(execution)
    assert [a.state for a in world.ledger.attempts.of_run("run-1")] == [AttemptState.UNKNOWN]
    world.put("MQDLQ.STATE", marker, MsgId=md.MsgId)

    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1}


def test_no_run_is_settled_while_a_unit_is_in_doubt(world: World) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")

    with pytest.raises(ExecutionError) as caught:
        settle(execution)

    assert str(caught.value) == (
        "run run-1 has units of work that are not settled; clear the task execute and the"
        " tasks after it [MQDLQ-605]"
    )


def test_a_twin_on_the_queue_does_not_prove_the_other_came_back(world: World) -> None:
    for body in (b"first ", b"second"):
        world.dead_letter(body, MsgId=b"t" * 24)
    execution = world.plan("ACTION(RETRY)")
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    world.mqsc("CLEAR QLOCAL(MQDLQ.STATE)")

    make_pass(execution)

    assert settle(execution) == {Outcome.UNKNOWN: 1, Outcome.DELIVERED: 1}
    assert world.bodies("PAYMENTS") == [b"first ", b"second"]


def test_a_message_that_neither_arrived_nor_came_back_is_unknown(world: World) -> None:
    """Marker and message are gone: the executor waits, then reports `unknown`."""
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    world.mqsc("CLEAR QLOCAL(MQDLQ.STATE)")
    before = world.clock.now

    make_pass(execution)

    assert (world.clock.now - before).total_seconds() >= 60
    assert settle(execution) == {Outcome.UNKNOWN: 1}


def test_without_a_state_queue_a_lost_answer_leaves_the_message_unknown(world: World) -> None:
    """The message is gone, and no marker shows its target."""
    world.mqsc("DELETE QLOCAL(MQDLQ.STATE)")
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")

    make_pass(execution)

    assert settle(execution) == {Outcome.UNKNOWN: 1}


@pytest.mark.slow
@pytest.mark.parametrize("world", ["ibmmq"], indirect=True)
@pytest.mark.parametrize("action", RULES)
@pytest.mark.parametrize(
    "fault",
    [
        "MQGET:6:kill:after",
        "MQPUT1:2:kill:before",
        "MQPUT1:2:kill:after",
        "MQCMIT:2:kill:before",
        "MQCMIT:2:kill:after",
    ],
)
def test_a_killed_execution_loses_and_repeats_no_message(
    world: World, action: str, fault: str
) -> None:
    """After SIGKILL a new run handles the remaining messages and settles the others."""
    rules, target = RULES[action]
    dead_letters(world)
    whole = world.bodies("DLQ")
    first = world.plan(rules)
    assert killed(world, fault, first.run.run_id)

    outcomes = world.handle(rules)

    assert world.bodies("DLQ") == []
    if target:
        assert sorted(world.bodies(target)) == sorted(BODIES)
    done = [*world.outcomes(first.run).values(), *outcomes.values()]
    assert len(done) == len(whole)
    assert len(set(done)) == 1
    assert world.ledger.attempts.intended("QM1", "DLQ") == []


def killed(world: World, fault: str, run_id: str) -> bool:
    """Make a pass in another process under a fault; return whether the fault killed it."""
    script = "tests.support.run_one_pass"
    ended = subprocess.run(
        [sys.executable, "-m", script, world.directory, run_id, world.client or ""],
        env={**os.environ, "MQDLQ_FAULTS": fault, "MQDLQ_HOME": str(world.directory)},
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    return ended.returncode == -signal.SIGKILL


def test_a_connection_that_could_not_back_out_commits_nothing_by_ending(world: World) -> None:
    """MQDISC would commit; without it the queue manager backs out the open unit."""
    world.dead_letter()
    queue_manager = world.connect()
    module, constants = queue_manager.client.module, queue_manager.client.CMQC
    queue = queue_manager.open("DLQ", constants.MQOO_INPUT_SHARED)
    queue.get(None, module.MD(), module.GMO(Options=constants.MQGMO_SYNCPOINT))
    embedded_mq.faults.set("MQBACK:1:2195:before")
    with pytest.raises(QueueManagerError):
        queue_manager.back_out()
    embedded_mq.faults.set("")

    queue_manager.disconnect()
    embedded_mq.end("QM1")
    embedded_mq.start("QM1")

    assert world.depths("DLQ") == (1,)
