"""Test that a pass inquires each destination once and remembers the results of puts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import embedded_mq
from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.model import PutAuthority
from mqdlq.stages.units.destinations import Destinations
from tests.support.world import World

PAYMENTS = ("PAYMENTS", "QM1")
NOT_AUTHORIZED, FULL, INHIBITED, UNKNOWN = 2035, 2053, 2051, 2085

QUEUES = """
DEFINE QLOCAL(FULL) MAXDEPTH(0)
DEFINE QLOCAL(NARROW) MAXMSGL(4)
DEFINE QALIAS(ALIAS) TARGET(CLOSED)
DEFINE QLOCAL(TRIGGERED) TRIGGER
DEFINE QLOCAL(COPY) PUT(DISABLED)
DEFINE QLOCAL(STREAMED) STREAMQ(COPY) STRMQOS(MUSTDUP)
"""


@pytest.fixture(name="destinations")
def _destinations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Destinations]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    world.mqsc(QUEUES)
    with world.ledger, world.connect() as queue_manager:
        yield Destinations(queue_manager, 8)
    embedded_mq.faults.set("")


@pytest.mark.parametrize(
    ("name", "q_mgr_name", "reason"),
    [
        ("PAYMENTS", "", 0),
        ("PAYMENTS", "QM1", 0),
        ("CLOSED", "", INHIBITED),
        ("FULL", "QM1", FULL),
        ("NOWHERE", "", UNKNOWN),
        ("ALIAS", "", 0),
        ("NOWHERE", "QM2", 0),
        ("", "QM2", 2184),
    ],
)
def test_an_inquiry_finds_the_reason_that_blocks_a_destination(
    destinations: Destinations, name: str, q_mgr_name: str, reason: int
) -> None:
    """For a queue that is not local, the first put decides."""
    assert destinations.find_blocking_reason((name, q_mgr_name)) == reason


def test_a_queue_without_inquire_authority_is_judged_by_its_first_put(
    destinations: Destinations,
) -> None:
    embedded_mq.faults.set(f"MQOPEN[CLOSED]:1:{NOT_AUTHORIZED}:before")

    assert destinations.find_blocking_reason(("CLOSED", "")) == 0


def test_the_queue_manager_is_asked_once_about_each_destination(
    destinations: Destinations,
) -> None:
    assert destinations.find_blocking_reason(PAYMENTS) == 0

    embedded_mq.run_mqsc("QM1", "ALTER QLOCAL(PAYMENTS) PUT(DISABLED)")

    assert destinations.find_blocking_reason(PAYMENTS) == 0
    assert destinations.find_blocking_reason(("PAYMENTS", "")) == INHIBITED


def test_a_move_that_puts_nothing_is_never_blocked(destinations: Destinations) -> None:
    destinations.record_failure(None, FULL)

    assert destinations.find_blocking_reason(None) == 0
    assert destinations.explain_failure(None, 2063) == ""
    assert not destinations.may_trigger(None)


def test_a_destination_that_refuses_our_user_is_closed_to_our_authority_only(
    destinations: Destinations,
) -> None:
    destinations.record_failure(PAYMENTS, NOT_AUTHORIZED, PutAuthority.DEF)

    assert destinations.find_blocking_reason(PAYMENTS) == NOT_AUTHORIZED
    assert destinations.find_blocking_reason(PAYMENTS, PutAuthority.CTX) == 0


def test_a_user_without_authority_closes_a_destination_to_no_other_user(
    destinations: Destinations,
) -> None:
    destinations.record_failure(PAYMENTS, NOT_AUTHORIZED, PutAuthority.CTX)

    assert destinations.find_blocking_reason(PAYMENTS, PutAuthority.DEF) == 0
    assert destinations.find_blocking_reason(PAYMENTS, PutAuthority.CTX) == 0


@pytest.mark.parametrize("authority", PutAuthority)
@pytest.mark.parametrize("reason", [FULL, 2192, 2196, 2199])
def test_a_reason_of_the_destination_blocks_it_under_every_authority(
    destinations: Destinations, reason: int, authority: PutAuthority
) -> None:
    destinations.record_failure(PAYMENTS, reason, authority)

    assert {destinations.find_blocking_reason(PAYMENTS, each) for each in PutAuthority} == {reason}
    assert destinations.find_blocking_reason(("PAYMENTS", "")) == 0


def test_a_reason_of_the_message_blocks_nothing(destinations: Destinations) -> None:
    destinations.record_failure(PAYMENTS, MQRC["MQRC_MSG_TOO_BIG_FOR_Q"])

    assert destinations.find_blocking_reason(PAYMENTS) == 0


def test_the_allowance_doubles_up_to_the_limit_and_starts_again_after_a_failure(
    destinations: Destinations,
) -> None:
    levels = []
    for _ in range(5):
        levels.append(destinations.allowed_messages(PAYMENTS))
        destinations.raise_allowance(PAYMENTS)
    destinations.record_failure(PAYMENTS, 2030)

    assert levels == [1, 2, 4, 8, 8]
    assert destinations.allowed_messages(PAYMENTS) == 1
    assert destinations.allowed_messages(("ORDERS", "")) == 1


def test_a_message_is_too_long_from_the_first_byte_above_maxmsgl(
    destinations: Destinations,
) -> None:
    assert not destinations.is_too_long(("NARROW", ""), 5)  # not inquired yet

    destinations.find_blocking_reason(("NARROW", ""))

    assert [destinations.is_too_long(("NARROW", ""), length) for length in (4, 5)] == [False, True]


def test_a_put_may_trigger_unless_the_queue_is_known_to_have_no_trigger(
    destinations: Destinations,
) -> None:
    queues = [("PAYMENTS", ""), ("TRIGGERED", ""), ("ALIAS", "")]
    assert all(destinations.may_trigger(queue) for queue in queues)

    for queue in queues:
        destinations.find_blocking_reason(queue)

    assert [destinations.may_trigger(queue) for queue in queues] == [False, True, True]


STREAM = (
    "its stream queue COPY gives this reason: STRMQOS(MUSTDUP) refuses a message that cannot be"
    " put to both STREAMED and COPY"
)


@pytest.mark.parametrize(
    ("destination", "reason", "advice"),
    [
        (("STREAMED", ""), INHIBITED, STREAM),
        (("STREAMED", "QM1"), INHIBITED, STREAM),
        (("STREAMED", ""), 2030, STREAM.replace("gives", "may give")),
        (("STREAMED", "QM2"), INHIBITED, ""),
        (("STREAMED", ""), NOT_AUTHORIZED, ""),
        (("", ""), INHIBITED, ""),
        (PAYMENTS, INHIBITED, ""),
    ],
)
def test_a_stream_queue_is_named_where_a_local_queue_refuses_a_message(
    destinations: Destinations, destination: tuple[str, str], reason: int, advice: str
) -> None:
    assert destinations.explain_failure(destination, reason) == advice


def test_a_blank_queue_name_has_its_own_advice(destinations: Destinations) -> None:
    assert destinations.explain_failure(("", ""), UNKNOWN).startswith(
        "the message does not name a queue;"
    )


def test_a_security_error_names_the_policy_of_its_queue(destinations: Destinations) -> None:
    assert destinations.explain_failure(PAYMENTS, MQRC["MQRC_SECURITY_ERROR"]).startswith(
        "the Advanced Message Security policy PAYMENTS, which has its queue's name, refuses it"
    )


def test_advice_about_a_destination_is_requested_once(destinations: Destinations) -> None:
    first = destinations.explain_failure(("STREAMED", ""), INHIBITED)

    embedded_mq.run_mqsc("QM1", "ALTER QLOCAL(STREAMED) STREAMQ(' ')")

    assert destinations.explain_failure(("STREAMED", ""), INHIBITED) == first == STREAM
    assert destinations.explain_failure(("STREAMED", ""), FULL) == ""


@pytest.mark.parametrize(
    ("name", "q_mgr_name", "depth"),
    [("PAYMENTS", "", 2), ("PAYMENTS", "QM1", 2), ("ALIAS", "", None), ("PAYMENTS", "QM2", None)],
)
def test_a_local_queue_has_a_depth(
    destinations: Destinations, name: str, q_mgr_name: str, depth: int | None
) -> None:
    for _ in range(2):
        destinations.queue_manager.handle.put1(b"PAYMENTS", b"body")

    assert destinations.inquire_depth((name, q_mgr_name)) == depth


def test_a_lost_connection_ends_an_inquiry_of_the_depth(destinations: Destinations) -> None:
    embedded_mq.faults.set("MQOPEN[PAYMENTS]:1:2009:before")

    with pytest.raises(QueueManagerError, match="MQRC_CONNECTION_BROKEN"):
        destinations.inquire_depth(PAYMENTS)


def test_a_broken_connection_leaves_a_name_unresolved(destinations: Destinations) -> None:
    """A name that resolves to itself because nobody answered would let a put to an alias pass."""
    embedded_mq.faults.set("MQOPEN[ALIAS]:1:2009:before")

    with pytest.raises(QueueManagerError, match="MQRC_CONNECTION_BROKEN"):
        destinations.find_own(("ALIAS", ""), ("CLOSED",))


def test_a_name_that_another_user_may_not_open_is_asked_for_again(
    destinations: Destinations,
) -> None:
    """The first MQOPEN inquires the queue's kind; the second, which resolves it, is refused."""
    embedded_mq.faults.set("MQOPEN[ALIAS]:2:2035:before")

    assert not destinations.find_own(("ALIAS", ""), ("CLOSED",), b"other")
    assert destinations.find_own(("ALIAS", ""), ("CLOSED",), b"other") == "CLOSED"
