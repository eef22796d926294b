"""Test that each cause in a snapshot is described: senders, expiry, rules and outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqdlq.causes import find_cause
from mqdlq.errors import LakeError
from mqdlq.lake import remove_snapshot
from mqdlq.ledger.tables import Run, TakenSnapshot
from mqdlq.model import Outcome, QueueKind
from mqdlq.reading.cause_profiles import CauseProfile, SnapshotProfile, profile_causes
from tests.support.world import NOON, World

pytestmark = pytest.mark.stages

RULES = "REASON(MQRC_Q_FULL) ACTION(RETRY)\nDESTQ(ORDERS) ACTION(FWD) FWDQ(PARKED)\n"
FULL = find_cause("dead_letter", 2053, "PAYMENTS", "QM1").cause_id
MISSING = find_cause("dead_letter", 2085, "ORDERS", "QM1").cause_id
UNKNOWN = find_cause("dead_letter", 2085, "ELSEWHERE", "QM1").cause_id
STRAY = find_cause("no_dlh", 0, "", "").cause_id


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    with (world := World(tmp_path)).ledger:
        yield world


def profile_of(world: World, run: Run, taken: TakenSnapshot) -> SnapshotProfile:
    since = world.ledger.later.of_run(run.run_id)
    return profile_causes(run, taken, NOON, ledger=world.ledger, since=since)


def profiles(world: World, run_id: str = "run-1") -> dict[str, CauseProfile]:
    run = world.ledger.runs.get(run_id)
    assert run is not None
    taken = world.recorded_snapshot(run_id)
    return dict(profile_of(world, run, taken).causes)


def fill(world: World) -> None:
    for number in range(3):
        world.dead_letter(bytes([number]), PutApplName=b"billing", UserIdentifier=b"ann")
    world.dead_letter(b"x", dest_q="ORDERS", reason=2085, PutApplName=b"web")
    world.dead_letter(b"y", dest_q="ELSEWHERE", reason=2085)
    world.put("DLQ", b"no header")


def test_the_rule_that_messages_try_first_is_counted(world: World) -> None:
    fill(world)
    world.plan(RULES)

    found = profiles(world)

    assert {cause_id: dict(one.handled_by) for cause_id, one in found.items()} == {
        FULL: {1: 3},
        MISSING: {2: 1},
        UNKNOWN: {0: 1},
        STRAY: {0: 1},
    }
    assert (found[UNKNOWN].handled_by[0], found[FULL].handled_by[0]) == (1, 0)


def test_outcomes_are_counted_by_the_rule_that_decided(world: World) -> None:
    fill(world)
    world.handle(RULES)

    found = profiles(world)

    assert found[FULL].endings == {(1, Outcome.DELIVERED): 3}
    assert found[MISSING].endings == {(2, Outcome.FORWARDED): 1}
    assert found[UNKNOWN].endings == {(0, Outcome.UNMATCHED): 1}


def test_rules_of_a_backout_queue_handle_the_messages_without_an_mqdlh(world: World) -> None:
    world.mqsc("DEFINE QLOCAL(BACKOUT)")
    world.put("BACKOUT", b"x", Format=b"MQSTR   ", PutApplName=b"orders")
    world.put("BACKOUT", b"y", PutApplName=b"quotes")
    world.handle(
        "INPUTQ(BACKOUT)\nFORMAT(MQSTR) ACTION(FWD) FWDQ(PARKED)\n", queue_kind=QueueKind.BACKOUT
    )

    found = profiles(world)[STRAY]

    assert dict(found.handled_by) == {1: 1, 0: 1}
    assert found.endings == {(1, Outcome.FORWARDED): 1, (0, Outcome.UNMATCHED): 1}
    assert (dict(found.tops["Formats"]), set(found.tops["Applications"])) == (
        {"MQSTR": 1, "": 1},
        {"orders", "quotes"},
    )


def test_a_run_without_outcomes_has_none_counted(world: World) -> None:
    fill(world)
    world.plan(RULES)

    assert profiles(world)[FULL].endings == {(0, None): 3}


def test_settled_messages_keep_the_outcome_of_an_earlier_run(world: World) -> None:
    fill(world)
    world.handle(RULES)
    world.dead_letter(b"new", dest_q="ELSEWHERE", reason=2085)
    world.handle(RULES)

    assert profiles(world, "run-2")[UNKNOWN].endings == {(0, Outcome.UNMATCHED): 2}


def test_senders_and_samples_are_those_of_the_messages(world: World) -> None:
    fill(world)
    world.plan(RULES)

    found = profiles(world)[FULL]

    assert found.tops == {
        "Applications": {"billing": 3},
        "Destinations": {"PAYMENTS": 3},
        "Users": {"ann": 3},
        "Formats": {"MQSTR": 3},
    }
    assert [sample.put_appl_name for sample, _ in found.samples] == ["billing"] * 3
    assert len({sample.message_key for sample, _ in found.samples}) == 3


def test_generated_queues_are_one_cause_with_several_destinations(world: World) -> None:
    for number in range(3):
        world.dead_letter(bytes([number]), dest_q=f"AMQ.5F2A6C7E2103{number:04}")
    world.plan(RULES)

    (found,) = profiles(world).values()

    assert (found.messages, len(found.tops["Destinations"])) == (3, 3)


def test_expiry_is_counted_up_to_an_hour_the_morning_and_a_day(world: World) -> None:
    for seconds in (1800, 7200, 20 * 3600, 72 * 3600):
        world.dead_letter(str(seconds).encode(), Expiry=seconds * 10)
    world.dead_letter(b"for good")
    world.plan(RULES)

    found = profiles(world)[FULL]

    # It is noon: the night ends at 6:00, eighteen hours later.
    assert found.expiries == {"hour": 1, "night": 2, "day": 3, "later": 1, "never": 1}


def test_no_more_messages_are_read_than_the_bound(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqdlq.reading.cause_profiles.MOST_MESSAGES", 2)
    fill(world)
    execution = world.plan(RULES)

    found = profile_of(world, execution.run, world.recorded_snapshot("run-1"))

    assert (found.read, found.messages, found.is_partial) == (2, 6, True)


def test_a_pruned_snapshot_is_an_error(world: World) -> None:
    fill(world)
    execution = world.plan(RULES)
    taken = world.recorded_snapshot("run-1")
    remove_snapshot(world.lake_root, taken.location, taken.snapshot_id)

    with pytest.raises(LakeError, match="is not a snapshot"):
        profile_of(world, execution.run, taken)
