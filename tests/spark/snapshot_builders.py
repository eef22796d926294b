"""Builders: messages by the fields that matter, and snapshots of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from mqdlq.headers import (
    DeadLetterHeader,
    MessageDescriptor,
    encode_dlh,
    encode_md,
    header_row,
)
from mqdlq.lake import SnapshotWriter
from mqdlq.rules import parse

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
_MD_FIELDS = {field.name for field in fields(MessageDescriptor)}


def dead_letter(browse_seq: int, **columns: Any) -> dict[str, Any]:
    """Return the row of a dead letter; columns are named as the snapshot's."""
    md = {name: value for name, value in columns.items() if name in _MD_FIELDS}
    dlh = {
        name.removeprefix("dlh_"): value
        for name, value in columns.items()
        if name.startswith("dlh_")
    }
    body = encode_dlh(
        DeadLetterHeader(put_date="20261121", put_time="11000000", **dlh),
        encoding=546,
        ccsid=1208,
    )
    descriptor = MessageDescriptor(
        **{"format": "MQDEAD", "coded_char_set_id": 1208, "msg_id": browse_seq.to_bytes(24), **md}
    )
    return header_row(browse_seq, encode_md(descriptor), body, len(body), browsed_at=NOON)


def no_dead_letter(browse_seq: int) -> dict[str, Any]:
    """Return the row of a message without MQDLH."""
    return header_row(browse_seq, encode_md(MessageDescriptor()), b"hello", 5, browsed_at=NOON)


def take_snapshot(
    root: str,
    rows: Iterable[dict[str, Any]],
    rules: str,
    *,
    queue: str = "DLQ",
    nul_as_blank: bool = False,
) -> str:
    """Publish a snapshot of these rows with its rules; return its directory."""
    with SnapshotWriter(root, "QM1", queue, "s1") as writer:
        for row in rows:
            writer.write(row)
        writer.publish(
            taken_at=NOON,
            taken_by="test",
            rules_digest=parse(rules).digest,
            rules_text=rules,
            nul_as_blank=nul_as_blank,
        )
    return writer.directory
