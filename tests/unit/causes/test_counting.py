"""Test that messages are counted by cause, and in bounded memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mqdlq import causes
from mqdlq.causes import Cause, CauseCounter, count_causes, find_cause
from mqdlq.model import MessageClass, Outcome

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
DEAD = MessageClass.DEAD_LETTER


def row(name: str, reason: int = 2053, minutes: int = 0, **fields: Any) -> dict[str, Any]:
    at = NOON + timedelta(minutes=minutes)
    named = {"dlh_reason": reason, "dlh_dest_q_name": name, "dlh_dest_q_mgr_name": "QM1"}
    return {"class": "dead_letter", **named, "dead_lettered_at": at, **fields}


def test_dynamic_queues_are_one_cause_with_the_number_of_their_names() -> None:
    names = [f"AMQ.5F2A6C7E2103{number % 3:04X}" for number in range(5)]

    (found,) = count_causes(row(name, minutes=at) for at, name in enumerate(names))

    assert found.cause == find_cause("dead_letter", 2053, "AMQ.*", "QM1")
    assert (found.messages, found.queues) == (5, 3)
    assert (found.first_at, found.last_at) == (NOON, NOON + timedelta(minutes=4))


def test_the_time_of_a_message_is_its_put_time_if_its_mqdlh_says_none() -> None:
    later = NOON + timedelta(hours=1)

    (found,) = count_causes(
        [row("A", dead_lettered_at=None, put_at=later), row("A", dead_lettered_at=None)]
    )

    assert (found.messages, found.first_at, found.last_at) == (2, later, later)


def test_causes_come_by_number_and_those_beyond_the_limit_by_reason() -> None:
    counter = CauseCounter()
    for name, reason, number in (("A", 1, 3), ("B", 2, 2), ("C", 2, 1), ("D", 2, 1), ("E", 3, 1)):
        for _ in range(number):
            counter.add_row(row(name, reason))
    counter.add_row({"class": "no_dlh"})

    found = counter.counted(2)

    assert [(one.cause.reason, one.cause.dest_q_name, one.messages) for one in found] == [
        (1, "A", 3),
        (2, "B", 2),
        (2, None, 2),
        (3, None, 1),
        (0, "", 1),
    ]
    assert found[2].queues == 2
    assert sum(one.messages for one in counter.counted()) == 9


def test_a_counter_tells_a_limited_number_of_causes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "MOST_CAUSES", 2)

    found = count_causes([*(row(f"Q{number}") for number in range(5)), {"class": "no_dlh"}])

    assert [(one.cause.dest_q_name, one.messages) for one in found] == [
        ("Q0", 1),
        ("Q1", 1),
        ("", 1),
        (None, 3),
    ]
    assert found[-1].cause == Cause(DEAD, 2053, None)


def test_a_counter_tells_a_limited_number_of_names_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "MOST_NAMES", 3)

    (found,) = count_causes(row(f"AMQ.{number:016X}") for number in range(5))

    assert (found.messages, found.queues) == (5, 3)


def test_outcomes_are_counted_in_their_order() -> None:
    counter = CauseCounter()
    cause = find_cause(DEAD, 2053, "A", "")
    for outcome in (Outcome.UNMATCHED, Outcome.DELIVERED, Outcome.UNMATCHED, None):
        counter.add(cause, "A", None, outcome)

    (found,) = counter.counted()

    assert list(found.outcomes.items()) == [(Outcome.DELIVERED, 1), (Outcome.UNMATCHED, 2)]
    assert (found.messages, found.first_at) == (4, None)


def test_a_nul_that_ends_a_destination_is_noted() -> None:
    (found,) = count_causes([row("ORDERS"), row("ORDERS\0\0")])

    assert (found.cause.dest_q_name, found.has_nuls) == ("ORDERS", True)
