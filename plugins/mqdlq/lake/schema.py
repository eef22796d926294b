"""The stored form of snapshots and plans: the schemas of their rows, and their descriptions.

The columns of a message follow from the layouts of the headers. A description is written as JSON
and validated when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from mqdlq.errors import LakeError
from mqdlq.model import Disposition, QueueKind, RuleAction
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

FILLED_LATER: Final = (
    *("expires_before_next_pass", "came_from_backout"),
    *("dest_backout_threshold", "dest_backout_requeue_q"),
    *("attempts_made", "properties_met", "properties_unmet"),
)
"""Columns that are null when a row is built; the last three stay null unless rules use them."""

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


# Descriptions of finished snapshots and plans.

SCHEMA_VERSION: Final = 1
"""The version of snapshots and plans; a newer one is refused."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file's length in bytes, and the SHA-256 (hex) of each of its blocks, in order."""

    length: int
    blocks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """A snapshot's manifest.

    `messages` and `bytes` count messages and the bytes of their bodies, including settled messages.
    `digest` is the SHA-256 over their keys in browse order. `rules_text` is the run's table, and
    `nul_as_blank` whether its patterns compare NULs as blanks. `settled` is the number of compact
    rows, whose full rows are in the snapshots `refers_to`. `payload` is the stored part of bodies
    ("none", "head: N", "full"), and `payload_key_id` its encryption key, or "". `imported_from` has
    the imported files, if no queue was browsed, and `put_together_from` the snapshots that a
    backfill merged. The run's plan covers the messages in `message_keys` (hex), or all if it is
    empty. With `has_given_action` the rules are one action, given for these messages.
    `queue_kind` says which messages the rules act on. `files` has the digests of the data files by
    their place in the snapshot's directory; a file without one is not verified.
    """

    snapshot_id: str
    queue_manager: str
    queue: str
    taken_at: datetime
    taken_by: str
    messages: int
    bytes: int
    digest: str
    rules_digest: str
    rules_text: str
    payload: str = "none"
    nul_as_blank: bool = False
    settled: int = 0
    refers_to: tuple[str, ...] = ()
    payload_key_id: str = ""
    imported_from: tuple[str, ...] = ()
    put_together_from: tuple[str, ...] = ()
    message_keys: tuple[str, ...] = ()
    has_given_action: bool = False
    queue_kind: QueueKind = QueueKind.DEAD_LETTER
    files: Mapping[str, FileDigest] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def full(self) -> int:
        """The number of full rows; without any there is nothing to evaluate or execute."""
        return self.messages - self.settled

    def to_json(self) -> str:
        """Return the manifest as a JSON document."""
        return _dump({**asdict(self), "taken_at": self.taken_at.isoformat()})

    @classmethod
    def from_json(cls, text: str, place: str) -> SnapshotManifest:
        """Parse a manifest; raise `LakeError`, which names `place`, if it is invalid."""
        values = _load(cls, text, place)
        try:
            values["taken_at"] = datetime.fromisoformat(values["taken_at"])
        except (TypeError, ValueError):
            raise LakeError("MQDLQ-421", f"{place}: taken_at is not an ISO 8601 time") from None
        try:
            values["files"] = {
                name: FileDigest(int(one["length"]), tuple(map(str, one["blocks"])))
                for name, one in values["files"].items()
            }
        except (AttributeError, KeyError, TypeError, ValueError):
            raise LakeError(
                "MQDLQ-473", f"{place}: files does not have a length and blocks for each file"
            ) from None
        if (kind := values["queue_kind"]) not in list(QueueKind):
            raise LakeError("MQDLQ-436", f"{place}: queue_kind {kind!r} is not known")
        values["queue_kind"] = QueueKind(kind)
        for name in ("imported_from", "put_together_from", "refers_to", "message_keys"):
            values[name] = tuple(values[name])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class StepCount(RuleAction):
    """Number of messages with this first step."""

    rule_line: int
    messages: int


@dataclass(frozen=True, slots=True)
class PlanDescription:
    """A plan's description.

    `counts` counts the planned messages by rule, action and target of their first step. A rule with
    more than a thousand targets has one count with the target "*", which is not a queue name.
    `dispositions` counts all messages by disposition. Both add up to the snapshots' messages.
    """

    plan_id: str
    plan_hash: str
    snapshot_ids: tuple[str, ...]
    rules_digest: str
    messages: int
    dispositions: Mapping[str, int]
    counts: tuple[StepCount, ...] = field(default=())
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """Return the description as a JSON document."""
        return _dump(asdict(self))

    @classmethod
    def from_json(cls, text: str, place: str) -> PlanDescription:
        """Parse a description; raise `LakeError`, which names `place`, if it is invalid."""
        values = _load(cls, text, place)
        try:
            values["snapshot_ids"] = tuple(values["snapshot_ids"])
            values["dispositions"] = {
                str(Disposition(name)): number for name, number in values["dispositions"].items()
            }
            values["counts"] = tuple(StepCount(**count) for count in values["counts"])
        except (TypeError, ValueError, AttributeError):
            raise LakeError(
                "MQDLQ-422", f"{place}: snapshot_ids, dispositions or counts is not as expected"
            ) from None
        return cls(**values)


def _dump(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _load(cls: type[SnapshotManifest | PlanDescription], text: str, place: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise LakeError("MQDLQ-423", f"{place} is not JSON: {error}") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if version != SCHEMA_VERSION:
        raise LakeError(
            "MQDLQ-424",
            f"{place}: expected schema_version {SCHEMA_VERSION}, found {version!r}",
        )
    expected = {entry.name for entry in fields(cls)}
    missing = sorted(expected - set(values))
    unknown = sorted(set(values) - expected)
    if missing or unknown:
        raise LakeError(
            "MQDLQ-425", f"{place}: missing {missing or 'nothing'}, unknown {unknown or 'nothing'}"
        )
    return dict(values)
