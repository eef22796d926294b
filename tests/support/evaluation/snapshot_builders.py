"""Builders of message rows and of snapshots that hold them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq import lake
from mqdlq.headers import DeadLetterHeader, MessageDescriptor, header_row
from mqdlq.lake import SnapshotManifest, SnapshotWriter
from mqdlq.lake.schema import HEADERS, SETTLED
from mqdlq.lake.snapshots import MANIFEST
from mqdlq.lake.storage import make_directory, new_file, write_text
from mqdlq.model import QueueKind
from mqdlq.rules import RulesTable, freeze, parse

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
    body = DeadLetterHeader(put_date="20261121", put_time="11000000", **dlh).encode(
        encoding=546,
        ccsid=1208,
    )
    descriptor = MessageDescriptor(
        **{"format": "MQDEAD", "coded_char_set_id": 1208, "msg_id": browse_seq.to_bytes(24), **md}
    )
    return header_row(browse_seq, descriptor.encode(), body, len(body), browsed_at=NOON)


def no_dead_letter(browse_seq: int) -> dict[str, Any]:
    """Return the row of a message without MQDLH."""
    return header_row(browse_seq, MessageDescriptor().encode(), b"hello", 5, browsed_at=NOON)


def take_snapshot(
    root: str,
    rows: Iterable[dict[str, Any]],
    rules: str,
    *,
    queue: str = "DLQ",
    nul_as_blank: bool = False,
    queue_kind: QueueKind = QueueKind.DEAD_LETTER,
) -> str:
    """Write a snapshot of these rows with its rules; return its directory."""
    with SnapshotWriter(root, "QM1", queue, "s1") as writer:
        for row in rows:
            writer.write(row)
        writer.finish(
            taken_at=NOON,
            taken_by="test",
            rules_digest=parse(rules, queue_kind=queue_kind).digest,
            rules_text=rules,
            nul_as_blank=nul_as_blank,
            queue_kind=queue_kind,
        )
    return writer.directory


def write_rows(
    root: str,
    rows: list[dict[str, Any]],
    table: RulesTable,
    *,
    snapshot_id: str = "s1",
    queue: str = "DLQ",
    nul_as_blank: bool = False,
    rows_to_a_group: int = 256,
    taken_at: datetime = NOON,
    **manifest_fields: Any,
) -> str:
    """Write a snapshot of rows that may be incomplete; return its directory."""
    directory = lake.snapshot_directory(root, "QM1", queue, snapshot_id)
    make_directory(f"{directory}/headers")
    nullable = pa.schema([field.with_nullable(True) for field in HEADERS])
    with new_file(f"{directory}/headers/part-00000.parquet") as file:
        table_of_rows = pa.Table.from_pylist(rows, schema=nullable)
        pq.write_table(table_of_rows, file, row_group_size=rows_to_a_group)
    manifest = SnapshotManifest(
        snapshot_id=snapshot_id,
        queue_manager="QM1",
        queue=queue,
        taken_at=taken_at,
        taken_by="test",
        messages=len(rows),
        bytes=0,
        digest="",
        rules_digest=table.digest,
        rules_text=freeze(table),
        nul_as_blank=nul_as_blank,
        **manifest_fields,
    )
    write_text(f"{directory}/{MANIFEST}", manifest.to_json())
    return directory


def write_compact(
    root: str,
    full: list[dict[str, Any]],
    settled: list[tuple[int, dict[str, Any], str]],
    table: RulesTable,
    *,
    snapshot_id: str,
    queue: str = "DLQ",
    taken_at: datetime = NOON,
) -> str:
    """Write a snapshot whose settled messages have compact rows; return its directory.

    Each settled message is given by its browse number here, its full row, and the id of the
    snapshot with the full row.
    """
    compact = [
        {
            "browse_seq": browse_seq, "message_key": row["message_key"],
            "occurrence": sum(before[1] is row for before in settled[:place]),
            "snapshot_id": held_by, "outcome": "left_by_rule", "rule": 1, "action": "IGNORE",
            "target_q": "", "target_q_mgr": "", "expires_at": None,
        }
        for place, (browse_seq, row, held_by) in enumerate(settled)
    ]  # fmt: skip
    keys = {row["browse_seq"]: row["message_key"] for row in [*full, *compact]}
    with SnapshotWriter(root, "QM1", queue, snapshot_id) as writer:
        for _, key in sorted(keys.items()):
            writer.count(key, 1)
        writer.write_batch(pa.RecordBatch.from_pylist(full, schema=HEADERS))
        writer.write_settled(pa.RecordBatch.from_pylist(compact, schema=SETTLED))
        writer.finish(
            taken_at=taken_at,
            taken_by="test",
            rules_digest=table.digest,
            rules_text=freeze(table),
        )
    return writer.directory
