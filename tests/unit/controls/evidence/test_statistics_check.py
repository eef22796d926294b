"""The check of a queue by statistics messages, which are made here as IBM documents them.

The embedded queue manager makes none. IBM MQ docs, "Queue statistics message data".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_mq.pcf import messages as pcf
from mqdlq.controls.evidence import checks
from mqdlq.controls.evidence.report import evidence_in_words
from mqdlq.controls.work import Planned
from mqdlq.ledger.tables import EvidenceCheck, Run
from mqdlq.mqi.evidence import MAX_GETS, read_statistics
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.execute.dead_letters import DeadLetterSource
from mqdlq.stages.snapshot.capture import SnapshotOptions
from mqdlq.stages.snapshot.taking import snapshot_queue
from tests.support.world import NOON, World

pytestmark = pytest.mark.stages

SOURCE = "SYSTEM.ADMIN.STATISTICS.QUEUE"
BEFORE = NOON - timedelta(hours=2)


def statistics(
    *queues: tuple[str, int, int], first: bytes = b"2026-11-21", last: bytes = b"2026-11-21"
) -> bytes:
    """Return a message about queues with gets of nonpersistent and of persistent messages."""
    header = pcf.Header(type=21, command=165, version=3)
    times = {2711: first, 2712: b"12.30.00", 2707: last, 2708: b"13.00.00"}
    groups = (
        pcf.Parameter(
            20, 8011, (pcf.string(2016, name.encode().ljust(48)), pcf.integers(722, gets))
        )
        for name, *gets in queues
    )
    return pcf.write(header, [*(pcf.string(name, at) for name, at in times.items()), *groups])


def handle(world: World) -> Run:
    run = world.start("ACTION(RETRY)")
    execution = world.execution(run)
    if snapshot_queue(execution, SnapshotOptions(statistics=SOURCE)) is not None:
        world.accept(run)
        make_pass(execution)
        settle(execution)
    return run


def check_of(world: World, run: Run) -> EvidenceCheck:
    (check,) = world.ledger.evidence.of_run(run.run_id)
    return check


@pytest.fixture(name="counted")
def _counted(world: World) -> World:
    """Return a world with a statistics queue, whose run at 10:00 got two messages."""
    world.mqsc(f"DEFINE QLOCAL({SOURCE})")
    world.clock.now = BEFORE
    for _ in range(2):
        world.dead_letter()
    handle(world)
    world.clock.now = NOON
    return world


def put(world: World, body: bytes, time: bytes = b"10000100") -> None:
    """Put a statistics message whose interval ended at `time` (by default at 10:00:01)."""
    world.put(SOURCE, body, Format=b"MQADMIN ", PutDate=b"20261121", PutTime=time)


def test_gets_of_other_programs_are_reported(counted: World) -> None:
    put(counted, statistics(("ORDERS", 9, 9), ("DLQ", 1, 4)))
    put(counted, statistics(("DLQ", 70, 70)), b"09000000")  # before the last check

    check = check_of(counted, handle(counted))

    assert check == EvidenceCheck("statistics", SOURCE, BEFORE, NOON, 5, 3)
    assert evidence_in_words(check) == (
        f"Statistics queue {SOURCE}: 5 gets since 2026-11-21 10:00:00 UTC, 3 more than runs of this"
        " ledger made: another program got messages, or gets were backed out"
    )
    assert counted.depths(SOURCE) == (2,)


def test_own_gets_make_no_hint_and_forged_statistics_change_no_outcome(counted: World) -> None:
    put(counted, statistics(("DLQ", 0, 2)))
    put(counted, statistics(("DLQ", 0, 2))[:-4])
    put(counted, b"\xff" * 100)
    counted.dead_letter()

    run = handle(counted)

    assert (check_of(counted, run).examined, check_of(counted, run).unseen) == (2, 0)
    assert counted.outcomes(run) == {1: "delivered"}


def test_gets_whose_puts_failed_are_own_gets(
    counted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gets = 0
    get = DeadLetterSource.get

    def count_gets(source: DeadLetterSource, planned: Planned) -> Iterator[Callable[[], None]]:
        nonlocal gets
        for put_one in get(source, planned):
            gets += 1
            yield put_one

    monkeypatch.setattr(DeadLetterSource, "get", count_gets)
    counted.mqsc("DEFINE QLOCAL(FULL) MAXDEPTH(1)")
    for queue in ("PAYMENTS", "PAYMENTS", "FULL", "FULL"):
        counted.dead_letter(dest_q=queue)
    run = handle(counted)
    assert counted.outcomes(run) == {
        1: "delivered",
        2: "delivered",
        3: "delivered",
        4: "exhausted",
    }
    assert gets == 4

    put(counted, statistics(("DLQ", 0, gets)), b"12000100")
    counted.clock.now = NOON + timedelta(hours=1)
    check = check_of(counted, handle(counted))

    assert (check.examined, check.unseen) == (gets, 0)


def test_impossible_statistics_are_ignored(counted: World) -> None:
    put(counted, statistics(("DLQ", 0, 2)))
    put(counted, statistics(("DLQ", 1, 1), first=b"0001-01-01", last=b"9999-12-31"))
    put(counted, statistics(("DLQ", MAX_GETS, 1)))
    put(counted, statistics(("DLQ", -1, 0)))
    counted.dead_letter()

    run = handle(counted)

    check = check_of(counted, run)
    assert (check.examined, check.unseen, check.trouble) == (2, 0, "")
    assert counted.outcomes(run) == {1: "delivered"}


def test_more_gets_than_are_possible_in_all_messages_are_trouble(counted: World) -> None:
    for _ in range(2):
        put(counted, statistics(("DLQ", 0, MAX_GETS)))

    check = check_of(counted, handle(counted))

    assert check.trouble == "its messages have an impossible number of gets"


def test_an_unexpected_exception_is_the_trouble_of_the_check(
    counted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("with data")

    monkeypatch.setattr(checks, "browse_statistics", fail)
    counted.dead_letter()

    run = handle(counted)

    assert check_of(counted, run).trouble == "unexpected RuntimeError"
    assert counted.outcomes(run) == {1: "delivered"}


def test_a_long_statistics_queue_is_not_checked(
    counted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MAX_STATISTICS", 1)
    put(counted, statistics(("ORDERS", 0, 1)))
    put(counted, statistics(("DLQ", 0, 500)))

    trouble = check_of(counted, handle(counted)).trouble

    assert trouble == "it has more than 1 messages; remove old ones from it"


@pytest.mark.parametrize(("minutes", "unseen"), [(-37, 0), (9, 0), (11, 2)])
def test_own_gets_count_within_ten_minutes_of_an_interval(
    world: World, minutes: int, unseen: int
) -> None:
    """The run gets two messages at this time from the end of the interval, by its own clock."""
    world.mqsc(f"DEFINE QLOCAL({SOURCE})")
    world.clock.now = BEFORE - timedelta(hours=1)
    handle(world)
    world.clock.now = BEFORE + timedelta(minutes=minutes)
    for _ in range(2):
        world.dead_letter()
    world.handle("ACTION(RETRY)")
    put(world, statistics(("DLQ", 0, 2)), b"10000000")
    world.clock.now = NOON

    check = check_of(world, handle(world))

    assert (check.examined, check.unseen) == (2, unseen)


def test_without_the_statistics_queue_the_run_continues(world: World) -> None:
    world.dead_letter()
    run = handle(world)

    assert world.outcomes(run) == {1: "delivered"}
    assert check_of(world, run).trouble.startswith(f"MQOPEN of queue {SOURCE} failed: ")
    assert "not checked" in evidence_in_words(check_of(world, run))


@given(st.binary(max_size=200), st.integers(0, 400))
def test_other_bytes_are_ignored(noise: bytes, at: int) -> None:
    whole = statistics(("DLQ", 1, 4))
    assert read_statistics(whole, "DLQ") is not None
    assert read_statistics(whole, "OTHER") is None
    read_statistics(noise, "DLQ")
    read_statistics(whole[:at] + noise, "DLQ")
