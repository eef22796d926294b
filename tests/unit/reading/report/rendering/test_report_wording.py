"""Test the report's wording of outcomes, reasons and numbers."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq.causes import Cause, Kind, advice_on, find_cause
from mqdlq.model import MessageClass, Outcome, Trait
from mqdlq.reading import report
from mqdlq.words import cause_in_words, destination_of, next_step, numbers, period, span, visible
from tests.unit.reading.report.ended_runs import (
    NO_AUTHORITY,
    NO_QUEUE,
    Q_FULL,
    START,
)

COMPONENTS = Path(report.__file__).parent / "components"
STYLES = (COMPONENTS / "components.css").read_text(encoding="utf-8")


@pytest.mark.parametrize("outcome", sorted({*Outcome} - {Outcome.NOT_SELECTED}))  # never drawn
def test_every_outcome_has_words_and_a_colour(outcome: Outcome) -> None:
    assert outcome.words
    assert re.search(rf"^[^{{]*\.{outcome}\b.* {{ --c: ", STYLES, re.MULTILINE)


@pytest.mark.parametrize("outcome", sorted(Outcome.having(Trait.NEEDS_ATTENTION)))
def test_every_outcome_that_needs_attention_has_a_next_step(outcome: Outcome) -> None:
    assert next_step(outcome, MessageClass.DEAD_LETTER, Q_FULL)


def test_no_outcome_contradicts_itself() -> None:
    assert not Outcome.having(Trait.DEPARTED) & Outcome.having(Trait.STAYS)
    assert not Outcome.having(Trait.SUCCEEDED) & Outcome.having(Trait.FAILED)
    assert Outcome.having(Trait.SUCCEEDED) <= Outcome.having(Trait.DEPARTED)
    assert not Outcome.having(Trait.SUCCEEDED) & Outcome.having(Trait.NEEDS_ATTENTION)


def test_reasons_name_who_can_act_on_them() -> None:
    kinds = [advice_on(reason).kind for reason in (Q_FULL, NO_QUEUE, NO_AUTHORITY, 2110, 99999)]

    assert kinds == [
        Kind.TRANSIENT,
        Kind.ADMINISTRATIVE,
        Kind.ADMINISTRATIVE,
        Kind.APPLICATION,
        Kind.UNKNOWN,
    ]
    assert Kind.ADMINISTRATIVE.words == "needs an administrator"


def test_a_cause_has_words_with_its_reason_and_destination() -> None:
    dead = MessageClass.DEAD_LETTER
    causes = [
        find_cause(dead, Q_FULL, "ORDERS", "QM2"),
        find_cause(dead, NO_QUEUE, "AMQ.5F2A6C7E21034B02", ""),
        find_cause(dead, 7777, "\x1b[31m", "QM1"),
        find_cause(MessageClass.NO_DLH, 0, "", ""),
        Cause(dead, Q_FULL, None),
    ]

    assert [cause_in_words(cause) for cause in causes] == [
        "MQRC_Q_FULL (2053) for ORDERS @ QM2",
        "MQRC_UNKNOWN_OBJECT_NAME (2085) for AMQ.*",
        "reason 7777 for \\x1b[31m @ QM1",
        "no MQDLH",
        "MQRC_Q_FULL (2053), destination not recorded",
    ]


def test_a_destination_that_stands_for_several_queues_has_their_number() -> None:
    dynamic = find_cause(MessageClass.DEAD_LETTER, NO_QUEUE, "AMQ.5F2A6C7E21034B02", "QM1")
    others = Cause(MessageClass.DEAD_LETTER, NO_QUEUE, None)

    assert destination_of(dynamic, 12) == "AMQ.* @ QM1 (12 queues)"
    assert destination_of(dynamic, 1) == "AMQ.* @ QM1 (1 queue)"
    assert destination_of(dynamic, 1_000) == "AMQ.* @ QM1 (1,000 or more queues)"
    assert destination_of(others, 7) == "other destinations (7 queues)"
    assert destination_of(others) == "destination not recorded"
    assert destination_of(find_cause(MessageClass.DEAD_LETTER, Q_FULL, "", "QM1"), 1) == (
        "(blank) @ QM1"
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ORDERS.EU", "ORDERS.EU"),
        ("", "(blank)"),
        ("A\x1b[31mB\0", "A\\x1b[31mB\\x00"),
        ("\u202eABC", "\\u202eABC"),
    ],
)
def test_names_from_messages_show_their_control_characters(name: str, shown: str) -> None:
    assert visible(name) == shown


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((7,), "7"),
        ((3, 1, 2, 9), "1-3, 9"),
        (tuple(range(0, 40, 2)), "0, 2, 4, 6, 8, 10, 12, 14 ..."),
    ],
)
def test_browse_seqs_are_shown_as_ranges(values: tuple[int, ...], text: str) -> None:
    assert numbers(values) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(7.4, "7 s"), (59.6, "1 min 0 s"), (125, "2 min 5 s"), (7260, "2 h 1 min")],
)
def test_durations_are_written_in_words(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_period_names_its_second_day_only_if_the_days_differ() -> None:
    assert period(START, START) == "2026-11-21 02:49:22 UTC"
    assert period(START, START + timedelta(minutes=1)) == "2026-11-21 02:49:22 to 02:50:22 UTC"
    assert period(START - timedelta(days=1), START) == (
        "2026-11-20 02:49:22 to 2026-11-21 02:49:22 UTC"
    )
    assert period(None, None) == ""
