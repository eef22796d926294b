"""Test that an older copy of the ledger is recognised, and that nothing is put twice after it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import embedded_mq
from mqdlq.errors import OlderLedgerError
from mqdlq.lake.works import RecordedWork, newest_work, record_work
from mqdlq.ledger import open_ledger
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind, WorkNumber
from mqdlq.stages.execute import attempts, make_pass, settle
from mqdlq.stages.older_ledger import describe_older_ledger, require_newest_ledger
from tests.support.older_ledgers import (
    MOVES,
    RESTORATION_STAGES,
    RUN_STAGES,
    copy_ledger,
    play_restoration,
    play_run,
    put_back,
    refusal,
    take_on_ledger,
)
from tests.support.restorations import copy_states, discard, reasons, restore_and_count
from tests.support.retention import forget_snapshots, pass_days, policy, prune_now, pruner
from tests.support.world import NOON, World

pytestmark = pytest.mark.stages

FORWARD = "WAIT(NO)\nACTION(FWD) FWDQ(PARKED) HEADER(NO)"
ENDS = {"discard": "discarded", "forward (FWD)": "forwarded", "quarantine": "forwarded"}
LOST = "before the run", "after its start"
"""Copies in which the run, or its snapshot, is missing."""


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    with world.ledger:
        yield world
        world.ledger.close()
    embedded_mq.faults.set("")


@pytest.mark.slow
@pytest.mark.parametrize("stage", RUN_STAGES)
@pytest.mark.parametrize("move", MOVES)
def test_no_message_moves_twice_and_none_is_taken_whatever_copy_of_the_ledger_is_restored(
    world: World, move: str, stage: str
) -> None:
    told = play_run(world, MOVES[move], stage)

    is_older = stage not in {"after its pass", "after its end"}
    assert told.refused == ("MQDLQ-278" if is_older else "")
    assert told.after == told.before
    if stage not in LOST:
        assert {outcome for outcome, _ in told.outcomes} == {ENDS.get(move, "delivered")}
        assert any(is_explained for _, is_explained in told.outcomes) == is_older
    else:
        assert told.outcomes == Counter()


@pytest.mark.slow
@pytest.mark.parametrize("stage", RESTORATION_STAGES)
def test_no_copy_is_put_twice_unless_a_person_asks_for_it_again(world: World, stage: str) -> None:
    told = play_restoration(world, stage)

    assert told.refused == ("" if stage == "after the end" else "MQDLQ-278")
    assert told.puts == 7
    if stage != "before the discard":
        assert told.another == {"refused": 7}
        assert told.again == {"restored": 7}


def test_the_refusal_says_what_is_missing_and_how_to_take_the_ledger_on(world: World) -> None:
    discard(world, b"1", b"2")
    copy = copy_ledger(world)
    restore_and_count(world, to_queue="PARKED")
    world.clock.sleep(60)
    discard(world, b"3")
    put_back(world, copy)

    with pytest.raises(OlderLedgerError) as refused:
        require_newest_ledger(world.ledger, world.lake_root)

    assert str(refused.value) == (
        f"the lake {world.lake_root} has work that the ledger {world.ledger} does not know: run-2,"
        " which began at 2026-11-21 12:01:00 UTC. The ledger was restored from an older copy, or"
        " is another one: its last work began at 2026-11-21 12:00:00 UTC. It misses: 2 passes and"
        " restorations; 1 archive copy of run run-2 (they stay in"
        f" {world.lake_root}/archive/run-2/20261121T120100000000Z.parquet, and `mqdlq restore`"
        " cannot put them); what restoration restoration-1 of 2 messages to PARKED put. Nothing is"
        " moved until you put the newer ledger back, or take this one on: `mqdlq ledger take-on"
        " --why REASON` [MQDLQ-278]"
    )


def test_a_taken_on_ledger_names_the_lost_restoration_and_its_copies_need_again(
    world: World,
) -> None:
    discard(world, b"1", b"2")
    copy = copy_ledger(world)
    restore_and_count(world, to_queue="PARKED")
    put_back(world, copy)
    take_on_ledger(world)

    assert restore_and_count(world, "restoration-2", to_queue="PARKED") == {"refused": 2}

    assert set(reasons(world, "restoration-2")) == {
        (
            "restoration restoration-1 may have put it to PARKED: look there for its MsgId; if it"
            " is not there, again puts it"
        )
    }
    assert world.depths("PARKED") == (2,)
    assert {one.why.words for one in copy_states(world) if one.why} == {
        (
            "recorded on 2026-11-21 12:00:01 UTC from the lake, after an older copy of the ledger"
            " was restored"
        )
    }


def test_copies_need_again_if_ledger_and_lake_are_restored_together(world: World) -> None:
    """The trace of the restoration is gone with the lake: only the epoch can tell."""
    discard(world, b"1", b"2")
    copy = copy_ledger(world)
    shutil.copytree(world.lake_root, world.directory / "lake-copy")
    restore_and_count(world, to_queue="PARKED")
    put_back(world, copy)
    shutil.rmtree(world.lake_root)
    shutil.copytree(world.directory / "lake-copy", world.lake_root)
    take_on_ledger(world)

    assert restore_and_count(world, "restoration-2", to_queue="PARKED") == {"refused": 2}

    assert set(reasons(world, "restoration-2")) == {
        (
            "the ledger was restored from an older copy and taken on at 2026-11-21 12:00:01 UTC: a"
            " restoration that it lost may have put the message, so look for its MsgId; if it was"
            " not put, another restoration with again puts it"
        )
    }
    assert restore_and_count(world, "restoration-3", to_queue="PARKED", again=True) == {
        "restored": 2
    }


def test_copies_made_after_the_ledger_was_taken_on_need_no_again(world: World) -> None:
    discard(world, b"1")
    take_on_ledger(world)
    discard(world, b"2")

    assert restore_and_count(world, to_queue="PARKED") == {"restored": 1}


def test_the_state_queue_tells_if_ledger_and_lake_are_restored_together(world: World) -> None:
    world.dead_letter()
    execution = world.plan(FORWARD)
    copy = copy_ledger(world)
    shutil.copytree(world.lake_root, world.directory / "lake-copy")
    make_pass(execution)
    put_back(world, copy)
    shutil.rmtree(world.lake_root)
    shutil.copytree(world.directory / "lake-copy", world.lake_root)
    execution = world.execution(execution.run)

    with pytest.raises(OlderLedgerError) as refused:
        make_pass(execution)

    assert str(refused.value).startswith(
        "the state queue MQDLQ.STATE of queue manager QM1 has the marker of a unit of work of run-1"
        f" that the ledger {world.ledger} does not know. The ledger was restored from an older"
        " copy, or is another one: it has begun no work. It misses: nothing that the lake shows."
        " Nothing is moved until"
    )
    assert refused.value.error_id == "MQDLQ-626"
    take_on_ledger(world)
    make_pass(execution)
    settle(execution)
    assert world.outcomes(execution.run) == {1: "forwarded"}


def test_a_copy_made_within_a_pass_is_recognised_by_the_state_queue(world: World) -> None:
    """Pass and copy have the same number, and only the marker shows the units after the copy."""
    for _ in range(3):
        world.dead_letter()
    execution = world.plan(FORWARD)
    copies: list[Path] = []
    world.interrupted_pass(execution, "MQCMIT:2:2009:after")
    copies.append(copy_ledger(world))
    shutil.copytree(world.lake_root, world.directory / "lake-copy")
    make_pass(execution)
    put_back(world, copies[0])
    shutil.rmtree(world.lake_root)
    shutil.copytree(world.directory / "lake-copy", world.lake_root)
    execution = world.execution(execution.run)
    world.dead_letter()

    # The interrupted unit is of a known number; its marker was there when the copy was made.
    make_pass(execution)
    settle(execution)

    assert set(world.outcomes(execution.run).values()) == {"forwarded"}


def test_a_message_that_no_marker_proves_is_unknown_and_not_taken(world: World) -> None:
    world.dead_letter(Expiry=10)
    execution = world.plan(FORWARD)
    copy = copy_ledger(world)
    make_pass(execution)
    settle(execution)
    world.dead_letter()
    world.handle(FORWARD)  # its marker replaces that of the first run
    put_back(world, copy)
    world.clock.sleep(3600)  # it would also have expired since
    take_on_ledger(world)
    execution = world.execution(execution.run)

    make_pass(execution)
    settle(execution)

    (fact,) = world.ledger.outcomes.of_run(execution.run.run_id).values()
    assert (str(fact.outcome), fact.why.words) == (
        "unknown",
        (
            "it is not on the queue, and the ledger was restored from an older copy since this run"
            " began: this handler may have moved it before, so look for its MsgId on its target and"
            " in the archive"
        ),
    )


def test_a_message_that_another_program_takes_after_the_ledger_was_taken_on_is_taken(
    world: World,
) -> None:
    take_on_ledger(world)
    world.dead_letter()
    execution = world.plan(FORWARD)
    world.lose_first()

    make_pass(execution)
    settle(execution)

    assert world.outcomes(execution.run) == {1: "taken"}


def test_discarded_messages_can_be_restored_after_their_archive_copies_are_taken_on(
    world: World,
) -> None:
    world.dead_letter(b"1")
    world.dead_letter(b"2")
    execution = world.plan("ACTION(DISCARD)")
    copy = copy_ledger(world)
    make_pass(execution)
    put_back(world, copy)
    missing = take_on_ledger(world)
    execution = world.execution(execution.run)
    make_pass(execution)
    settle(execution)

    assert "2 archive copies of run run-1 (2 of them can be taken on)" in missing.in_words
    assert restore_and_count(world, to_queue="PARKED", again=True) == {"restored": 2}
    assert [body[-1:] for body in world.bodies("PARKED")] == [b"1", b"2"]


def test_a_crash_between_ledger_and_lake_alarms_nobody_and_hides_nothing(world: World) -> None:
    discard(world, b"1")
    copy = copy_ledger(world)
    world.ledger.epochs.next_number(NOON)  # and the process ends before it writes to the lake

    assert describe_older_ledger(world.ledger, world.lake_root) == ""
    discard(world, b"2")
    put_back(world, copy)
    assert refusal(lambda: require_newest_ledger(world.ledger, world.lake_root)) == "MQDLQ-278"


def test_a_new_ledger_over_an_old_lake_acts_after_it_was_taken_on(world: World) -> None:
    new = copy_ledger(world)
    discard(world, b"1")
    put_back(world, new)
    world.dead_letter()

    assert refusal(lambda: world.handle(FORWARD)) == "MQDLQ-278"
    take_on_ledger(world)
    assert world.handle(FORWARD, run_id="later") == {1: "forwarded"}


def test_of_two_ledgers_with_one_lake_one_is_refused(tmp_path: Path, world: World) -> None:
    discard(world, b"1")
    other = open_ledger(f"sqlite:///{tmp_path}/other.db")

    assert refusal(lambda: require_newest_ledger(other, world.lake_root)) == "MQDLQ-278"
    require_newest_ledger(world.ledger, world.lake_root)

    ours, world.ledger = world.ledger, other
    take_on_ledger(world)
    assert refusal(lambda: require_newest_ledger(ours, world.lake_root)) == "MQDLQ-278"
    ours.close()


def test_two_copies_of_a_ledger_that_both_count_on_recognise_each_other(world: World) -> None:
    discard(world, b"1")
    copy = copy_ledger(world)
    put_back(world, copy)
    take_on_ledger(world)
    newest = world.ledger.epochs.newest()
    assert newest is not None

    assert not world.ledger.epochs.knows(WorkNumber(newest.epoch, 0, "of another copy"))
    assert world.ledger.epochs.knows(newest.last)
    assert not world.ledger.epochs.knows(replace(newest.last, number=newest.number + 1))
    assert world.ledger.epochs.knows(replace(newest.last, epoch=newest.epoch - 1, name="before"))


def test_one_ledger_counts_for_several_lakes_and_queue_managers(
    tmp_path: Path, world: World
) -> None:
    """A second lake, or a state queue that rested for long, has lower numbers than the ledger."""
    discard(world, b"1")
    first = world.lake_root
    world.lake_root = str(tmp_path / "second")
    discard(world, b"2")

    require_newest_ledger(world.ledger, first)
    world.lake_root = first
    assert discard(world, b"3") == "run-3"


def test_the_marker_of_a_pruned_run_does_not_make_the_ledger_older(world: World) -> None:
    """It rests on its state queue as long as no run moves a message there."""
    world.mqsc("DEFINE QLOCAL(OTHER.STATE) DEFPSIST(YES)")
    world.dead_letter()
    world.handle(FORWARD)
    pass_days(world, 20)
    world.dead_letter()
    world.handle(FORWARD, state_queue="OTHER.STATE")
    world.dead_letter()
    world.handle("WAIT(NO)\nACTION(IGNORE)")
    forget_snapshots(world)
    prune_now(world, runs=10)
    assert world.ledger.runs.get("run-1") is None
    assert world.depths("MQDLQ.STATE") == (1,)
    world.dead_letter()

    assert set(world.handle(FORWARD).values()) == {"forwarded"}


def test_an_older_ledger_is_not_pruned(world: World) -> None:
    """A legal hold may be among what it misses."""
    copy = copy_ledger(world)
    discard(world, b"1")
    put_back(world, copy)

    assert refusal(lambda: pruner(world).prune([policy(archive=10)])) == "MQDLQ-278"


def test_a_dry_run_writes_no_number(world: World) -> None:
    world.dead_letter()
    world.handle(FORWARD, dry_run=True)

    assert newest_work(world.lake_root) is None
    assert world.ledger.epochs.newest() is None


def test_the_highest_number_stays_if_a_lower_one_is_written_later(tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    works = [RecordedWork(WorkNumber(1, number, "a"), f"run-{number}", NOON) for number in (1, 3)]
    record_work(root, works[1])
    record_work(root, works[0])

    assert newest_work(root) == works[1]

    later = RecordedWork(WorkNumber(2, 1, "b"), "run-4", NOON)
    record_work(root, later)
    assert [path.name for path in Path(root, "ledger").iterdir()] == ["000002-0000000001-b.json"]
    assert newest_work(root) == later


def test_the_audit_has_who_took_a_ledger_on_and_why(world: World) -> None:
    copy = copy_ledger(world)
    discard(world, b"1")
    put_back(world, copy)
    take_on_ledger(world)

    (event,) = world.ledger.audit_trail.page(AuditFilter(what=AuditKind.LEDGER_TAKEN_ON))

    assert (event.who, event.why) == ("alex", "disk lost")
    assert event.details.startswith("1 pass or restoration; 1 archive copy of run run-1")


def test_a_marker_proves_the_moves_of_all_passes_of_its_run(world: World) -> None:
    world.dead_letter(b"now")
    world.dead_letter(b"later", dest_q="CLOSED")
    execution = world.plan("WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(2)")
    copy = copy_ledger(world)
    result = make_pass(execution)
    assert result.next_pass_at is not None
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")
    world.clock.now = result.next_pass_at
    make_pass(execution)
    settle(execution)
    put_back(world, copy)
    take_on_ledger(world)
    execution = world.execution(execution.run)

    make_pass(execution)
    settle(execution)

    assert world.outcomes(execution.run) == {1: "delivered", 2: "delivered"}
    assert {one.attempt_no for one in world.ledger.attempts.of_run("run-1")} == {1, 2}


def test_a_marker_has_room_for_the_latest_moves_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every second message, each has its own row; what has no room is unknown."""
    monkeypatch.setattr(attempts, "MOST_ROWS", 20)
    for number in range(60):
        world.dead_letter(dest_q="PAYMENTS" if number % 2 else "ORDERS")
    execution = world.plan("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)")
    copy = copy_ledger(world)
    make_pass(execution)
    put_back(world, copy)
    take_on_ledger(world)
    execution = world.execution(execution.run)

    make_pass(execution)
    settle(execution)

    booked = Counter(world.outcomes(execution.run).values())
    assert booked == {"unmatched": 30, "delivered": 20, "unknown": 10}
    assert world.depths("DLQ", "PAYMENTS") == (30, 30)
