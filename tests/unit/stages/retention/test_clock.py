"""Test that nothing is pruned while the clock contradicts the ledger."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mqdlq.errors import LedgerError
from tests.support.retention import DAY, idle_run, pass_days, prune_now
from tests.support.world import World

pytestmark = pytest.mark.slow


def test_a_clock_behind_the_newest_record_prunes_nothing(world: World) -> None:
    pass_days(world, 30)
    world.clock.now -= timedelta(hours=1)

    with pytest.raises(LedgerError) as raised:
        prune_now(world, runs=10)

    assert str(raised.value) == (
        "the newest record of the ledger is of 2026-12-21 12:00:00 UTC, and the clock says"
        " 2026-12-21 11:00:00 UTC: nothing is pruned; correct the clock, or confirm it with mqdlq"
        " prune --trust-clock [MQDLQ-253]"
    )
    assert world.ledger.prunes.last() is None


def test_clocks_of_two_computers_may_differ_by_seconds(world: World) -> None:
    pass_days(world, 30)
    world.clock.now -= timedelta(seconds=20)

    assert len(prune_now(world, runs=10).run_ids) == 1


def test_a_clock_that_jumped_ahead_prunes_nothing(world: World) -> None:
    pass_days(world, 30)
    world.clock.now += 400 * DAY
    idle_run(world)  # the handler runs on the same clock

    with pytest.raises(LedgerError) as raised:
        prune_now(world, runs=10)

    assert str(raised.value) == (
        "the ledger has no record between 2026-12-21 12:00:00 UTC and 2028-01-25 12:00:00 UTC, as"
        " if the clock had jumped: nothing is pruned; confirm the clock with mqdlq prune"
        " --trust-clock [MQDLQ-254]"
    )


def test_a_confirmed_clock_is_remembered(world: World) -> None:
    """A run was recorded while the clock was ahead; it stays in the ledger."""
    pass_days(world, 30)
    world.clock.now += 3000 * DAY
    idle_run(world)
    world.clock.now -= 3000 * DAY

    with pytest.raises(LedgerError, match="MQDLQ-253"):
        prune_now(world, runs=10)
    confirmed = prune_now(world, runs=10, trust_clock=True)

    assert len(confirmed.run_ids) == 1
    world.clock.now += DAY
    assert prune_now(world, runs=10).run_ids == ["run-2"]


def test_a_long_pause_without_runs_is_confirmed_once(world: World) -> None:
    pass_days(world, 20)
    world.clock.now += 60 * DAY

    with pytest.raises(LedgerError, match="MQDLQ-254"):
        prune_now(world, runs=10, is_dry_run=True)
    prune_now(world, runs=10, trust_clock=True)

    world.clock.now += DAY
    assert prune_now(world, runs=10).run_ids == []
