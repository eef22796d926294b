"""Messages that come back to a dead-letter queue after a run has moved them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

import embedded_mq
from mqdlq.controls.key_index import KeyIndex
from mqdlq.controls.loops.control import find_returns
from mqdlq.controls.loops.round_trips import find_round_trips, return_in_words
from mqdlq.controls.work import WorkList
from mqdlq.headers import IDENTITY_PREFIX
from mqdlq.ledger.database import Row
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.reading.report.building import read_report
from mqdlq.reading.report.html_report import render_html
from mqdlq.reading.report.text_report import render_text
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.world import DEFINITIONS, NOON, World
from tests.unit.controls.loops.returning import LAG, send_back

pytestmark = pytest.mark.stages

RETRY = "WAIT(NO)\nACTION(RETRY)"
ONCE: dict[str, Any] = {"loops": {"limit": 1}}
FORWARD = "WAIT(NO)\nACTION(FWD) FWDQ(PARKED) HEADER(NO)"
TO_PARKED: dict[str, Any] = {"loops": {"limit": 1, "then": {"forward": "PARKED"}}}
TWICE: dict[str, Any] = {"loops": {"limit": 2}}


def find_departures(world: World) -> list[Row | None]:
    """Browse the queue as a run that recognises messages; return where each was before."""
    with world.connect() as queue_manager, queue_manager.browsing("DLQ") as queue:
        cursor = BrowseCursor(queue_manager, queue, "DLQ", IDENTITY_PREFIX)
        met = list(WorkList(KeyIndex(b""), [].__getitem__).browse(cursor))
    return find_returns(world.ledger, ("QM1", "DLQ"), met)


def whys(world: World) -> list[str]:
    return [fact.why.words for fact in world.ledger.outcomes.of_run(f"run-{world.runs}").values()]


def test_a_message_that_comes_back_as_often_as_the_limit_is_quarantined(world: World) -> None:
    world.dead_letter()

    outcomes: list[str] = []
    reasons: list[str] = []
    for _ in range(3):
        outcomes += world.handle(RETRY, **TWICE).values()
        reasons += whys(world)
        send_back(world)

    assert outcomes == ["delivered", "delivered", "quarantined"]
    assert reasons == [
        "attempt 1",
        "it came back once, 40 s after its delivery",
        "it came back 2 times, 40 s after each delivery (loops: limit 2)",
    ]
    assert list(world.handle(RETRY, **TWICE).values()) == ["quarantined"]
    assert world.depths("DLQ", "PAYMENTS") == (1, 0)


def test_a_report_shows_messages_that_came_back_before_they_are_quarantined(world: World) -> None:
    three: dict[str, Any] = {"loops": {"limit": 3}}
    for number in range(2):
        world.dead_letter(f"{number}".encode())
        world.handle(RETRY, **three)
        send_back(world)
    world.dead_letter(b"new")

    execution = world.plan(RETRY, **three)
    make_pass(execution)
    settle(execution)
    record_causes(execution.run, ledger=world.ledger)
    report = read_report(
        "run-3", ledger=world.ledger, lake_root=world.lake_root, stages={}, now=world.clock()
    )

    lines = [return_in_words(row) for row in report.returns]
    cause = "MQRC_Q_FULL (2053) for PAYMENTS @ QM1: 1 message came back"
    assert lines == [
        f"{cause} 2 times, 40 s after each delivery; quarantined after 3",
        f"{cause} once, 40 s after its delivery; quarantined after 3",
    ]
    assert all(line in " ".join(render_text(report).split()) for line in lines)
    assert all(f"<li>{line}</li>" in render_html(report) for line in lines)


def test_a_message_that_is_forwarded_with_its_header_is_recognised(world: World) -> None:
    world.dead_letter()

    world.handle("WAIT(NO)\nACTION(FWD) FWDQ(PARKED) HEADER(YES)", **ONCE)
    send_back(world, "PARKED")

    assert list(world.handle("WAIT(NO)\nACTION(DISCARD)", **ONCE).values()) == ["quarantined"]
    assert world.depths("DLQ") == (1,)


def test_two_rules_that_forward_to_each_other_are_stopped(world: World) -> None:
    """The destination of each rule is the other's queue, where an application dead-letters it."""
    table = "WAIT(NO)\nDESTQ(PAYMENTS) ACTION(FWD) FWDQ(ORDERS) HEADER(NO)\n"
    table += "DESTQ(ORDERS) ACTION(FWD) FWDQ(PAYMENTS) HEADER(NO)"
    world.dead_letter(dest_q="PAYMENTS")

    outcomes: list[str] = []
    for _ in range(4):
        outcomes += world.handle(table, loops={"limit": 3}).values()
        send_back(world, "PAYMENTS", after=LAG / 2) or send_back(world, "ORDERS", after=LAG / 2)

    assert outcomes == ["forwarded", "forwarded", "forwarded", "quarantined"]


def test_two_handlers_that_forward_to_each_other_are_stopped(world: World) -> None:
    """The application of each target dead-letters messages to the queue of the other handler."""
    world.mqsc("DEFINE QLOCAL(DLQ2)")
    world.dead_letter()

    outcomes: list[str] = []
    for turn in range(4):
        queue, other = ("DLQ", "DLQ2") if turn % 2 == 0 else ("DLQ2", "DLQ")
        rules = f"INPUTQ({queue}) {FORWARD}"
        outcomes += world.handle(rules, loops={"limit": 3}).values()
        send_back(world, "PARKED", dlq=other)

    assert outcomes == ["forwarded", "forwarded", "forwarded", "quarantined"]


def test_a_cycle_over_two_queue_managers_with_one_ledger_is_stopped(world: World) -> None:
    embedded_mq.create_defined("QM2", DEFINITIONS, world.directory / "queue_managers")
    there = ConnectionSettings("QM2", transport="embedded", client=world.client)
    other = World(
        world.directory, world.client, ledger_url=world.ledger_url, given=there, clock=world.clock
    )
    world.dead_letter()

    outcomes: list[str] = []
    for turn in range(4):
        here, next_one = (world, other) if turn % 2 == 0 else (other, world)
        outcomes += here.handle(FORWARD, run_id=f"run-{turn}", loops={"limit": 3}).values()
        send_back(here, "PARKED", to=next_one)
    other.ledger.close()

    assert outcomes == ["forwarded", "forwarded", "forwarded", "quarantined"]
    whys = [fact.why.words for fact in world.ledger.outcomes.of_run("run-3").values()]
    assert whys == ["it came back 3 times, 40 s after each delivery (loops: limit 3)"]


def test_a_quarantined_message_is_forwarded_to_the_quarantine_queue(world: World) -> None:
    world.dead_letter()
    world.handle(RETRY, **TO_PARKED)
    send_back(world)

    assert list(world.handle("WAIT(NO)\nACTION(DISCARD)", **TO_PARKED).values()) == ["forwarded"]
    assert world.depths("DLQ", "PARKED") == (0, 1)
    ((_, body),) = world.messages("PARKED")
    assert body.startswith(b"DLH ")
    (fact,) = world.ledger.outcomes.of_run("run-2").values()
    assert (fact.rule, fact.action, fact.target_q) == (0, "FWD", "PARKED")
    assert fact.why.words == "it came back once, 40 s after its delivery (loops: limit 1)"
    assert not world.ledger.archive.locations("run-2")
    report = read_report(
        "run-2", ledger=world.ledger, lake_root=world.lake_root, stages={}, now=world.clock()
    )
    (line,) = (return_in_words(row) for row in report.returns)
    assert line.partition(": ")[2] == (
        "1 message came back once, 40 s after its delivery; quarantined, on queue PARKED: find out"
        " why the destination returns it, then move it from there"
    )


def test_a_message_that_cannot_be_forwarded_to_the_quarantine_queue_stays(world: World) -> None:
    closed: dict[str, Any] = {"loops": {"limit": 1, "then": {"forward": "CLOSED"}}}
    world.dead_letter()
    world.handle(RETRY, **closed)
    send_back(world)

    assert list(world.handle(RETRY, **closed).values()) == ["quarantined"]
    (tried,) = world.ledger.attempts.of_run("run-2")
    assert (tried.target_q, tried.mqrc) == ("CLOSED", 2051)
    assert world.depths("DLQ", "PAYMENTS") == (1, 0)


def test_a_message_stays_if_the_quarantine_queue_is_the_queue_it_is_on(world: World) -> None:
    itself: dict[str, Any] = {"loops": {"limit": 1, "then": {"forward": "DLQ"}}}
    world.dead_letter()
    world.handle(RETRY, **itself)
    send_back(world)

    assert list(world.handle(RETRY, **itself).values()) == ["quarantined"]
    (why,) = whys(world)
    assert why.endswith("(loops: limit 1; it stays, because DLQ is a queue of this very handler)")


def test_a_failed_forward_to_the_quarantine_queue_does_not_use_up_the_retry_of_a_rule(
    world: World,
) -> None:
    closed: dict[str, Any] = {"loops": {"limit": 1, "then": {"forward": "CLOSED"}}}
    carried: dict[str, Any] = {"count_attempts": "across_runs"}
    world.dead_letter()
    world.handle(RETRY, **carried, **closed)
    send_back(world)
    assert list(world.handle(RETRY, **carried, **closed).values()) == ["quarantined"]

    assert list(world.handle(RETRY, **carried).values()) == ["delivered"]


def test_a_destination_that_returns_all_messages_gets_each_as_often_as_the_limit(
    world: World,
) -> None:
    for number in range(20):
        world.dead_letter(MsgId=f"{number}".encode().ljust(24))

    runs = []
    for _ in range(4):
        runs.append(Counter(world.handle(RETRY, loops={"limit": 3}).values()))
        send_back(world)
    text = render_text(
        read_report(
            "run-4", ledger=world.ledger, lake_root=world.lake_root, stages={}, now=world.clock()
        )
    )

    assert runs == [Counter(delivered=20)] * 3 + [Counter(quarantined=20)]
    assert world.depths("DLQ", "PAYMENTS") == (20, 0)
    assert "The account adds up." in text
    assert "it came back 3 times, 40 s after each delivery (loops: limit 3)" in text
    assert "find out why its destination returns it" in text


def test_a_dry_run_says_which_messages_would_be_quarantined(world: World) -> None:
    world.dead_letter()
    world.handle(RETRY, **ONCE)
    send_back(world)

    assert list(world.handle(RETRY, dry_run=True, **ONCE).values()) == ["not_attempted"]
    (why,) = whys(world)
    returned = "it came back once, 40 s after its delivery (loops: limit 1)"
    assert why == f"dry run; it would also stay because {returned}"


def test_a_person_moves_a_quarantined_message_by_name(world: World) -> None:
    world.dead_letter()
    world.handle(RETRY, **ONCE)
    send_back(world)
    world.handle(RETRY, **ONCE)
    key = world.ledger.messages.of_run("run-2")[0].message_key.hex()

    moved = world.handle(RETRY, message_keys=(key,), action="ACTION(RETRY)", **ONCE)
    send_back(world)

    assert list(moved.values()) == ["delivered"]
    assert list(world.handle(RETRY, **ONCE).values()) == ["quarantined"]
    assert whys(world) == ["it came back 2 times, 40 s after each delivery (loops: limit 1)"]


def test_messages_with_reused_identifiers_are_not_recognised(world: World) -> None:
    """Each application puts a message, and later another one with the same identifiers."""
    fixed = b"fixed".ljust(24)
    in_a_group = {"MsgId": fixed, "GroupId": b"G" * 24, "MsgFlags": 8}
    first_and_next: list[tuple[tuple[bytes, dict[str, Any]], tuple[bytes, dict[str, Any]]]] = [
        ((b"same", {"MsgId": fixed}), (b"same", {"MsgId": fixed, "PutTime": b"10203041"})),
        ((b"one", {"MsgId": fixed}), (b"two", {"MsgId": fixed})),
        ((b"data", {"MsgId": fixed}), (b"data longer", {"MsgId": fixed})),
        ((b"none", {"MsgId": b"a" * 24}), (b"none", {"MsgId": b"b" * 24})),
        (
            (b"part", {"MsgSeqNumber": 1, **in_a_group}),
            (b"part", {"MsgSeqNumber": 2, **in_a_group}),
        ),
        ((b"none", {"PutDate": b"", "PutTime": b""}), (b"none", {"PutDate": b"", "PutTime": b""})),
    ]
    for (body, fields), _ in first_and_next:
        world.dead_letter(body, **fields)
    world.handle(RETRY, **ONCE)
    for _, (body, fields) in first_and_next:
        world.dead_letter(body, **fields)

    assert find_departures(world) == [None] * 6
    assert set(world.handle(RETRY, **ONCE).values()) == {"delivered"}


def test_equal_messages_that_were_on_the_queue_together_are_never_quarantined(
    world: World,
) -> None:
    for _ in range(2):
        world.dead_letter(MsgId=b"fixed".ljust(24))
    for _ in range(3):
        assert list(world.handle(RETRY, **ONCE).values()) == ["delivered", "delivered"]
        send_back(world)

    assert find_departures(world) == [None, None]


def test_an_arrival_is_found_with_the_departure_it_came_back_from(world: World) -> None:
    world.dead_letter(b"first")
    execution = world.plan(RETRY, **TWICE)
    make_pass(execution)
    send_back(world)
    world.dead_letter(b"new", MsgId=b"new".ljust(24))

    departure, none = find_departures(world)

    assert none is None
    assert departure is not None
    (listed,) = world.ledger.messages.of_run("run-1")
    assert (departure.message_id, departure.run_id) == (listed.message_id, "run-1")
    assert (departure.queue_manager, departure.queue) == ("QM1", "DLQ")
    assert departure.at == NOON
    assert len(departure.cause_id) == 12


def test_the_delays_of_round_trips_are_known_to_the_second(world: World) -> None:
    world.dead_letter()
    for seconds in (40, 90, 3600):
        world.handle(RETRY, loops={"limit": 9})
        send_back(world, after=timedelta(seconds=seconds))
    world.handle(RETRY, loops={"limit": 9})

    (listed,) = world.ledger.messages.of_run("run-4")
    (trips,) = find_round_trips(world.ledger, [listed.message_id]).values()

    assert trips.reason.words == "came back 3 times, typically 1 min 30 s after a delivery"
    assert [delay.total_seconds() for delay in trips.delays] == [40, 90, 3600]


def test_a_pruned_run_takes_the_identities_of_its_messages_with_it(world: World) -> None:
    world.dead_letter()
    world.handle(RETRY, **ONCE)
    send_back(world)

    world.ledger.prunes.erase("run-1")

    assert world.ledger.identities.of_run("run-1") == {}
    assert find_departures(world) == [None]


def test_a_handler_without_loops_stores_no_identities(world: World) -> None:
    world.dead_letter()

    world.handle(RETRY)

    assert world.ledger.identities.of_run("run-1") == {}
