"""The limits of a handler's YAML file: their values, their errors, and closed windows."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from mqdlq.controls.limits import ClosedWindow, Limits, find_reopening
from mqdlq.controls.settings import read_controls
from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handler

LIMITS = """
limits:
  messages_per_run: 10000
  messages_per_second: 0.5
  queue_manager: {messages_per_second: 200, burst: 50}
  destinations:
    - queue: ORDERS.?
      queue_manager: QM*
      bytes_per_second: 1000000
      in_flight: 500
      closed:
        - {cron: "0 22 * * *", for: PT8H, time_zone: Europe/Berlin}
    - {queue: "*", messages_per_second: 50}
"""


def load(directory: Path, limits: str) -> Limits:
    (directory / "h.yaml").write_text(f"connection: mq\nrules: a.rules\n{limits}", "utf-8")
    return load_handler("h", directory).limits


def window(cron: str, lasts: str, zone: str = "Europe/Berlin") -> tuple[ClosedWindow, ...]:
    return (ClosedWindow.model_validate({"cron": cron, "for": lasts, "time_zone": zone}),)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")


def test_a_run_records_the_limits_of_its_handler(tmp_path: Path) -> None:
    limits = load(tmp_path, LIMITS)
    handler = load_handler("h", tmp_path)

    assert read_controls(handler.controls_text()).limits == limits
    assert limits.has_pace
    assert (limits.burst_messages, limits.destinations[1].burst_messages) == (1, 50)


@pytest.mark.parametrize(
    ("queue", "queue_manager", "first_key"),
    [
        ("ORDERS.1", "QM1", "bytes_per_second"),
        ("ORDERS.10", "QM1", "messages_per_second"),
        ("ORDERS.1", "OTHER", "messages_per_second"),
    ],
)
def test_the_first_item_that_matches_applies(
    tmp_path: Path, queue: str, queue_manager: str, first_key: str
) -> None:
    found = load(tmp_path, LIMITS).of_destination((queue, queue_manager), "")

    assert found is not None
    assert getattr(found, first_key) is not None


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("{messages_per_second: 0}", ".messages_per_second: Input should be greater than 0"),
        ("{burst: 5}", ": 'burst' has no effect without 'messages_per_second'"),
        (
            "{queue_manager: {}}",
            (
                ": 'queue_manager' needs a limit: 'messages_per_second', 'bytes_per_second' or"
                " 'bytes_per_minute'"
            ),
        ),
        (
            "{destinations: [{queue: A}]}",
            (
                ".destinations.0: a destination needs a limit: 'messages_per_second',"
                " 'bytes_per_second', 'bytes_per_minute', 'in_flight' or 'closed'"
            ),
        ),
        (
            "{destinations: [{queue: A, in_flight: 1}, {queue: A, in_flight: 2}]}",
            (
                ": the destination 'A' is listed 2 times; only the first would apply:"
                " join its limits in one item"
            ),
        ),
        (
            "{destinations: [{queue: A, closed: [{cron: '0 25 * * *', for: PT1H}]}]}",
            (
                ".destinations.0.closed.0.cron: '0 25 * * *' is not a cron expression;"
                " expected five fields such as '0 22 * * *'"
            ),
        ),
        (
            "{destinations: [{queue: A, closed: [{cron: '@daily', for: PT1H, time_zone: CET/1}]}]}",
            (
                ".destinations.0.closed.0.time_zone: 'CET/1' is not a time zone; expected"
                " a name such as 'Europe/Berlin' or 'UTC'"
            ),
        ),
        (
            "{destinations: [{queue: A, closed: [{cron: '@daily', for: P1D}]}]}",
            (
                ".destinations.0.closed.0: windows of 1 day, 0:00:00 that begin at '@daily' follow"
                " each other without a gap: the destination would never take a message"
            ),
        ),
    ],
)
def test_wrong_limits_are_rejected(tmp_path: Path, limits: str, message: str) -> None:
    with pytest.raises(HandlerError) as caught:
        load(tmp_path, f"limits: {limits}\n")

    found = str(caught.value).splitlines()[0]
    assert found == f"{tmp_path}/h.yaml:3:9: limits{message} [MQDLQ-301]"


@pytest.mark.parametrize(
    ("now", "reopens"),
    [
        ("2026-11-20T20:59", None),
        ("2026-11-20T21:00", "2026-11-21T05:00"),
        ("2026-11-21T04:59", "2026-11-21T05:00"),
        ("2026-11-21T05:00", None),
    ],
)
def test_a_window_is_closed_from_its_start_for_its_duration(now: str, reopens: str | None) -> None:
    found = find_reopening(window("0 22 * * *", "PT8H"), moment(now))

    assert found == (moment(reopens) if reopens else None)


@pytest.mark.parametrize(
    ("now", "reopens"),
    [
        # The clocks go forward at 01:00 UTC: 22:00 is 21:00 UTC before, and 20:00 UTC after.
        ("2026-03-28T21:00", "2026-03-29T05:00"),
        ("2026-03-29T20:00", "2026-03-30T04:00"),
        # The clocks go back at 01:00 UTC.
        ("2026-10-24T20:00", "2026-10-25T04:00"),
        ("2026-10-25T20:59", None),
        ("2026-10-25T21:00", "2026-10-26T05:00"),
    ],
)
def test_a_window_begins_by_local_time_and_lasts_by_the_clock_of_a_stopwatch(
    now: str, reopens: str | None
) -> None:
    found = find_reopening(window("0 22 * * *", "PT8H"), moment(now))

    assert found == (moment(reopens) if reopens else None)


def test_a_start_in_the_skipped_hour_counts_from_the_time_that_the_clock_then_shows() -> None:
    at_half_past_two = window("30 2 * * *", "PT30M")
    closed = [
        find_reopening(at_half_past_two, moment(f"2026-03-29T{time}"))
        for time in ("00:30", "00:59", "01:29", "01:30", "01:59", "02:00", "02:30")
    ]

    end = moment("2026-03-29T02:00")
    assert closed == [None, None, None, end, end, None, None]


def test_a_start_in_the_repeated_hour_counts_twice() -> None:
    at_half_past_two = window("30 2 * * *", "PT20M")
    closed = [
        find_reopening(at_half_past_two, moment(f"2026-10-25T{time}"))
        for time in ("00:29", "00:30", "00:50", "01:30", "01:50")
    ]

    assert closed == [
        None,
        moment("2026-10-25T00:50"),
        None,
        moment("2026-10-25T01:50"),
        None,
    ]
