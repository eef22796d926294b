"""List the snapshots of a lake, and remove one."""

from __future__ import annotations

from mqdlq.lake import storage
from mqdlq.lake.locations import any_snapshot_pattern, plans_pattern
from mqdlq.lake.snapshots import MANIFEST, Snapshot


def finished_snapshots(root: str) -> list[Snapshot]:
    """Return the finished snapshots of a lake by queue, the newest first.

    Raises `LakeError` for an invalid manifest.
    """
    places = storage.matching(root, f"{any_snapshot_pattern()}/{MANIFEST}")
    found = [Snapshot.at(place.removesuffix(f"/{MANIFEST}")) for place in places]
    found.sort(key=lambda one: one.manifest.snapshot_id, reverse=True)
    found.sort(key=lambda one: one.manifest.taken_at, reverse=True)
    return sorted(found, key=lambda one: one.queue)


def remove_snapshot(root: str, found: Snapshot) -> None:
    """Remove a snapshot and its plans; after the first step the snapshot no longer exists."""
    remove_snapshot_files(root, found.directory, found.manifest.snapshot_id)


def remove_snapshot_files(root: str, directory: str, snapshot_id: str) -> None:
    """Remove the files of a snapshot and its plans, also those of an interrupted removal."""
    storage.remove_directory(directory, MANIFEST)
    for plan in storage.matching(root, plans_pattern(snapshot_id)):
        storage.remove_directory(plan, "_PLAN.json")
