"""The report's words: every outcome and reason has its own, and numbers read as people say them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from ended_runs import (
    NO_AUTHORITY,
    NO_QUEUE,
    Q_FULL,
    START,
)

from mqdlq.constants import reason_text
from mqdlq.model import Outcome
from mqdlq.report.causes import _CAUSES, Kind, cause_of
from mqdlq.report.words import HANDLED, NEEDS_A_PERSON, OUTCOMES, numbers, period, span, visible


def test_every_outcome_has_words_and_a_place() -> None:
    assert set(OUTCOMES) == set(Outcome)
    assert not HANDLED & NEEDS_A_PERSON


def test_every_reason_we_explain_is_one_of_ibms() -> None:
    assert all(reason_text(reason).startswith("MQ") for reason in _CAUSES)


def test_reasons_are_tagged_by_who_can_act_on_them() -> None:
    kinds = [cause_of(reason).kind for reason in (Q_FULL, NO_QUEUE, NO_AUTHORITY, 2110, 99999)]

    assert kinds == [
        Kind.TRANSIENT,
        Kind.ADMINISTRATIVE,
        Kind.ADMINISTRATIVE,
        Kind.APPLICATION,
        Kind.UNKNOWN,
    ]


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
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_period_names_its_second_day_only_where_it_is_another() -> None:
    assert period(START, START) == "2026-11-21 02:49:22 UTC"
    assert period(START, START + timedelta(minutes=1)) == "2026-11-21 02:49:22 to 02:50:22 UTC"
    assert period(START - timedelta(days=1), START) == (
        "2026-11-20 02:49:22 to 2026-11-21 02:49:22 UTC"
    )
    assert period(None, None) == ""
