"""Test that a file of the lake that changed between the stages never moves a wrong message."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdlq.errors import LakeError
from mqdlq.lake import plan_directory
from mqdlq.lake.files import DigestedFile
from mqdlq.lake.snapshots import MANIFEST
from mqdlq.ledger.tables import Run
from mqdlq.model import Outcome
from mqdlq.reasons import Why
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.stages

RULES = "DESTQ(PAYMENTS) ACTION(DISCARD)\nDESTQ(ORDERS) ACTION(FWD) FWDQ(PARKED) HEADER(NO)\n"
BY_AGE = """\
table:
  rules:
    - match: {DESTQ: PAYMENTS}
      extensions: {age: ">= 0s"}
      action: DISCARD
    - match: {DESTQ: ORDERS}
      action: FWD
      fwdq: PARKED
"""
REMEDY = (
    "put the file back from a backup of the lake, or start a new run, which takes a new snapshot"
)


def rewrite(file: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    table = pq.read_table(file)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)


def swap_keys(rows: list[dict[str, Any]]) -> None:
    """Give each of two messages the row of the other one."""
    first, second = rows
    first["message_key"], second["message_key"] = second["message_key"], first["message_key"]


def snapshot_with_swapped_keys(world: World) -> tuple[Run, Path]:
    world.dead_letter(b"pay", dest_q="PAYMENTS")
    world.dead_letter(b"order", dest_q="ORDERS")
    run = world.start(RULES)
    world.snapshot(run)
    directory = Path(world.recorded_snapshot(run.run_id).location)
    rewrite(directory / "headers" / "part-00000.parquet", swap_keys)
    return run, directory


def digest_again(directory: Path) -> None:
    """Make the manifest fit the altered file."""
    manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    for name in manifest["files"]:
        file = DigestedFile(io.BytesIO())
        file.write((directory / name).read_bytes())
        digest = file.digest
        manifest["files"][name] = {"length": digest.length, "blocks": digest.blocks}
    (directory / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def test_a_snapshot_that_was_replaced_is_not_evaluated(world: World) -> None:
    run, directory = snapshot_with_swapped_keys(world)
    file = directory / "headers" / "part-00000.parquet"

    with pytest.raises(LakeError) as refused:
        world.evaluate(run)

    assert str(refused.value).startswith(f"{file} was altered or damaged: it")
    assert str(refused.value).endswith(f"; {REMEDY} [MQDLQ-470]")


def test_no_message_moves_by_the_rule_of_another_if_its_manifest_was_replaced_too(
    world: World,
) -> None:
    run, directory = snapshot_with_swapped_keys(world)
    digest_again(directory)
    world.dead_letter(b"late", dest_q="ORDERS")
    world.accept(run)
    execution = world.execution(run)

    assert make_pass(execution).attempts == 0

    settle(execution)
    booked = [one.outcome for one in world.ledger.messages.listed(run.run_id)]
    assert [(one.outcome, one.why) for one in booked if one] == [
        (Outcome.NOT_ATTEMPTED, Why.PLAN_ALTERED()),
        (Outcome.NOT_ATTEMPTED, Why.PLAN_ALTERED()),
    ]
    assert world.depths("DLQ", "PARKED") == (3, 0)
    assert world.handle(RULES) == {
        1: Outcome.DISCARDED,
        2: Outcome.FORWARDED,
        3: Outcome.FORWARDED,
    }
    assert world.bodies("PARKED") == [b"order", b"late"]


@pytest.mark.parametrize("rules", [RULES, BY_AGE])
def test_an_untouched_snapshot_is_acted_on(world: World, rules: str) -> None:
    world.dead_letter(b"pay", dest_q="PAYMENTS")
    world.dead_letter(b"order", dest_q="ORDERS")

    assert world.handle(rules) == {1: Outcome.DISCARDED, 2: Outcome.FORWARDED}


def test_a_truncated_snapshot_is_one_error_with_its_name_and_the_remedy(world: World) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    location = world.recorded_snapshot(execution.run.run_id).location
    file = Path(location, "headers", "part-00000.parquet")
    length = file.stat().st_size
    file.write_bytes(file.read_bytes()[:100])

    with pytest.raises(LakeError) as refused:
        make_pass(execution)

    assert str(refused.value) == (
        f"{file} was altered or damaged: it has 100 bytes instead of {length}; {REMEDY} [MQDLQ-470]"
    )
    assert world.depths("DLQ", "PAYMENTS") == (1, 0)


def test_a_truncated_plan_is_one_error_with_its_name_and_the_remedy(world: World) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    plan = world.ledger.plans.of_run(execution.run.run_id)
    assert plan is not None
    file = Path(plan_directory(world.lake_root, plan.plan_id), "part-0.parquet")
    file.write_bytes(file.read_bytes()[:-50])

    with pytest.raises(LakeError) as refused:
        make_pass(execution)

    assert str(refused.value) == (
        f"{file} cannot be read: Parquet magic bytes not found in footer. Either the file is"
        " corrupted or this is not a parquet file.; start a new run, which makes a new plan"
        " [MQDLQ-471]"
    )
