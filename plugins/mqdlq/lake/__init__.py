"""The lake: snapshots, plans and archive as Parquet in an fsspec location, written atomically."""

from mqdlq.lake.plans import (
    count_planned,
    find_plan,
    finish_plan,
    finished_plans,
    keep_attempts,
    planned_messages,
    read_columns,
    read_plan,
    start_plan,
)
from mqdlq.lake.schema import PlanDescription, SnapshotManifest, StepCount
from mqdlq.lake.snapshots import (
    Snapshot,
    SnapshotWriter,
    count_keys,
    count_settled,
    expiring_keys,
    find_snapshot,
    finished_snapshots,
    full_rows_of_settled,
    newest_rows,
    payload_row,
    payload_rows,
    read_manifest,
    remove_snapshot,
    settled_places,
    settled_rows,
    snapshot_batches,
    snapshot_rows,
    snapshot_stands,
    whole_rows,
)
from mqdlq.lake.storage import (
    plan_directory,
    plan_id,
    read_text,
    snapshot_directory,
    uri,
    write_text,
)
