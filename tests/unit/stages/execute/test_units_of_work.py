"""Test units of work in a pass: their growth, and messages that fail in them."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

import embedded_mq
from mqdlq.controls.work import Planned
from mqdlq.errors import ExecutionError, QueueManagerError
from mqdlq.model import AttemptState, Outcome
from mqdlq.mqi.unit_of_work import GotMessage, UnitOfWork
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.units.engine import UnitEngine
from tests.support.world import World

pytestmark = pytest.mark.stages

SMALL = "DEFINE QLOCAL(SMALL.BASE) MAXMSGL(4)\nDEFINE QALIAS(SMALL) TARGET(SMALL.BASE)"
"""The first put shows which messages an alias accepts."""


def sizes(world: World, state: AttemptState = AttemptState.CONFIRMED) -> list[int]:
    """Return the number of messages in each unit of work, in the order of commits."""
    attempts = [a for a in world.ledger.attempts.of_run("run-1") if a.state is state]
    return list(Counter(attempt.unit for attempt in attempts).values())


def backout_counts(world: World) -> list[int]:
    return [md.BackoutCount for md, _ in world.messages("DLQ")]


def test_units_of_several_destinations_keep_the_order_of_each(world: World) -> None:
    for number in range(24):
        world.dead_letter(b"%02d" % number, dest_q=("PAYMENTS", "ORDERS", "PARKED")[number % 3])

    world.handle("ACTION(RETRY)")

    for start, queue in enumerate(("PAYMENTS", "ORDERS", "PARKED")):
        assert world.bodies(queue) == [b"%02d" % number for number in range(start, 24, 3)]
    assert len(sizes(world)) < 24


def test_a_message_that_fails_costs_its_neighbours_nothing(world: World) -> None:
    """The unit is backed out, the message charged, and the others move before later messages."""
    world.mqsc(SMALL)
    bodies = [b"%02d" % number for number in range(7)]
    for body in bodies:
        world.dead_letter(body + (b" too long" if body == b"05" else b""), dest_q="SMALL")

    outcomes = world.handle("WAIT(NO)\nACTION(RETRY)")

    assert outcomes == {n + 1: "exhausted" if n == 5 else "delivered" for n in range(7)}
    assert world.bodies("SMALL") == [body for body in bodies if body != b"05"]
    assert sizes(world) == [1, 2, 1, 1, 1]
    assert sizes(world, AttemptState.BACKED_OUT_WITH_BATCH) == [2]
    failed = [a for a in world.ledger.attempts.of_run("run-1") if a.state is AttemptState.FAILED]
    assert [(a.mqrc, a.attempt_no) for a in failed] == [(2030, 1)]


def test_a_destination_known_to_be_blocked_costs_no_get(world: World) -> None:
    """The attempt counts as in IBM's handler, but the BackoutCount does not grow."""
    for _ in range(5):
        world.dead_letter(dest_q="CLOSED")

    result = make_pass(world.plan("ACTION(RETRY) RETRY(2)"))

    assert (result.attempts, result.pending) == (5, 5)
    assert backout_counts(world) == [0] * 5


REFUSE_2030 = """CREATE TRIGGER refuse BEFORE INSERT ON unit_states WHEN NEW.mqrc = 2030
    BEGIN SELECT RAISE(ABORT, 'refused'); END"""


def test_a_failed_put_counts_once_if_the_ledger_fails_in_the_middle_of_a_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before the failure is not written again when the pass ends by it."""
    monkeypatch.setattr("mqdlq.stages.execute.attempts.MAX_UNWRITTEN", 2)
    world.mqsc("DEFINE QLOCAL(NARROW) MAXMSGL(4)")
    world.dead_letter(dest_q="CLOSED")
    world.dead_letter(b"too long", dest_q="NARROW")
    execution = world.plan("ACTION(RETRY) RETRY(3)")
    with closing(sqlite3.connect(world.directory / "ledger.db")) as ledger:
        ledger.execute(REFUSE_2030)
        with pytest.raises(IntegrityError, match="refused"):
            make_pass(execution)
        ledger.execute("DROP TRIGGER refuse")

    result = make_pass(execution)

    attempts = world.ledger.attempts.of_run("run-1")
    assert sorted((one.mqrc, one.attempt_no) for one in attempts) == [(2030, 1), (2051, 1)]
    assert (result.attempts, result.pending) == (1, 2)


def test_a_destination_that_blocks_at_its_first_put_costs_one_get(world: World) -> None:
    """An inquiry of an alias returns no attributes of its base queue."""
    world.mqsc("DEFINE QALIAS(CLOSED.TOO) TARGET(CLOSED)")
    for _ in range(5):
        world.dead_letter(dest_q="CLOSED.TOO")

    result = make_pass(world.plan("ACTION(RETRY) RETRY(2)"))

    assert (result.attempts, result.pending) == (5, 5)
    assert backout_counts(world) == [1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("definition", "queue", "reason"),
    [
        ("DEFINE QLOCAL(FULL) MAXDEPTH(0)", "FULL", 2053),
        ("DEFINE QLOCAL(SHUT) PUT(DISABLED)", "SHUT", 2051),
        ("DEFINE QLOCAL(OTHER)", "NOWHERE", 2085),
    ],
)
def test_inquiry_finds_the_reason_a_put_would(
    world: World, definition: str, queue: str, reason: int
) -> None:
    world.mqsc(definition)
    world.dead_letter(dest_q=queue)

    make_pass(world.plan("ACTION(RETRY)"))

    assert [a.mqrc for a in world.ledger.attempts.of_run("run-1")] == [reason]
    assert backout_counts(world) == [0]


def test_a_message_too_long_for_its_queue_is_charged_without_a_get(world: World) -> None:
    """MAXMSGL limits the message as it is put, so without a removed MQDLH."""
    world.mqsc("DEFINE QLOCAL(NARROW) MAXMSGL(4)")
    world.dead_letter(b"four", dest_q="NARROW")
    world.dead_letter(b"fiver", dest_q="NARROW")
    world.dead_letter(b"1234", dest_q="NARROW")
    rules = "WAIT(NO)\nACTION(RETRY) RETRY(2)\nACTION(FWD) FWDQ(NARROW) HEADER(YES)"

    outcomes = world.handle(rules, hold_while_blocked=True)

    assert outcomes == {1: "delivered", 2: "exhausted", 3: "delivered"}
    failed = [a for a in world.ledger.attempts.of_run("run-1") if a.state is AttemptState.FAILED]
    assert [(attempt.rule, attempt.mqrc) for attempt in failed] == [(1, 2030), (1, 2030), (2, 2030)]
    ((left, _),) = world.messages("DLQ")
    assert left.BackoutCount == 0


def test_a_message_that_is_not_the_one_browsed_is_never_moved(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cursor moves between browse and get: the wrong message is backed out."""
    for body in (b"first", b"second"):
        world.dead_letter(body)
    execution = world.plan("ACTION(RETRY)")
    get = UnitOfWork.get_under_cursor

    def get_the_next(unit: UnitOfWork, _length: int) -> GotMessage:
        following = iter(unit._cursor.messages())
        next(following)
        return get(unit, next(following).total_length)

    monkeypatch.setattr(UnitOfWork, "get_under_cursor", get_the_next)

    with pytest.raises(ExecutionError) as refused:
        make_pass(execution)

    assert str(refused.value) == (
        "the message got from DLQ is not the one under the cursor (message 1), so it was"
        " backed out; clear the task [MQDLQ-604]"
    )
    assert world.depths("DLQ", "PAYMENTS") == (2, 0)


def test_a_backed_out_message_that_has_vanished_keeps_no_other_from_its_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit's last message is taken between MQCMIT and its second try: the pass continues."""
    bodies = [b"%02d" % number for number in range(9)]
    for body in bodies:
        world.dead_letter(body)
    execution = world.plan("ACTION(RETRY)")
    redo = UnitEngine._redo

    def when_the_third_is_gone(units: UnitEngine[Planned], tried: Planned) -> None:
        if tried.tries[0].item.message.browse_seq == 3:
            world.lose_first()
        redo(units, tried)

    monkeypatch.setattr(UnitEngine, "_redo", when_the_third_is_gone)
    embedded_mq.faults.set("MQCMIT:2:2003:before")

    result = make_pass(execution)
    embedded_mq.faults.set("")

    assert (result.attempts, result.pending) == (8, 1)  # somebody may put it back
    assert settle(execution) == {Outcome.DELIVERED: 8, Outcome.TAKEN: 1}
    assert world.bodies("PAYMENTS") == [body for body in bodies if body != b"02"]


def test_a_warning_of_a_put_is_a_failed_attempt(world: World) -> None:
    """MQRC_PRIORITY_EXCEEDS_MAXIMUM (2049): MQ accepts the message, IBM's handler backs it out."""
    world.put("PARKED", b"x")
    with pytest.raises(Exception, match="2049"):
        world.dead_letter(b"urgent", Priority=12)
    world.dead_letter(b"usual", Priority=3)

    outcomes = world.handle("WAIT(NO)\nACTION(RETRY) RETRY(2)\nACTION(FWD) FWDQ(PARKED)")

    assert outcomes == {1: "exhausted", 2: "delivered"}
    failed = [a for a in world.ledger.attempts.of_run("run-1") if a.state is AttemptState.FAILED]
    assert [(a.rule, a.mqrc) for a in failed] == [(1, 2049), (1, 2049), (2, 2049)]
    ((md, body),) = world.messages("DLQ")
    assert (md.Priority, body[172:]) == (12, b"urgent")
    assert world.bodies("PAYMENTS") == [b"usual"]
    assert world.bodies("PARKED") == [b"x"]


# -- messages that another application takes


@pytest.mark.parametrize(
    ("faults", "left"),
    [
        pytest.param("MQGET[DLQ]:6:2033:before", b"2", id="before its get"),
        pytest.param(
            "MQCMIT:2:2003:before,MQGET[DLQ]:8:2033:before", b"1", id="before it is got again"
        ),
    ],
)
def test_a_message_that_is_gone_at_its_get_is_skipped(
    world: World, faults: str, left: bytes
) -> None:
    bodies = [b"0", b"1", b"2", b"3"]
    for body in bodies:
        world.dead_letter(body)
    execution = world.plan("ACTION(RETRY)")
    embedded_mq.faults.set(faults)

    result = make_pass(execution)
    embedded_mq.faults.set("")

    assert (result.attempts, result.pending) == (3, 1)
    assert world.bodies("PAYMENTS") == [body for body in bodies if body != left]


def test_a_message_that_is_gone_after_a_repeated_unit_is_skipped(
    world: World,
) -> None:
    """A unit that is full by MAXUMSGS is committed with the next message under the cursor."""
    bodies = [b"%d" % number for number in range(6)]
    for body in bodies:
        world.dead_letter(body)
    execution = world.plan("ACTION(RETRY)")
    world.mqsc("ALTER QMGR MAXUMSGS(6)")
    looks = "MQGET[DLQ]:16:2033:before,MQGET[DLQ]:17:2033:before"
    embedded_mq.faults.set(f"MQCMIT:3:2003:before,{looks}")

    result = make_pass(execution)
    embedded_mq.faults.set("")

    assert (result.attempts, result.pending) == (5, 1)
    assert world.bodies("PAYMENTS") == bodies[:5]


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ("MQGET[DLQ]:6:2016:before", 2016),
        ("MQPUT1[PAYMENTS]:3:2003:before,MQGET[DLQ]:8:2024:before", 2024),
    ],
    ids=["get inhibited", "alone in its unit, which cannot hold it"],
)
def test_a_get_that_fails_for_another_reason_ends_the_pass(
    world: World, faults: str, reason: int
) -> None:
    for number in range(3):
        world.dead_letter(b"%d" % number)
    execution = world.plan("ACTION(RETRY)")
    embedded_mq.faults.set(faults)

    with pytest.raises(QueueManagerError, match=rf"MQGET of queue DLQ failed: .* \({reason}\)"):
        make_pass(execution)
    embedded_mq.faults.set("")

    assert world.bodies("PAYMENTS") == [b"0"]
    assert world.depths("DLQ") == (2,)


@pytest.mark.parametrize(("get", "reason"), [(2, 2003), (6, 2003), (6, 2024)])
def test_a_get_that_fails_because_of_its_unit_is_repeated_alone(
    world: World, get: int, reason: int
) -> None:
    bodies = [b"0", b"1", b"2", b"3"]
    for body in bodies:
        world.dead_letter(body)
    execution = world.plan("ACTION(RETRY)")
    embedded_mq.faults.set(f"MQGET[DLQ]:{get}:{reason}:before")

    result = make_pass(execution)
    embedded_mq.faults.set("")

    assert (result.attempts, result.pending) == (4, 0)
    assert world.bodies("PAYMENTS") == bodies


# -- moves that wait behind an earlier one


BY_KEY = {"sequences": {"key": "MQMD.CorrelId"}}
TWICE = "WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(2)"


def letters(world: World, keys: str) -> None:
    for number, key in enumerate(keys):
        world.dead_letter(b"%d" % number, CorrelId=key.encode() * 24)


def test_a_repeated_move_that_fails_keeps_later_moves_of_its_key_from_being_made(
    world: World,
) -> None:
    """The third unit holds 3 to 6: 5 fails, the unit is backed out, and then 3 fails alone."""
    letters(world, "abcddef")
    execution = world.plan(TWICE, **BY_KEY)

    embedded_mq.faults.set("MQPUT1[PAYMENTS]:6:2030:before,MQPUT1[PAYMENTS]:7:2030:before")
    make_pass(execution)
    embedded_mq.faults.set("")

    assert world.bodies("PAYMENTS") == [b"0", b"1", b"2", b"6"]
    world.clock.now += timedelta(seconds=61)
    make_pass(execution)
    assert world.bodies("PAYMENTS") == [b"0", b"1", b"2", b"6", b"3", b"4", b"5"]


def test_a_move_does_not_follow_one_that_failed_when_its_full_unit_was_repeated(
    world: World,
) -> None:
    """The third unit has no room for 5: its commit is backed out, and then 4 fails alone."""
    world.mqsc("ALTER QMGR MAXUMSGS(7)")
    letters(world, "abcdee")
    execution = world.plan(TWICE, **BY_KEY)

    embedded_mq.faults.set("MQCMIT:3:2003:before,MQPUT1[PAYMENTS]:7:2030:before")
    make_pass(execution)
    embedded_mq.faults.set("")

    assert world.bodies("PAYMENTS") == [b"0", b"1", b"2", b"3"]
    world.clock.now += timedelta(seconds=61)
    make_pass(execution)
    assert world.bodies("PAYMENTS") == [b"0", b"1", b"2", b"3", b"4", b"5"]


# -- moves of several messages


@pytest.mark.parametrize(
    "faults",
    [
        "MQGET[DLQ]:11:2024:before",
        "MQPUT1[MQDLQ.STATE]:1:2024:before,MQPUT1[MQDLQ.STATE]:2:2024:before",
    ],
    ids=["at the second get", "at the marker"],
)
def test_a_group_that_exceeds_its_unit_of_work_fails_and_other_messages_move(
    world: World, faults: str
) -> None:
    for number in (1, 2):
        flags = 8 | (16 if number == 2 else 0)
        world.dead_letter(b"%d" % number, GroupId=b"g" * 24, MsgSeqNumber=number, MsgFlags=flags)
    world.dead_letter(b"other", dest_q="ORDERS")
    execution = world.plan(TWICE, sequences={"groups": "all_or_nothing"})
    embedded_mq.faults.set(faults)

    result = make_pass(execution)
    embedded_mq.faults.set("")

    assert (result.attempts, result.pending) == (3, 2)
    assert (world.bodies("PAYMENTS"), world.bodies("ORDERS")) == ([], [b"other"])
    tried = [a for a in world.ledger.attempts.of_run("run-1") if a.state is AttemptState.FAILED]
    assert [attempt.mqrc for attempt in tried] == [2003, 2024]


def test_a_message_whose_unit_is_backed_out_each_time_stays_with_that_reason(world: World) -> None:
    world.dead_letter(b"1")
    execution = world.plan("RETRYINT(60) WAIT(NO)\nACTION(RETRY) RETRY(2)")
    embedded_mq.faults.set(",".join(f"MQCMIT:{number}:2003:before" for number in range(1, 9)))

    make_pass(execution)
    embedded_mq.faults.set("")

    assert settle(execution) == {Outcome.RETRY_PENDING: 1}
    (fact,) = world.ledger.outcomes.of_run("run-1").values()
    assert fact.why is not None
    assert "MQRC_BACKED_OUT (2003)" in fact.why.words
