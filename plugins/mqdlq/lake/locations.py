"""Locations of snapshots and plans in a lake."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from mqdlq.errors import LakeError

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def snapshot_directory(root: str, queue_manager: str, queue: str, snapshot_id: str) -> str:
    """Return the directory of a snapshot.

    Queue names may contain `/` and `%`. They are percent-encoded, because Spark and Arrow decode
    the values of `name=value` directories. Raises `LakeError` for a blank name or an invalid id.
    """
    return _join(
        root,
        "snapshots",
        f"queue_manager={_segment('queue manager', queue_manager)}",
        f"queue={_segment('queue', queue)}",
        _id("snapshot", snapshot_id),
    )


def snapshot_pattern(snapshot_id: str) -> str:
    """Return the glob pattern, below the root, of a snapshot of any queue."""
    return _join("", "snapshots", "queue_manager=*", "queue=*", _id("snapshot", snapshot_id))


def any_snapshot_pattern() -> str:
    """Return the glob pattern, below the root, of all snapshots."""
    return _join("", "snapshots", "queue_manager=*", "queue=*", "*")


def plans_pattern(snapshot_id: str) -> str:
    """Return the glob pattern, below the root, of a snapshot's plans."""
    return _join("", "plans", f"{_id('snapshot', snapshot_id)}-*")


def plan_directory(root: str, plan_id: str) -> str:
    """Return the directory of a plan; raise `LakeError` for an invalid id."""
    return _join(root, "plans", _id("plan", plan_id))


def plan_id(snapshot_id: str, rules_digest: str) -> str:
    """Return the id of the plan for this snapshot and these rules; it is deterministic."""
    return f"{snapshot_id}-{rules_digest[:12]}"


def _segment(noun: str, name: str) -> str:
    if not name.strip():
        raise LakeError("MQDLQ-426", f"a snapshot needs the name of its {noun}, found {name!r}")
    return quote(name, safe="")


def _id(noun: str, identifier: str) -> str:
    if not _ID.fullmatch(identifier):
        raise LakeError(
            "MQDLQ-427",
            f"{noun} id {identifier!r} cannot name a directory; expected letters, digits, and `.`,"
            " `_`, `-` after the first",
        )
    return identifier


def _join(root: str, *segments: str) -> str:
    return "/".join((root.rstrip("/"), *segments))
