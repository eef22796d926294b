"""Test that a snapshot has the attempts of earlier runs, if its rules compare them."""

from __future__ import annotations

import pytest

from mqdlq import lake
from tests.support.world import World

FORWARD_AFTER_FOUR = """\
table:
  control: {retryint: 60, wait: no}
  rules:
    - extensions: {attempts: '>= 4'}
      action: FWD
      fwdq: PARKED
    - match: {DESTQ: CLOSED}
      action: RETRY
      retry: 2
"""


def attempts_made(world: World, rules: str) -> list[int | None]:
    run = world.start(rules)
    world.snapshot(run)
    rows = lake.snapshot_rows(world.recorded_snapshot(run.run_id).location, ["attempts_made"])
    return [row["attempts_made"] for row in rows]


@pytest.mark.slow
def test_a_rule_matches_after_the_attempts_of_several_runs(world: World) -> None:
    for _ in range(2):
        world.dead_letter(b"twin", dest_q="CLOSED", MsgId=b"t" * 24)
    assert world.handle(FORWARD_AFTER_FOUR) == {1: "exhausted", 2: "exhausted"}
    world.dead_letter(b"new", dest_q="CLOSED")

    assert attempts_made(world, "ACTION(IGNORE)") == [None] * 3
    assert attempts_made(world, FORWARD_AFTER_FOUR) == [2, 2, 0]
    assert world.handle(FORWARD_AFTER_FOUR) == dict.fromkeys((1, 2, 3), "exhausted")
    assert world.handle(FORWARD_AFTER_FOUR) == {1: "forwarded", 2: "forwarded", 3: "exhausted"}
