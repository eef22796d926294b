"""A lake on an S3-compatible server: writing, listing, pruning and reading."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.headers import MessageDescriptor, header_row
from mqdlq.lake import storage
from mqdlq.lake.schema import PLAN
from tests.support.object_store import new_bucket, object_store
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture(scope="module", name="endpoint")
def _endpoint() -> Iterator[str]:
    with object_store() as address:
        yield address


@pytest.fixture(name="root")
def _root(endpoint: str) -> Iterator[str]:
    with new_bucket(endpoint) as (root, _):
        yield root


def row(browse_seq: int) -> dict[str, object]:
    return header_row(browse_seq, MessageDescriptor().encode(), b"body", 4, browsed_at=NOON)


def take(root: str, snapshot_id: str = "s1", messages: int = 3) -> str:
    with lake.SnapshotWriter(root, "QM1", "A/B%C", snapshot_id) as writer:
        for browse_seq in range(1, messages + 1):
            writer.write(row(browse_seq))
        writer.finish(taken_at=NOON, taken_by="ann", rules_digest="d", rules_text="ACTION(RETRY)")
    return writer.directory


def test_a_snapshot_is_written_found_and_read_back(root: str) -> None:
    directory = take(root)

    assert lake.find_snapshot(root, "s1") == directory
    assert lake.read_manifest(directory).messages == 3
    assert [found["browse_seq"] for found in lake.snapshot_rows(directory)] == [1, 2, 3]
    with pytest.raises(LakeError, match="is a finished snapshot; give the new one another id"):
        take(root)


def test_an_interrupted_snapshot_leaves_no_readable_object(root: str) -> None:
    writer = lake.SnapshotWriter(root, "QM1", "Q", "s1")
    with suppress(KeyError), writer:
        writer.write(row(1))
        writer.write({})

    files, path = storage.filesystem(root)
    assert files.find(path) == []
    with pytest.raises(LakeError, match=r"has no _MANIFEST\.json"):
        lake.read_manifest(writer.directory)


def test_the_manifest_is_the_last_object_to_appear(root: str) -> None:
    with lake.SnapshotWriter(root, "QM1", "Q", "s1") as writer:
        writer.write(row(1))
        assert lake.finished_snapshots(root) == []
        writer.finish(taken_at=NOON, taken_by="ann", rules_digest="d", rules_text="r")

    assert [found.directory for found in lake.finished_snapshots(root)] == [writer.directory]


def test_snapshots_of_other_processes_are_visible_at_once(root: str) -> None:
    assert lake.finished_snapshots(root) == []
    program = "import sys; from tests.unit.lake.test_lake_s3 import take; take(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, root], cwd=ROOT, check=True)

    assert [found.manifest.snapshot_id for found in lake.finished_snapshots(root)] == ["s1"]


def test_removing_a_snapshot_removes_its_plans(root: str) -> None:
    take(root)
    plan = lake.plan_directory(root, "s1-abc")
    lake.start_plan(plan)
    files, path = storage.filesystem(f"{plan}/part-0.parquet")
    with files.open(path, "wb") as file:
        pq.write_table(pa.Table.from_pylist([], schema=PLAN), file)
    lake.finish_plan(plan, lake.PlanDescription("s1-abc", "0", ("s1",), "d", 0, {}))
    assert list(lake.planned_messages(plan)) == []

    (found,) = lake.finished_snapshots(root)
    lake.remove_snapshot(root, found.directory, found.manifest.snapshot_id)

    assert lake.finished_snapshots(root) == []
    assert lake.find_plan(plan) is None


def test_the_location_of_an_object_is_its_uri() -> None:
    assert storage.uri("s3://lake/dlq/x") == "s3://lake/dlq/x"
