"""Several hands on one dead-letter queue: executors, a frozen one, people, and time itself."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import embedded_mq
from mqdlq.errors import AnotherExecutorError, QueueManagerError
from mqdlq.headers import DLH_LENGTH
from mqdlq.model import AttemptState, Outcome
from mqdlq.stages.execute import Execution, make_pass, settle
from tests.support.paths import ROOT
from tests.support.world import World

pytestmark = pytest.mark.slow

BODIES = [b"%02d" % number for number in range(12)]


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    with world.ledger:
        yield world
    embedded_mq.faults.set("")


class Executor:
    """A process that makes a pass of a run."""

    def __init__(self, world: World, execution: Execution, freeze_before: str = "") -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.faults.executor",
                world.directory,
                execution.run.run_id,
                freeze_before,
            ],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        if freeze_before:
            _, status = os.waitpid(self._process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> str:
        """Return what it said if it did not end well."""
        _, said = self._process.communicate(timeout=60)
        return said if self._process.returncode else ""


def put_all(world: World) -> None:
    for body in BODIES:
        world.dead_letter(body)


# Executors


def test_two_concurrent_executors_take_turns(world: World) -> None:
    put_all(world)
    runs = [world.plan("ACTION(RETRY)") for _ in range(2)]

    both = [Executor(world, run) for run in runs]

    assert [executor.end() for executor in both] == ["", ""]
    assert world.bodies("PAYMENTS") == BODIES
    outcomes = [settle(run) for run in runs]
    assert sorted(outcomes, key=str) == [
        {Outcome.DELIVERED: len(BODIES)},
        {Outcome.LEASED_BY_RUN: len(BODIES)},
    ]


def test_no_other_executor_acts_while_a_frozen_one_holds_the_state_queue(world: World) -> None:
    put_all(world)
    first, second = world.plan("ACTION(RETRY)"), world.plan("ACTION(RETRY)")
    frozen = Executor(world, first, freeze_before="MQCMIT")

    with pytest.raises(AnotherExecutorError) as refused:
        make_pass(second)
    (began,) = [world.ledger.runs.newest_pass("QM1", "MQDLQ.STATE")]
    assert began is not None
    assert str(refused.value) == (
        "another executor holds the state queue MQDLQ.STATE of queue manager QM1"
        " (MQRC_OBJECT_IN_USE (2042)), and only one at a time may act on a dead-letter queue;"
        " by this ledger it is run run-1 of handler test on queue DLQ, whose last"
        f" pass began at {began[1]:%Y-%m-%d %H:%M:%S} UTC [MQDLQ-602]"
    )
    frozen.wake()

    assert frozen.end() == ""
    assert world.bodies("PAYMENTS") == BODIES
    make_pass(second)
    assert settle(first) == {Outcome.DELIVERED: len(BODIES)}
    assert settle(second) == {Outcome.LEASED_BY_RUN: len(BODIES)}


SETTLED = (
    "another executor has settled this unit of work of run run-1 and booked how its"
    " messages ended, so this task ends; no message was moved twice [MQDLQ-603]"
)
CUT = "MQCMIT of QM1 failed: MQRC_CONNECTION_BROKEN (2009) [MQDLQ-100]"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("intended", CUT),
        ("MQCMIT", CUT),
        ("confirmed", f"mqdlq.errors.LedgerError: {SETTLED}"),
    ],
)
def test_an_executor_that_resumes_after_its_connection_was_cut_commits_nothing(
    world: World, step: str, said: str
) -> None:
    """The queue manager has backed its unit out; it can commit nothing, and reports its attempt."""
    put_all(world)
    first, second = world.plan("ACTION(RETRY)"), world.plan("ACTION(RETRY)")
    frozen = Executor(world, first, freeze_before=step)
    embedded_mq.end("QM1")
    embedded_mq.start("QM1")

    make_pass(second)
    frozen.wake()

    assert said in frozen.end()
    assert world.bodies("PAYMENTS") == BODIES
    assert world.bodies("DLQ") == []
    make_pass(first)
    assert world.ledger.attempts.in_states("QM1", AttemptState.INTENDED, AttemptState.UNKNOWN) == []
    counted = settle(first) + settle(second)
    assert counted == {Outcome.DELIVERED: len(BODIES), Outcome.LEASED_BY_RUN: len(BODIES)}


# People with another tool


def take(world: World, *numbers: int) -> list[bytes]:
    """Get messages off the queue, each by its MsgId, as another tool would; return their bodies."""
    ids = {body[DLH_LENGTH:]: bytes(md.MsgId) for md, body in world.messages("DLQ")}
    taken = []
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        queue = queue_manager.open("DLQ", constants.MQOO_INPUT_SHARED)
        for number in numbers:
            md, gmo = module.MD(), module.GMO()
            md.MsgId = ids.get(BODIES[number], b"gone".ljust(24))
            gmo.Options = constants.MQGMO_NO_SYNCPOINT
            try:
                taken.append(bytes(queue.get(None, md, gmo))[DLH_LENGTH:])
            except module.MQMIError as error:
                if error.reason != constants.MQRC_NO_MSG_AVAILABLE:
                    raise
        queue.close()
    return taken


def test_messages_that_others_get_during_a_pass_are_taken_and_the_rest_is_delivered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_all(world)
    execution = world.plan("ACTION(RETRY)")
    monkeypatch.setenv("MQDLQ_FAULTS", "MQGET[DLQ]:1+:delay=0.01:after")
    executor = Executor(world, execution)
    taken: list[bytes] = []
    for number in (3, 11, 0, 7, 10):
        taken += take(world, number)

    assert executor.end() == ""
    monkeypatch.delenv("MQDLQ_FAULTS")
    assert sorted([*taken, *world.bodies("PAYMENTS")]) == BODIES
    outcomes = settle(execution)
    assert outcomes[Outcome.TAKEN] == len(taken)
    assert outcomes[Outcome.DELIVERED] == len(BODIES) - len(taken)


def test_a_message_in_an_open_unit_of_work_waits_for_the_next_pass(world: World) -> None:
    put_all(world)
    execution = world.plan("ACTION(RETRY)")
    with world.connect() as other:
        module, constants = other.client.module, other.client.CMQC
        queue = other.open("DLQ", constants.MQOO_INPUT_SHARED)
        gmo = module.GMO()
        gmo.Options = constants.MQGMO_SYNCPOINT
        queue.get(None, module.MD(), gmo)

        make_pass(execution)
        assert world.bodies("PAYMENTS") == BODIES[1:]
        other.back_out()
        queue.close()

    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: len(BODIES)}


def test_a_message_in_a_long_unit_of_work_of_another_program_is_unknown(world: World) -> None:
    """It may come back, so it is not called taken; when it does, the next run takes it up."""
    put_all(world)
    execution = world.plan("ACTION(RETRY)")
    with world.connect() as other:
        module, constants = other.client.module, other.client.CMQC
        queue = other.open("DLQ", constants.MQOO_INPUT_SHARED)
        queue.get(None, module.MD(), module.GMO(Options=constants.MQGMO_SYNCPOINT))

        make_pass(execution)
        outcomes = settle(execution)
        other.back_out()
        queue.close()

    assert outcomes == {Outcome.UNKNOWN: 1, Outcome.DELIVERED: len(BODIES) - 1}
    fact = next(
        fact
        for fact in world.ledger.outcomes.of_run("run-1").values()
        if fact.outcome is Outcome.UNKNOWN
    )
    assert fact.why.words == (
        "it is not visible on the queue, and one handle has that open for input: an application"
        " may hold it in a unit of work, which DISPLAY QSTATUS TYPE(HANDLE) shows; if it comes"
        " back, the next run handles it"
    )
    assert world.handle("ACTION(RETRY)") == {1: "delivered"}


def test_a_message_in_another_runs_unit_of_work_belongs_to_that_run(world: World) -> None:
    put_all(world)
    first, second = world.plan("ACTION(RETRY)"), world.plan("ACTION(IGNORE)")
    frozen = Executor(world, first, freeze_before="MQCMIT")

    outcomes = settle(second)
    frozen.wake()

    assert frozen.end() == ""
    assert outcomes[Outcome.LEASED_BY_RUN] == 1
    assert outcomes[Outcome.LEFT_BY_RULE] == len(BODIES) - 1
    (owned,) = [
        fact
        for fact in world.ledger.outcomes.of_run("run-2").values()
        if fact.outcome is Outcome.LEASED_BY_RUN
    ]
    assert owned.why.words == "run run-1 is about to move it"


# Time


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("MQGET[DLQ]:1:delay=3.5:before", Outcome.EXPIRED),  # before the browse
        ("MQGET[DLQ]:2:delay=3.5:before", Outcome.EXPIRED),  # between browse and get
        ("MQCMIT:1:delay=3.5:before", Outcome.DELIVERED),  # between get and commit
    ],
)
def test_a_message_may_expire_at_any_moment(world: World, fault: str, outcome: Outcome) -> None:
    world.dead_letter(b"short-lived", Expiry=30)
    world.dead_letter(b"long-lived")
    execution = world.plan("ACTION(RETRY)")
    embedded_mq.faults.set(fault)

    make_pass(execution)
    embedded_mq.faults.set("")
    world.clock.sleep(10)

    expected = {Outcome.DELIVERED: 1}
    expected[outcome] = expected.get(outcome, 0) + 1
    assert settle(execution) == expected
    assert world.bodies("PAYMENTS") == [b"long-lived"]
    assert world.bodies("DLQ") == []


# Twins, and messages without an identifier


def test_only_the_archived_one_of_two_equal_messages_is_discarded(world: World) -> None:
    """One is taken between the copy and the get, and the other would be met in its place."""
    for body in (b"first ", b"second"):
        world.dead_letter(body, MsgId=b"t" * 24, CorrelId=b"c" * 24)
    world.dead_letter(b"another")
    execution = world.plan("ACTION(DISCARD)")
    embedded_mq.faults.set("MQPUT1[MQDLQ.STATE]:1:2195:before")  # the copies exist then
    with pytest.raises(QueueManagerError):
        make_pass(execution)
    embedded_mq.faults.set("")
    with world.connect() as other:
        module, constants = other.client.module, other.client.CMQC
        queue = other.open("DLQ", constants.MQOO_INPUT_SHARED)
        queue.get(None, module.MD(), module.GMO(Options=constants.MQGMO_NO_SYNCPOINT))
        queue.close()

    make_pass(execution)

    assert [body[DLH_LENGTH:] for body in world.bodies("DLQ")] == [b"second"]
    outcomes = settle(execution)
    assert outcomes[Outcome.DISCARDED] == 1
    assert outcomes.total() == 3


@pytest.mark.parametrize("rules", ["ACTION(RETRY)", "ACTION(FWD) FWDQ(PAYMENTS) HEADER(NO)"])
def test_messages_without_identifiers_are_distinguished_by_position(
    world: World, rules: str
) -> None:
    put_all(world)
    forget_identifiers(world)

    outcomes = world.handle(rules)

    assert len(outcomes) == len(BODIES)
    assert world.bodies("PAYMENTS") == BODIES
    assert {bytes(md.MsgId) for md, _ in world.messages("PAYMENTS")} != {bytes(24)}


def forget_identifiers(world: World) -> None:
    """Set every MsgId and CorrelId on the DLQ to nulls, as no MQPUT does but some bridges do."""
    (path,) = world.directory.glob("queue_managers/**/*.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE message SET msg_id = zeroblob(24), correl_id = NULL")
        database.execute(
            "UPDATE message SET descriptor = CAST("
            "substr(descriptor, 1, 48) || zeroblob(48) || substr(descriptor, 97) AS BLOB)"
        )
    database.close()
