"""Descriptions of finished snapshots and plans: records that are written as JSON and validated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Final

from mqdlq.errors import LakeError
from mqdlq.model import Disposition, QueueKind

SCHEMA_VERSION: Final = 1
"""The version of snapshots and plans; a newer one is refused."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file's length in bytes, and the SHA-256 (hex) of each of its blocks, in order."""

    length: int
    blocks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnapshotCounts:
    """Numbers of a snapshot's messages: with full rows (new or due), and settled."""

    full: int
    settled: int


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
    def counts(self) -> SnapshotCounts:
        """The numbers of full and of compact rows.

        Without full rows there is nothing to evaluate or execute.
        """
        return SnapshotCounts(self.messages - self.settled, self.settled)

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
        values["files"] = _files(values["files"], place)
        values["queue_kind"] = _queue_kind(values["queue_kind"], place)
        for name in ("imported_from", "put_together_from", "refers_to", "message_keys"):
            values[name] = tuple(values[name])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class StepCount:
    """Number of messages with this first step."""

    rule: int
    rule_line: int
    action: str
    target_q: str
    target_q_mgr: str
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


def _files(value: Any, place: str) -> dict[str, FileDigest]:
    try:
        return {
            name: FileDigest(int(one["length"]), tuple(map(str, one["blocks"])))
            for name, one in value.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise LakeError(
            "MQDLQ-473", f"{place}: files does not have a length and blocks for each file"
        ) from None


def _queue_kind(value: object, place: str) -> QueueKind:
    if value not in list(QueueKind):
        raise LakeError("MQDLQ-436", f"{place}: queue_kind {value!r} is not known")
    return QueueKind(str(value))


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
