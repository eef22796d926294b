"""Test that archive copies go by policy, and never before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sqlalchemy import select

from mqdlq.lake.archive import read_back
from mqdlq.ledger.retention import Hold
from mqdlq.ledger.tables import CopyState, attempt_messages, runs, unit_states
from mqdlq.model import AttemptState, RestorationState
from mqdlq.stages.execute import make_pass, settle
from tests.support.restorations import (
    DISCARD,
    discard,
    prepare_restoration,
    reasons,
    restore_and_count,
)
from tests.support.retention import DAY, change, files, idle_run, kept_words, pass_days, prune_now
from tests.support.world import World

pytestmark = pytest.mark.slow

BODIES = [b"one", b"two", b"three"]


def archived(world: World) -> list[str]:
    return [name for name in files(world.lake_root) if name.startswith("archive/")]


def keys(world: World) -> list[str]:
    return [copy.message_key.hex() for copy in world.ledger.archive.copies()]


def hold(world: World, **on: str) -> Hold:
    return world.ledger.holds.add(**on, reason="case 7", who="legal", at=world.clock.now)


def test_a_copy_goes_when_its_discard_is_older_than_the_policy(world: World) -> None:
    discard(world, *BODIES)
    pass_days(world, 10)

    early = prune_now(world, archive=10)
    assert (early.copies, archived(world)) == (0, archived(world))

    pass_days(world, 1)
    size = sum(files(world.lake_root)[name] for name in archived(world))
    done = prune_now(world, archive=10)

    assert (done.copies, done.stored_bytes, archived(world)) == (3, size, [])
    assert {copy.pruned_by for copy in world.ledger.archive.copies()} == {"keep_archive_for P10D"}


def test_without_a_policy_every_copy_is_kept(world: World) -> None:
    discard(world, *BODIES)
    pass_days(world, 30)
    before = files(world.lake_root)

    done = prune_now(world, runs=10)

    assert files(world.lake_root) == before
    assert kept_words(done.kept_runs)["snapshot"] == 1


def test_a_dry_run_changes_nothing_and_counts_what_would_go(world: World) -> None:
    discard(world, *BODIES)
    pass_days(world, 20)
    before = files(world.lake_root)

    told = prune_now(world, archive=10, is_dry_run=True)

    assert (told.copies, files(world.lake_root)) == (3, before)
    assert world.ledger.prunes.last() is None
    assert prune_now(world, archive=10).stored_bytes == told.stored_bytes


def test_a_pruned_copy_is_refused_with_the_time_and_the_policy(world: World) -> None:
    discard(world, *BODIES)
    pass_days(world, 20)
    run_id = world.ledger.archive.copies()[0].run_id
    prune_now(world, archive=10)

    assert restore_and_count(world, run_id=run_id) == {"refused": 3}
    assert set(reasons(world)) == {
        "its copy was pruned at 2026-12-11 12:00:00 UTC by keep_archive_for P10D of handler test"
    }
    assert world.depths("DLQ") == (0,)


def test_a_hold_on_one_message_keeps_its_copy_only(world: World) -> None:
    discard(world, *BODIES)
    pass_days(world, 20)
    hold(world, message_key=keys(world)[1])

    done = prune_now(world, archive=10)

    assert (done.copies, kept_words(done.kept_copies)) == (2, {"hold": 1})
    run_id = world.ledger.archive.copies()[0].run_id
    assert restore_and_count(world, run_id=run_id) == {"restored": 1, "refused": 2}
    assert world.bodies("DLQ")[0].endswith(b"two")


@pytest.mark.parametrize("on", ["handler", "run_id"])
def test_a_hold_keeps_all_copies_until_it_is_removed(world: World, on: str) -> None:
    run_id = discard(world, *BODIES)
    pass_days(world, 20)
    held = hold(world, **{on: {"handler": "test", "run_id": run_id}[on]})

    assert kept_words(prune_now(world, archive=10).kept_copies) == {"hold": 3}

    world.ledger.holds.release(held.hold_id, reason="closed", who="legal", at=world.clock.now)
    assert prune_now(world, archive=10).copies == 3


def test_the_copies_of_a_run_with_an_open_account_are_never_pruned(world: World) -> None:
    for body in BODIES:
        world.dead_letter(body)
    execution = world.plan(DISCARD)
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    pass_days(world, 20)

    done = prune_now(world, archive=10)

    assert (done.copies, kept_words(done.kept_copies)) == (0, {"unfinished": 3})


def test_a_copy_of_a_message_that_was_not_discarded_stays_in_its_file(world: World) -> None:
    run_id = discard(world, *BODIES)
    copy = world.ledger.archive.copies()[0]
    made = attempt_messages.c
    unit = select(made.unit_no).where(made.message_id == copy.message_id)
    change(world, unit_states, unit_states.c.unit_no.in_(unit), state=AttemptState.FAILED)
    pass_days(world, 20)

    done = prune_now(world, archive=10)

    assert (done.copies, kept_words(done.kept_copies)) == (2, {"provisional": 1})
    assert read_back(copy.location) == {copy.message_id: copy.digest}
    assert run_id == copy.run_id


OPEN = [RestorationState.SELECTED, RestorationState.INTENDED, RestorationState.UNKNOWN]


@pytest.mark.parametrize("state", [*OPEN, RestorationState.BACKED_OUT])
def test_a_restoration_that_has_not_finished_keeps_its_copies(
    world: World, state: RestorationState
) -> None:
    run_id = discard(world, *BODIES)
    work = prepare_restoration(world, run_id=run_id)
    first = world.ledger.archive.copies()[0]
    world.ledger.restorations.add_states(
        work.restoration.restoration_id, [CopyState(*first.key, state, world.clock.now, "u1")]
    )
    pass_days(world, 25)

    done = prune_now(world, archive=10)

    assert (done.copies, kept_words(done.kept_copies)) == (0, {"restoration": 3})


def test_a_failed_restoration_keeps_its_copy_for_the_time_of_the_policy(world: World) -> None:
    run_id = discard(world, b"body")
    pass_days(world, 20)
    assert restore_and_count(world, run_id=run_id, to_queue="CLOSED") == {"not_attempted": 1}

    assert kept_words(prune_now(world, archive=10).kept_copies) == {"restoration": 1}

    pass_days(world, 11)
    assert prune_now(world, archive=10).copies == 1


def test_a_restored_copy_is_pruned_as_any_other(world: World) -> None:
    discard(world, b"body")
    assert restore_and_count(world, to_queue="PARKED") == {"restored": 1}
    pass_days(world, 11)

    assert prune_now(world, archive=10).copies == 1


def test_a_file_that_is_not_in_the_lake_is_not_recorded_as_pruned(world: World) -> None:
    """The lake may be another one: its copies must not be given up."""
    discard(world, *BODIES)
    pass_days(world, 20)
    elsewhere = replace_lake(world)

    done = prune_now(world, archive=10)

    assert (done.copies, kept_words(done.kept_copies)) == (0, {"missing": 3})
    world.lake_root = elsewhere
    assert prune_now(world, archive=10).copies == 3


def replace_lake(world: World) -> str:
    old, world.lake_root = world.lake_root, str(Path(world.lake_root).with_name("other"))
    Path(world.lake_root).mkdir()
    return old


def test_the_copy_of_a_lake_is_pruned_and_the_original_is_left_alone(world: World) -> None:
    discard(world, *BODIES)
    pass_days(world, 20)
    original = replace_lake(world)
    shutil.copytree(original, world.lake_root, dirs_exist_ok=True)
    before = files(original)

    assert prune_now(world, archive=10).copies == 3

    assert archived(world) == []
    assert files(original) == before


def test_a_run_that_is_not_the_handlers_keeps_its_copies(world: World) -> None:
    discard(world, *BODIES)
    change(world, runs, runs.c.handler == "test", handler="other")
    pass_days(world, 20)

    assert prune_now(world, archive=10).copies == 0


def test_the_age_of_a_copy_counts_from_the_proof_of_its_discard(world: World) -> None:
    """A late marker proves it, long after the copy was made."""
    world.dead_letter(b"body")
    execution = world.plan(DISCARD)
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    world.clock.now += 9 * DAY
    idle_run(world)
    make_pass(execution)
    settle(execution)
    pass_days(world, 5)

    assert prune_now(world, archive=10).copies == 0

    pass_days(world, 6)
    assert prune_now(world, archive=10).copies == 1
