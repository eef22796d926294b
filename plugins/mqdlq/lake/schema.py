"""The stored form of snapshots and plans: the schemas of their rows, and their descriptions.

The columns of a message follow from the layouts of the headers. A description is written as JSON
and validated when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final

import pyarrow as pa

from mqdlq.errors import LakeError
from mqdlq.headers import COLUMNS
from mqdlq.model import Action, Disposition, PutAuthority, QueueKind, RuleAction, Step

_INT, _LONG, _TEXT, _BYTES = pa.int32(), pa.int64(), pa.string(), pa.binary()
_UTC: Final = pa.timestamp("us", tz="UTC")


def _columns(kind: pa.DataType, *names: str, nullable: bool = False) -> list[pa.Field]:
    return [pa.field(name, kind, nullable=nullable) for name in names]


_nullable = partial(_columns, nullable=True)
_KEY: Final = [*_columns(_LONG, "browse_seq"), *_columns(_BYTES, "message_key")]

_KINDS: Final = {
    "int64": _LONG,
    "long": _INT,
    "text": _TEXT,
    "bytes": _BYTES,
    "bool": pa.bool_(),
    "time": _UTC,
    "texts": pa.list_(_TEXT),
}
_ALWAYS_THERE: Final = ("browse_seq", "message_key", "class", "problem")

HEADERS: Final = pa.schema(
    [
        pa.field(name, _KINDS[kind], nullable=name not in _ALWAYS_THERE)
        for name, kind in COLUMNS.items()
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
        *_KEY,
        *_columns(_INT, "occurrence"),
        *_columns(_TEXT, "snapshot_id", "outcome"),
        *_columns(_INT, "rule"),
        *_columns(_TEXT, "action", "target_q", "target_q_mgr"),
        *_nullable(_UTC, "expires_at"),
    ]
)
"""A compact row for each settled message, in browse order; `snapshot_id` has its full row."""

CHOSEN: Final = pa.schema(_columns(_LONG, "browse_seq"))
"""A row for each message that the run of a snapshot is for, if it is not for all of them."""

PAYLOAD: Final = pa.schema(
    [
        *_KEY,
        *_columns(_LONG, "payload_length"),
        *_columns(_BYTES, "payload"),
        *_nullable(_BYTES, "properties"),
    ]
)
"""The stored bytes of bodies after the MQDLH, if the handler's `payload` stores any."""

COPY: Final = pa.schema(
    [
        *_columns(_LONG, "message_id"),
        *_columns(_TEXT, "digest"),
        *_columns(_BYTES, "descriptor", "body"),
    ]
)
"""A copy of a message in the archive; its digest covers the whole message."""

PLAN: Final = pa.schema(
    [
        *_KEY,
        *_columns(_TEXT, "queue_manager", "queue", "disposition", "steps"),
        *_nullable(_INT, "winning_rule", "nearest_rule"),
    ]
)
"""A row for each message of a plan; the two rules are null without an explanation.

The steps are one text (see `steps_text`), because many messages have the same: Parquet stores each
distinct text once, and numbers it. Nested columns would store every step of every message.
"""


def steps_text(steps: Iterable[Step]) -> str:
    """Return the steps of a message as a plan stores them: a JSON array with an object for each."""
    return f"[{','.join(map(_step_text, steps))}]"


@lru_cache(maxsize=4096)
def _step_text(step: Step) -> str:
    return json.dumps({name: getattr(step, name) for name in Step.__slots__})


@lru_cache(maxsize=4096)
def steps_of_text(text: str) -> tuple[Step, ...]:
    return tuple(
        Step(
            **step
            | {
                "action": Action(step["action"]),
                "put_authority": PutAuthority(step["put_authority"]),
            }
        )
        for step in json.loads(text)
    )


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
    backfill merged. The run was started for the messages in `message_keys` (hex), if there are any.
    With `has_given_action` the rules are one action, given for some messages.
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
        return _dump(asdict(self))

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
    """The number of messages with this first step."""

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
    counts: tuple[StepCount, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> str:
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
    text = json.dumps(
        values, indent=2, sort_keys=True, ensure_ascii=False, default=datetime.isoformat
    )
    return f"{text}\n"


def _load(cls: type[SnapshotManifest | PlanDescription], text: str, place: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise LakeError("MQDLQ-423", f"{place} is not JSON: {error}") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if version != SCHEMA_VERSION:
        raise LakeError(
            "MQDLQ-424", f"{place}: expected schema_version {SCHEMA_VERSION}, found {version!r}"
        )
    expected = {entry.name for entry in fields(cls)}
    missing, unknown = sorted(expected - set(values)), sorted(set(values) - expected)
    if missing or unknown:
        raise LakeError(
            "MQDLQ-425", f"{place}: missing {missing or 'nothing'}, unknown {unknown or 'nothing'}"
        )
    return dict(values)
