"""The check of a queue by its stream queue is a hint, and changes no outcome."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq.controls.evidence import checks
from mqdlq.controls.evidence.report import evidence_in_words
from mqdlq.headers import DeadLetterHeader
from mqdlq.ledger.tables import EvidenceCheck, Run
from mqdlq.model import Verdict
from mqdlq.reading.report.building import Report, read_report
from mqdlq.reading.report.text_report import render_text
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.snapshot.capture import SnapshotOptions
from mqdlq.stages.snapshot.taking import snapshot_queue
from tests.support.world import NOON, World

pytestmark = pytest.mark.stages

# Dead letters of the world have 11:00 in their MQDLH.
BEFORE, AFTER, LATER = (NOON + timedelta(minutes=minutes) for minutes in (-90, -30, 0))
RULES = "DESTQ(PAYMENTS) ACTION(RETRY)\nACTION(IGNORE)"
COA_AND_EXPIRATION = 0x100 | 0x200000


@pytest.fixture(name="streamed")
def _streamed(world: World) -> World:
    """Return a world whose dead-letter queue has a stream queue, and was checked at 10:30."""
    world.mqsc("DEFINE QLOCAL(STREAM)\nALTER QLOCAL(DLQ) STREAMQ(STREAM)")
    world.clock.now = BEFORE
    handle(world)
    world.clock.now = AFTER
    return world


def handle(world: World, *, stream: bool = True) -> Run:
    """Run the handler to its end."""
    run = world.start(RULES)
    execution = world.execution(run)
    if snapshot_queue(execution, SnapshotOptions(stream=stream)) is not None:
        world.accept(run)
        make_pass(execution)
        settle(execution)
    return run


def check_of(world: World, run: Run) -> EvidenceCheck:
    (check,) = world.ledger.evidence.of_run(run.run_id)
    return check


def report_of(world: World, run: Run) -> Report:
    return read_report(
        run.run_id, ledger=world.ledger, lake_root=world.lake_root, stages={}, now=world.clock()
    )


def test_a_message_that_came_and_left_between_snapshots_is_reported(streamed: World) -> None:
    streamed.dead_letter(b"taken")
    streamed.lose_first()
    streamed.dead_letter(b"handled")
    streamed.dead_letter(b"left", dest_q="ORDERS")

    run = handle(streamed)

    assert check_of(streamed, run) == EvidenceCheck("stream", "STREAM", BEFORE, AFTER, 3, 1)
    assert (
        "Stream queue STREAM: 1 of 3 messages since 2026-11-21 10:30:00 UTC came and left without a"
        " run of this ledger: another program took them, or they expired"
    ) in " ".join(render_text(report_of(streamed, run)).split())
    assert streamed.depths("STREAM") == (3,)


def test_each_copy_is_checked_once(streamed: World) -> None:
    streamed.dead_letter(b"taken")
    streamed.lose_first()
    handle(streamed)
    streamed.clock.now = LATER

    run = handle(streamed)

    assert check_of(streamed, run) == EvidenceCheck("stream", "STREAM", AFTER, LATER, 0, 0)
    assert evidence_in_words(check_of(streamed, run)) == (
        "Stream queue STREAM: 0 messages since 2026-11-21 11:30:00 UTC, each in a snapshot"
    )


def test_a_message_that_requests_reports_is_recognised(streamed: World) -> None:
    """Its copy lacks the options (IBM MQ docs, "Streaming queues configuration")."""
    asking: dict[str, Any] = {"Report": COA_AND_EXPIRATION, "ReplyToQ": b"ORDERS", "Expiry": 9_000}
    streamed.dead_letter(b"taken", **asking)
    streamed.lose_first()
    streamed.dead_letter(b"handled", **asking)

    check = check_of(streamed, handle(streamed))

    assert (check.examined, check.unseen) == (2, 1)


def test_a_message_of_a_run_without_the_check_is_seen(streamed: World) -> None:
    streamed.dead_letter(b"handled")
    handle(streamed, stream=False)
    streamed.clock.now = LATER

    assert streamed.depths("DLQ") == (0,)
    assert check_of(streamed, handle(streamed)).unseen == 0


def test_copies_of_another_queue_with_the_same_stream_queue_are_left_out(
    streamed: World,
) -> None:
    streamed.mqsc("ALTER QLOCAL(ORDERS) STREAMQ(STREAM)")
    streamed.put("ORDERS", b"an order", PutDate=b"20261121", PutTime=b"11000000")
    streamed.dead_letter(b"handled")

    check = check_of(streamed, handle(streamed))

    assert (streamed.depths("STREAM"), check.examined, check.unseen) == ((2,), 1, 0)


def test_an_unreadable_earlier_snapshot_makes_the_number_the_highest_possible(
    streamed: World,
) -> None:
    streamed.dead_letter(b"left", dest_q="ORDERS")
    earlier = streamed.start(RULES)
    streamed.snapshot(earlier)
    for file in Path(streamed.recorded_snapshot(earlier.run_id).location).rglob("*.parquet"):
        file.write_bytes(b"PAR1 damaged")
    streamed.lose_first()
    streamed.clock.now = LATER
    streamed.dead_letter(b"handled")

    run = handle(streamed)

    check = check_of(streamed, run)
    assert (check.examined, check.unseen, check.is_exact, check.trouble) == (2, 1, False, "")
    assert streamed.outcomes(run) == {1: "delivered"}


def test_more_snapshots_than_are_read_make_the_number_the_highest_possible(
    streamed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MAX_SNAPSHOTS", 1)
    streamed.dead_letter(b"left", dest_q="ORDERS")
    for _ in range(2):
        streamed.snapshot(streamed.start(RULES))
        streamed.clear("DLQ")
        streamed.clock.now += timedelta(minutes=1)

    check = check_of(streamed, handle(streamed))

    assert (check.examined, check.unseen, check.is_exact) == (1, 1, False)


def test_forged_copies_change_nothing_but_the_hint(streamed: World) -> None:
    streamed.dead_letter(b"left", dest_q="ORDERS")
    header = DeadLetterHeader(2053, "X", "QM1", 546, 819, "MQSTR", 6, "m", "20261121", "11000000")
    packed = header.encode(encoding=546, ccsid=819)
    for body in (packed, packed + b"forged", b"\xff" * 500, b""):
        streamed.put("STREAM", body, Format=b"MQDEAD  ", Encoding=546, CodedCharSetId=819)

    run = handle(streamed)

    report = report_of(streamed, run)
    assert check_of(streamed, run).unseen == 2  # the others have no MQDLH
    assert report.account is not None
    assert report.account.adds_up
    assert (report.account.messages, streamed.outcomes(run)) == (1, {1: "left_by_rule"})
    assert report.verdict is Verdict.OK


@pytest.mark.parametrize(
    ("definition", "trouble"),
    [
        ("DELETE QLOCAL(STREAM)", "MQOPEN of queue STREAM failed: MQRC_UNKNOWN_OBJECT_NAME (2085)"),
        ("ALTER QLOCAL(DLQ) STREAMQ(' ')", "the queue has no STREAMQ"),
    ],
)
def test_without_a_stream_queue_the_run_continues_and_says_so(
    streamed: World, definition: str, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    streamed.mqsc(definition)
    streamed.dead_letter(b"handled")
    with caplog.at_level(logging.WARNING):
        run = handle(streamed)

    assert streamed.outcomes(run) == {1: "delivered"}
    assert check_of(streamed, run).trouble.startswith(trouble)
    assert "not checked" in evidence_in_words(check_of(streamed, run))
    assert any("[MQDLQ-13" in line for line in caplog.messages)


def test_a_long_stream_queue_is_not_checked(
    streamed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MAX_COPIES", 1)
    for _ in range(2):
        streamed.dead_letter()

    assert check_of(streamed, handle(streamed)).trouble.startswith("it has more than 1 messages")


def test_more_doubtful_copies_than_are_reconstructed_are_the_highest_number_possible(
    streamed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MAX_RECONSTRUCTED", 0)
    streamed.dead_letter(Report=COA_AND_EXPIRATION, ReplyToQ=b"ORDERS")

    check = check_of(streamed, handle(streamed))

    assert (check.unseen, check.is_exact) == (1, False)
    assert "up to 1 of 1 message" in evidence_in_words(check)
