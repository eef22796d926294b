"""The row of a message in a snapshot as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mqdlq.ledger import KnownSnapshot


def row_as_json(snapshot: KnownSnapshot, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for JSON: bytes as hexadecimal digits, times in ISO 8601, and its place."""
    place = {
        "queue_manager": snapshot.queue_manager,
        "queue": snapshot.queue,
        "snapshot_id": snapshot.snapshot_id,
        "run_id": snapshot.run_id,
    }
    return {**place, **{name: _plain(value) for name, value in row.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, datetime) else value
