"""Spark evaluates snapshots in an object store, which its workers read without Hadoop's part."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.evaluation.evaluate import evaluate
from mqdlq.evaluation.messages import Bounds, Strategy
from mqdlq.lake import PlanDescription, storage
from mqdlq.rules import parse
from tests.support.evaluation.snapshot_builders import NOON, dead_letter, write_compact, write_rows
from tests.support.object_store import new_bucket, object_store

pytestmark = pytest.mark.spark

TABLE = parse("DESTQ(GONE) ACTION(IGNORE)\nDESTQ(PAY) ACTION(RETRY)\n")


@pytest.fixture(name="root")
def _root(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return a bucket that Spark's workers find as the driver does."""
    with object_store() as address, new_bucket(address) as (root, variables):
        for name, value in variables.items():
            monkeypatch.setitem(spark.sparkContext.environment, name, value)
        yield root


def snapshots(root: str) -> list[str]:
    """Write a full snapshot and a later one in which a message of it is settled."""
    gone = [dead_letter(number, dlh_dest_q_name="GONE") for number in (1, 2, 3)]
    first = write_rows(root, gone, TABLE, queue="A/B%C+", snapshot_id="s1")
    pay = dead_letter(6, dlh_dest_q_name="PAY")
    later = NOON + timedelta(hours=1)
    left = [(1, gone[1], "s1")]
    second = write_compact(
        root, [pay], left, TABLE, snapshot_id="s2", queue="A/B%C+", taken_at=later
    )
    return [first, second]


def plan_of(root: str, *directories: str, strategy: Strategy | None = None) -> PlanDescription:
    plan = lake.plan_directory(root, f"p{len(directories)}")
    return evaluate(*directories, plan=plan, bounds=Bounds(strategy=strategy))


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_plan_is_the_same_as_of_snapshots_on_a_disk(
    root: str, tmp_path: Path, strategy: Strategy
) -> None:
    stored, local = snapshots(root), snapshots(f"{tmp_path}")

    for some in (stored[:1], stored):
        here = plan_of(f"{tmp_path}", *local[: len(some)], strategy=strategy)
        there = plan_of(root, *some, strategy=strategy)
        assert there.plan_hash == here.plan_hash
        assert there.dispositions == here.dispositions
        assert sum(there.dispositions.values()) == (4 if some is stored else 3)


@pytest.mark.parametrize("part", ["headers", "settled"])
def test_an_altered_object_is_not_evaluated(root: str, part: str) -> None:
    stored = snapshots(root)
    files, path = storage.filesystem(f"{stored[-1]}/{part}")
    (altered,) = files.find(path)
    content = bytearray(files.cat_file(altered))
    content[len(content) // 2] ^= 1
    files.pipe_file(altered, bytes(content))

    from pyspark.errors import PythonException  # noqa: PLC0415 (banned at the module level)

    # The driver reads compact rows itself in some strategies; a worker's error comes by Spark.
    with pytest.raises((LakeError, PythonException), match="was altered or damaged"):
        plan_of(root, *stored)
