"""All snapshots of a lake, and how one is removed: a root in, manifests with their places out."""

from __future__ import annotations

from dataclasses import dataclass

from mqdlq.lake import storage
from mqdlq.lake.descriptions import SnapshotManifest
from mqdlq.lake.locations import any_snapshot_pattern, plans_pattern
from mqdlq.lake.snapshots import MANIFEST, read_manifest


@dataclass(frozen=True, slots=True)
class Found:
    """A finished snapshot and where it stands."""

    manifest: SnapshotManifest
    directory: str

    @property
    def queue(self) -> tuple[str, str]:
        """Which queue it is of: queue manager and queue."""
        return self.manifest.queue_manager, self.manifest.queue


def finished_snapshots(root: str) -> list[Found]:
    """Return the finished snapshots of a lake, by queue, the newest of each first.

    Raises `LakeError` for a manifest that is none.
    """
    places = storage.matching(root, f"{any_snapshot_pattern()}/{MANIFEST}")
    directories = [place.removesuffix(f"/{MANIFEST}") for place in places]
    found = [Found(read_manifest(directory), directory) for directory in directories]
    found.sort(key=lambda one: one.manifest.snapshot_id, reverse=True)
    found.sort(key=lambda one: one.manifest.taken_at, reverse=True)
    return sorted(found, key=lambda one: one.queue)


def remove_snapshot(root: str, found: Found) -> None:
    """Remove a snapshot and the plans made of it; from the first step on it does not exist."""
    storage.remove_directory(found.directory, MANIFEST)
    for plan in storage.matching(root, plans_pattern(found.manifest.snapshot_id)):
        storage.remove_directory(plan, "_PLAN.json")
