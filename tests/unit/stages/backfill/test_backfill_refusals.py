"""Test that a backfill rejects an impossible action, and rules that snapshots cannot answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq import directories
from mqdlq.errors import HandlerError
from mqdlq.lake import snapshot_rows
from mqdlq.stages.backfill import check_comparisons, merge_window
from mqdlq.stages.execute import settle
from mqdlq.stages.sense import BackfillWindow, find_snapshots_in_window
from tests.support.world import NOON, World

pytestmark = pytest.mark.stages

DAY = BackfillWindow(NOON, NOON + timedelta(days=1))
RULES = "WAIT(NO)\nACTION(IGNORE)\n"


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    with world.ledger:
        yield world


@pytest.mark.parametrize("apply", [False, True])
@pytest.mark.parametrize(
    ("action", "named"),
    [("ACTION(RETRY)", "ACTION(RETRY)"), ("ACTION(FWD) FWDQ(&DESTQ)", "FWDQ(&DESTQ)")],
)
def test_a_backfill_refuses_actions_that_need_an_mqdlh_for_a_message_without_one(
    world: World, *, apply: bool, action: str, named: str
) -> None:
    world.put("DLQ", b"no dead letter")
    first = world.plan(RULES)
    settle(first)
    (row,) = snapshot_rows(world.recorded_snapshot(first.run.run_id).location)
    key = row["message_key"].hex()
    assert directories.lake() == world.lake_root
    run = world.start(RULES, dry_run=not apply, message_keys=(key,), action=action)
    why = (
        f"{named} is refused for 1 of 1 named messages, which have no valid MQDLH:"
        f" {key[:12]}…; forward such messages to a queue given by its name, discard or"
        " ignore them [MQDLQ-121]"
    )

    with pytest.raises(HandlerError) as refused:
        merge_window(world.execution(run), DAY, apply=apply)

    assert str(refused.value) == why


def test_a_backfill_does_not_act_by_rules_that_its_snapshots_cannot_answer(world: World) -> None:
    world.dead_letter()
    settle(world.plan("ACTION(IGNORE)"))
    rules = (
        "table:\n  rules:\n    - extensions: {attempts: '>= 2', property: 'a = B'}\n"
        "      action: IGNORE\n    - action: IGNORE\n"
    )
    what = (
        "the rules compare attempts and property usr.a = B, which not all snapshots of the window"
        " have"
    )

    looking = world.execution(world.start(rules, dry_run=True))
    manifest = merge_window(looking, DAY, apply=False)
    with pytest.raises(HandlerError) as refused:
        merge_window(world.execution(world.start(rules)), DAY, apply=True)

    assert manifest is not None
    assert manifest.messages == 1
    taken = find_snapshots_in_window(looking.run, DAY, world.ledger)
    assert list(check_comparisons(looking.run, taken, apply=False)) == [
        f"{what}: rules with these comparisons do not match their messages"
    ]
    why = f"{what}; start a run that takes a new snapshot [MQDLQ-445]"
    assert str(refused.value) == why
