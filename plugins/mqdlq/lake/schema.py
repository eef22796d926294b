"""Arrow schemas of snapshots and plans, derived from the layouts of the headers."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from mqdlq.structures import MQDLH, MQMD, Kind

_TYPES: Final = {Kind.LONG: pa.int32(), Kind.TEXT: pa.string(), Kind.BYTES: pa.binary()}
_UTC: Final = pa.timestamp("us", tz="UTC")

HEADERS: Final = pa.schema(
    [
        pa.field("browse_seq", pa.int64(), nullable=False),
        pa.field("message_key", pa.binary(), nullable=False),
        pa.field("class", pa.string(), nullable=False),
        pa.field("problem", pa.string(), nullable=False),
        *(pa.field(field.name, _TYPES[field.kind]) for field in MQMD.fields),
        *(pa.field(f"dlh_{field.name}", _TYPES[field.kind]) for field in MQDLH.fields),
        pa.field("header_chain", pa.list_(pa.string())),
        pa.field("payload_offset", pa.int32()),
        pa.field("total_length", pa.int32()),
        pa.field("ams_protected", pa.bool_()),
        pa.field("maybe_truncated", pa.bool_()),
        pa.field("expires_at", _UTC),
        pa.field("put_at", _UTC),
        pa.field("dead_lettered_at", _UTC),
        pa.field("browsed_at", _UTC),
        pa.field("chain_is_whole", pa.bool_()),
        pa.field("expires_before_next_pass", pa.bool_()),
        pa.field("came_from_backout", pa.bool_()),
        pa.field("dest_backout_threshold", pa.int32()),
        pa.field("dest_backout_requeue_q", pa.string()),
        pa.field("attempts_made", pa.int32()),
        pa.field("properties_met", pa.list_(pa.string())),
        pa.field("properties_unmet", pa.list_(pa.string())),
    ]
)
"""A row for each message of a snapshot, in browse order; `dlh_` columns are null without MQDLH."""

FILLED_FOR_RULES: Final = frozenset({"attempts_made", "properties_met", "properties_unmet"})
"""Columns that are null unless the rules of the run use them."""

SETTLED: Final = pa.schema(
    [
        pa.field("browse_seq", pa.int64(), nullable=False),
        pa.field("message_key", pa.binary(), nullable=False),
        pa.field("occurrence", pa.int32(), nullable=False),
        pa.field("snapshot_id", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("rule", pa.int32(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("target_q", pa.string(), nullable=False),
        pa.field("target_q_mgr", pa.string(), nullable=False),
        pa.field("expires_at", _UTC),
    ]
)
"""A compact row for each settled message, in browse order; `snapshot_id` has its full row."""

PAYLOAD: Final = pa.schema(
    [
        pa.field("browse_seq", pa.int64(), nullable=False),
        pa.field("message_key", pa.binary(), nullable=False),
        pa.field("payload_length", pa.int64(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)
"""The stored bytes of bodies after the MQDLH, if the handler's `payload` stores any."""

STEP: Final = pa.struct(
    [
        pa.field("rule", pa.int32(), nullable=False),
        pa.field("rule_line", pa.int32(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("target_q", pa.string(), nullable=False),
        pa.field("target_q_mgr", pa.string(), nullable=False),
        pa.field("header", pa.bool_(), nullable=False),
        pa.field("put_authority", pa.string(), nullable=False),
        pa.field("tries", pa.int32(), nullable=False),
    ]
)
PLAN: Final = pa.schema(
    [
        pa.field("browse_seq", pa.int64(), nullable=False),
        pa.field("message_key", pa.binary(), nullable=False),
        pa.field("queue_manager", pa.string(), nullable=False),
        pa.field("queue", pa.string(), nullable=False),
        pa.field("disposition", pa.string(), nullable=False),
        pa.field("steps", pa.list_(STEP), nullable=False),
        pa.field("winning_rule", pa.int32()),
        pa.field("nearest_rule", pa.int32()),
    ]
)
"""A row for each message of a plan, with its steps in order.

The two rules are those of `PlannedMessage`, null without an explanation.
"""
