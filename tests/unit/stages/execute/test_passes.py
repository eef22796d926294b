"""Test passes, attempts and the account: the times of attempts, the end of each message."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from mqdlq.errors import AccountError, ExecutionError
from mqdlq.ledger.tables import Sighting
from mqdlq.model import Outcome
from mqdlq.mqi.state_queue import open_state_queue
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import NOON, World

pytestmark = pytest.mark.stages


def attempt_times(world: World, run_id: str = "run-1") -> list[tuple[int, str, int]]:
    """Return (seconds since the start, action, reason) of each attempt."""
    return [
        (int((a.at - NOON).total_seconds()), a.action.value, a.mqrc)
        for a in world.ledger.attempts.of_run(run_id)
    ]


def test_retry_3_makes_three_attempts_a_minute_apart_and_then_leaves_the_message(
    world: World,
) -> None:
    """Golden timeline: attempts at 0, 61 and 122."""
    world.dead_letter(dest_q="CLOSED", reason=2051)

    outcomes = world.handle("RETRYINT(60) WAIT(NO)\nACTION(RETRY) RETRY(3)")

    assert outcomes == {1: "exhausted"}
    assert attempt_times(world) == [(0, "RETRY", 2051), (61, "RETRY", 2051), (122, "RETRY", 2051)]
    assert world.depths("DLQ", "CLOSED") == (1, 0)


def test_the_next_matching_rule_comes_with_the_next_pass(world: World) -> None:
    """Golden timeline: RETRY at 0 and 31, FWD at 62."""
    world.dead_letter(dest_q="CLOSED", reason=2051)

    outcomes = world.handle(
        "RETRYINT(30) WAIT(NO)\nACTION(RETRY) RETRY(2)\nACTION(FWD) FWDQ(PARKED)"
    )

    assert outcomes == {1: "forwarded"}
    assert attempt_times(world) == [(0, "RETRY", 2051), (31, "RETRY", 2051), (62, "FWD", 0)]


def test_a_failed_put_is_an_attempt_and_leaves_the_message(world: World) -> None:
    world.mqsc("DEFINE QALIAS(CLOSED.TOO) TARGET(CLOSED)")
    world.dead_letter(b"body", dest_q="CLOSED.TOO", reason=2051)

    execution = world.plan("ACTION(RETRY) RETRY(5)")
    result = make_pass(execution)

    assert (result.pending, result.attempts) == (1, 1)
    assert result.next_pass_at == NOON + timedelta(seconds=61)
    ((md, _),) = world.messages("DLQ")
    assert md.BackoutCount == 1


def test_a_failing_message_does_not_stop_others(world: World) -> None:
    world.dead_letter(b"1", dest_q="CLOSED")
    world.dead_letter(b"2", dest_q="PAYMENTS")
    world.dead_letter(b"3", dest_q="UNDEFINED")
    world.dead_letter(b"4", dest_q="PAYMENTS")

    outcomes = world.handle("WAIT(NO)\nACTION(RETRY)")

    assert outcomes == {1: "exhausted", 2: "delivered", 3: "exhausted", 4: "delivered"}
    assert world.bodies("PAYMENTS") == [b"2", b"4"]


def test_a_put_that_fails_as_before_is_logged_only_at_debug(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.dead_letter(dest_q="CLOSED", reason=2051)
    world.dead_letter(dest_q="CLOSED", reason=2053)

    with caplog.at_level(logging.DEBUG, "mqdlq.test"):
        make_pass(world.plan("ACTION(RETRY)"))

    told = [(r.levelname, r.getMessage()) for r in caplog.records if "AMQ8722" in r.getMessage()]
    words = "AMQ8722: unable to put message {} to CLOSED: rule 1 (line 1), attempt 1, "
    reason = "MQRC_PUT_INHIBITED (2051)"
    assert told == [
        ("DEBUG", words.format(1) + reason),
        ("WARNING", words.format(2) + reason),
    ]


def test_twins_with_one_key_are_two_messages(world: World) -> None:
    for body in (b"first ", b"second", b"third "):
        world.dead_letter(body, MsgId=b"t" * 24)

    outcomes = world.handle("ACTION(RETRY)")

    assert outcomes == {1: "delivered", 2: "delivered", 3: "delivered"}
    assert world.bodies("PAYMENTS") == [b"first ", b"second", b"third "]


def test_a_message_that_another_application_took_is_taken(world: World) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    world.mqsc("CLEAR QLOCAL(DLQ)")

    make_pass(execution)

    assert settle(execution) == {Outcome.TAKEN: 1}


def test_a_message_that_expired_during_the_run_is_expired(world: World) -> None:
    world.dead_letter(Expiry=600)
    execution = world.plan("DESTQ(NOBODY) ACTION(RETRY)")
    world.mqsc("CLEAR QLOCAL(DLQ)")
    world.clock.sleep(61)

    make_pass(execution)

    assert settle(execution) == {Outcome.EXPIRED: 1}


def test_messages_that_arrive_during_a_run_are_left_and_counted_separately(world: World) -> None:
    world.dead_letter(b"planned")
    execution = world.plan("ACTION(RETRY)")
    world.dead_letter(b"arrived")

    make_pass(execution)
    settle(execution)

    assert world.bodies("PAYMENTS") == [b"planned"]
    assert world.depths("DLQ") == (1,)
    assert world.ledger.accounts.of_run("run-1") == Sighting(1, 0, 0, 1, NOON)


@pytest.mark.parametrize("target", ["DLQ", "MQDLQ.STATE"])
def test_a_rule_that_forwards_to_the_handlers_own_queues_is_not_executed(
    world: World, target: str
) -> None:
    world.dead_letter()

    assert world.handle(f"ACTION(FWD) FWDQ({target})") == {1: "not_attempted"}

    assert world.ledger.outcomes.of_run("run-1")[1].why.words == (
        f"its target, {target}, is a queue of this very handler"
    )
    assert world.depths("DLQ", "MQDLQ.STATE") == (1, 0)


def test_a_message_that_comes_back_from_its_target_does_not_add_up(world: World) -> None:
    world.mqsc("ALTER QLOCAL(PARKED) STREAMQ(DLQ)")
    world.dead_letter()
    execution = world.plan("ACTION(FWD) FWDQ(PARKED)")
    make_pass(execution)

    with pytest.raises(AccountError) as caught:
        settle(execution)

    assert str(caught.value) == (
        "1 messages booked as departed are on DLQ again: somebody put them back, or a"
        " rule forwards to the queue it reads; correct the rule, and start a new run"
        " [MQDLQ-609]"
    )


def test_a_dry_run_reports_messages_that_a_real_run_would_not_attempt(world: World) -> None:
    world.dead_letter(b"loop", dest_q="DLQ")
    world.dead_letter()

    world.handle("ACTION(RETRY)", dry_run=True)

    loop = "its target, DLQ, is a queue of this very handler"
    assert [fact.why.words for fact in world.ledger.outcomes.of_run("run-1").values()] == [
        f"dry run; it would also stay because {loop}",
        "dry run",
    ]


def test_a_dry_run_attempts_nothing(world: World) -> None:
    world.dead_letter()

    assert world.handle("ACTION(RETRY)", dry_run=True) == {1: "not_attempted"}

    assert world.depths("DLQ", "PAYMENTS", "MQDLQ.STATE") == (1, 0, 0)
    assert world.ledger.attempts.of_run("run-1") == []


def test_settling_twice_adds_nothing(world: World) -> None:
    world.dead_letter()
    world.put("DLQ", b"stray")
    execution = world.plan("ACTION(RETRY)")
    make_pass(execution)

    assert (
        settle(execution)
        == settle(execution)
        == {
            Outcome.DELIVERED: 1,
            Outcome.UNPROCESSABLE: 1,
        }
    )


def test_a_repeated_pass_moves_no_message_twice(world: World) -> None:
    world.dead_letter(b"once")
    execution = world.plan("ACTION(RETRY)")
    make_pass(execution)

    assert make_pass(execution).attempts == 0
    assert world.bodies("PAYMENTS") == [b"once"]


def test_the_state_queue_holds_one_marker_at_rest(world: World) -> None:
    for number in range(5):
        world.dead_letter(b"%d" % number)

    world.handle("ACTION(RETRY)")

    assert world.depths("PAYMENTS", "MQDLQ.STATE") == (5, 1)


def test_a_second_executor_waits_and_then_names_the_first(
    world: World,
) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")

    with (
        world.connect() as other,
        open_state_queue(other, "MQDLQ.STATE"),
        pytest.raises(ExecutionError) as caught,
    ):
        make_pass(execution)

    assert str(caught.value) == (
        "another executor holds the state queue MQDLQ.STATE of queue manager QM1"
        " (MQRC_OBJECT_IN_USE (2042)), and only one at a time may act on a dead-letter queue;"
        " this ledger knows of no pass there: the holder keeps another ledger [MQDLQ-602]"
    )
    assert world.clock.now == NOON + timedelta(minutes=5)
    assert world.depths("DLQ", "PAYMENTS") == (1, 0)


def test_without_a_state_queue_each_message_moves_alone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.mqsc("DELETE QLOCAL(MQDLQ.STATE)")
    for number in range(4):
        world.dead_letter(b"%d" % number)

    with caplog.at_level(logging.WARNING, "mqdlq.test"):
        world.handle("ACTION(RETRY)")

    assert world.bodies("PAYMENTS") == [b"0", b"1", b"2", b"3"]
    assert len({attempt.unit for attempt in world.ledger.attempts.of_run("run-1")}) == 4
    (warning,) = caplog.messages
    assert warning == (
        "the state queue MQDLQ.STATE is not defined on QM1: each message moves alone, two"
        " executors may act at once, and a crash may leave messages unknown; define it with"
        " DEFINE QLOCAL(MQDLQ.STATE) DEFPSIST(YES) [MQDLQ-611]"
    )


@pytest.mark.parametrize(
    "stranger",
    [b"hello", b"{}", b'{"unit": "no hex", "run_id": "", "plan_id": "", "messages": ""}', b"\xff"],
)
def test_a_foreign_message_on_the_state_queue_is_reported_and_left(
    world: World, caplog: pytest.LogCaptureFixture, stranger: bytes
) -> None:
    world.dead_letter()
    world.put("MQDLQ.STATE", stranger)

    with caplog.at_level(logging.WARNING):
        assert world.handle("ACTION(RETRY)") == {1: "delivered"}

    assert stranger in world.bodies("MQDLQ.STATE")
    (warning,) = caplog.messages
    assert warning == (
        "the state queue MQDLQ.STATE holds 1 messages that are not markers, but only this"
        " handler may use it; move them away [MQDLQ-610]"
    )


def test_a_pass_made_too_soon_spends_no_attempt(world: World) -> None:
    """To clear and rerun a task does not bring the next attempt forward."""
    world.dead_letter(dest_q="CLOSED")
    execution = world.plan("RETRYINT(60) WAIT(NO)\nACTION(RETRY) RETRY(2)\nACTION(DISCARD)")
    first = make_pass(execution)
    world.clock.sleep(30)

    again = make_pass(execution)

    assert (again.attempts, again.pending) == (0, 1)
    assert again.next_pass_at == first.next_pass_at


def test_an_uncounted_attempt_never_leads_to_a_discard(world: World) -> None:
    """Even for a queue known to be full, the last attempt before a DISCARD is really made."""
    world.mqsc("DEFINE QLOCAL(FULL) MAXDEPTH(0)")
    for _ in range(3):
        world.dead_letter(dest_q="FULL")
    execution = world.plan("RETRYINT(60) WAIT(NO)\nACTION(RETRY)\nACTION(DISCARD)")

    make_pass(execution)

    assert [md.BackoutCount for md, _ in world.messages("DLQ")] == [1, 1, 1]


def test_a_corrected_table_counts_attempts_from_zero(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    assert world.handle("RETRYINT(60)\nACTION(RETRY) RETRY(2)") == {1: "exhausted"}
    world.clock.sleep(3600)

    assert world.handle("RETRYINT(60)\nACTION(FWD) FWDQ(PARKED)") == {1: "forwarded"}


def test_under_wait_yes_a_message_stays_settled_from_run_to_run(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    rules = "RETRYINT(60)\nACTION(RETRY) RETRY(2)"
    assert world.handle(rules) == {1: "exhausted"}
    world.clock.sleep(3600)

    assert world.handle(rules) == {1: "exhausted"}
    assert world.ledger.attempts.of_run("run-2") == []


def test_a_message_that_another_run_handled_is_not_taken(world: World) -> None:
    world.dead_letter()
    late = world.plan("ACTION(RETRY)")
    assert world.handle("ACTION(RETRY)") == {1: "delivered"}
    make_pass(late)

    settle(late)

    (fact,) = world.ledger.outcomes.of_run("run-1").values()
    assert (fact.outcome, fact.why.words) == (
        Outcome.LEASED_BY_RUN,
        "run run-2 handled it in the meantime",
    )


def test_an_impossible_queue_name_does_not_stop_other_messages(world: World) -> None:
    world.dead_letter(b"1", dest_q="PAY\xc4")
    world.dead_letter(b"2", dest_q="")
    world.dead_letter(b"3")

    outcomes = world.handle("WAIT(NO)\nACTION(RETRY)")

    assert outcomes == {1: "exhausted", 2: "exhausted", 3: "delivered"}


def test_a_blank_queue_name_does_not_block_discards(world: World) -> None:
    world.dead_letter(b"1", dest_q="")
    world.dead_letter(b"2", dest_q="OLD")

    outcomes = world.handle("WAIT(NO)\nDESTQ(OLD) ACTION(DISCARD)\nACTION(RETRY)")

    assert outcomes == {1: "exhausted", 2: "discarded"}
