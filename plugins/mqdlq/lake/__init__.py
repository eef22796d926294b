"""The lake: snapshots, plans and archive as Parquet in an fsspec location, written atomically."""

from __future__ import annotations

from mqdlq.lake.descriptions import PlanDescription, SnapshotCounts, SnapshotManifest, StepCount
from mqdlq.lake.full_rows import full_rows_of_settled, newest_rows, whole_rows
from mqdlq.lake.plans import (
    count_planned,
    find_plan,
    finish_plan,
    finished_plans,
    keep_attempts,
    planned_messages,
    read_plan,
    start_plan,
    unfinished_messages,
)
from mqdlq.lake.snapshots import (
    Snapshot,
    SnapshotWriter,
    count_keys,
    expiring_keys,
    find_snapshot,
    payload_row,
    payload_rows,
    read_manifest,
    settled_places,
    settled_rows,
    snapshot_rows,
    snapshot_stands,
)
from mqdlq.lake.storage import (
    plan_directory,
    plan_id,
    read_text,
    snapshot_directory,
    uri,
    write_text,
)
from mqdlq.lake.works import finished_snapshots, remove_snapshot

__all__ = [
    "PlanDescription",
    "Snapshot",
    "SnapshotCounts",
    "SnapshotManifest",
    "SnapshotWriter",
    "StepCount",
    "count_keys",
    "count_planned",
    "expiring_keys",
    "find_plan",
    "find_snapshot",
    "finish_plan",
    "finished_plans",
    "finished_snapshots",
    "full_rows_of_settled",
    "keep_attempts",
    "newest_rows",
    "payload_row",
    "payload_rows",
    "plan_directory",
    "plan_id",
    "planned_messages",
    "read_manifest",
    "read_plan",
    "read_text",
    "remove_snapshot",
    "settled_places",
    "settled_rows",
    "snapshot_directory",
    "snapshot_rows",
    "snapshot_stands",
    "start_plan",
    "unfinished_messages",
    "uri",
    "whole_rows",
    "write_text",
]
