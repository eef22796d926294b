"""Spark evaluates and counts a lake in an object store without Hadoop's part."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.evaluation.evaluate import evaluate
from mqdlq.evaluation.history import write_history
from mqdlq.evaluation.messages import Bounds, Strategy
from mqdlq.lake import PlanDescription, storage
from mqdlq.lake.files import read_batches
from mqdlq.reading.outcome_files import OUTCOMES
from mqdlq.rules import parse
from tests.support.evaluation.snapshot_builders import NOON, dead_letter, write_compact, write_rows
from tests.support.object_store import new_bucket, object_store

pytestmark = pytest.mark.spark

TABLE = parse("DESTQ(GONE) ACTION(IGNORE)\nDESTQ(PAY) ACTION(RETRY)\n")
GONE = [dead_letter(number, dlh_dest_q_name="GONE") for number in (1, 2, 3)]


@pytest.fixture(name="store", scope="module")
def _store() -> Iterator[str]:
    with object_store() as address:
        yield address


@pytest.fixture(name="root")
def _root(spark: Any, store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return a bucket that Spark's workers find as the driver does."""
    with new_bucket(store) as (root, variables):
        for name, value in variables.items():
            monkeypatch.setitem(spark.sparkContext.environment, name, value)
        yield root


def snapshots(root: str) -> list[str]:
    """Write a full snapshot and a later one in which a message of it is settled."""
    first = write_rows(root, GONE, TABLE, queue="A/B%C+", snapshot_id="s1")
    pay = dead_letter(6, dlh_dest_q_name="PAY")
    later = NOON + timedelta(hours=1)
    left = [(1, GONE[1], "s1")]
    second = write_compact(
        root, [pay], left, TABLE, snapshot_id="s2", queue="A/B%C+", taken_at=later
    )
    return [first, second]


def plan_of(root: str, *directories: str, strategy: Strategy | None = None) -> PlanDescription:
    plan = lake.plan_directory(root, f"p{len(directories)}-{strategy}".replace(" ", "-"))
    return evaluate(*directories, plan=plan, bounds=Bounds(strategy=strategy))


@pytest.mark.parametrize("messages", [3, 4], ids=["one snapshot", "two snapshots"])
def test_every_strategy_makes_the_plan_of_snapshots_on_a_disk(
    root: str, tmp_path: Path, messages: int
) -> None:
    stored, local = (snapshots(place)[: messages - 2] for place in (root, f"{tmp_path}"))
    here = plan_of(f"{tmp_path}", *local)

    for strategy in Strategy:
        there = plan_of(root, *stored, strategy=strategy)
        assert there.plan_hash == here.plan_hash
        assert there.dispositions == here.dispositions
        assert sum(there.dispositions.values()) == messages


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


def test_the_history_of_a_lake_is_that_of_the_same_lake_on_a_disk(
    root: str, tmp_path: Path
) -> None:
    stored, local = (history_of(place) for place in (root, f"{tmp_path}"))

    assert stored == local
    causes, arrivals, rules = stored
    assert {one["dest_q_name"]: (one["messages"], one["resolved"]) for one in causes} == {
        "GONE": (3, 1),
        "PAY": (1, 0),
    }
    assert [one["messages"] for one in arrivals] == [4]
    assert [(one["rule"], one["met"], one["succeeded"]) for one in rules] == [(1, 3, 1), (2, 0, 0)]


def history_of(root: str) -> list[list[dict[str, Any]]]:
    """Write the history of two snapshots, a plan and an outcome; return its tables."""
    plan_of(root, *snapshots(root)[:1])
    outcome = {
        "run_id": "r", "queue_manager": "QM1", "queue": "A/B%C+", "residence": 0,
        "message_key": GONE[0]["message_key"], "rules_digest": TABLE.digest,
        "dry_run": False, "rule": 1, "action": "IGNORE", "outcome": "delivered", "at": NOON,
    }  # fmt: skip
    history = f"{root}/history"
    storage.make_directory(history)
    with storage.new_file(f"{history}/outcomes.parquet") as file:
        pq.write_table(pa.Table.from_pylist([outcome], schema=OUTCOMES), file)
    write_history(root, history)
    files = (f"{history}/{name}/part-00000.parquet" for name in ("causes", "arrivals", "rules"))
    return [
        [row for rows in read_batches({file: None}) for row in rows.to_pylist()] for file in files
    ]
