"""What a finished snapshot or plan says of itself: records in, JSON out, and back with checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Final

from mqdlq.errors import LakeError

SNAPSHOT_VERSION: Final = 2
"""The version of a snapshot's columns and manifest that this code writes; it reads all earlier."""
PLAN_VERSION: Final = 1
"""The same for plans."""
_ADDED: Final = {
    "nul_as_blank",
    "parked",
    "refers_to",
    "payload_key_id",
    "imported_from",
    "put_together_from",
    "message_keys",
    "has_given_action",
}
"""What manifests lacked in earlier versions; absent, it is off or none."""


@dataclass(frozen=True, slots=True)
class SnapshotCounts:
    """How many messages a snapshot has: `full` rows are new or due, `parked` ones are settled."""

    full: int
    parked: int


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """A snapshot's manifest.

    `messages` and `bytes` count messages and their bodies' bytes, parked ones included; `digest`
    is the SHA-256 over their keys in browse order; `rules_text` is the table as it was frozen for
    the run, and `nul_as_blank` whether its patterns take NULs for blanks. `parked` of the messages
    have compact rows, whose full rows are in the snapshots `refers_to`. `payload` says what was
    captured of the bodies ("none", "head: N", "full"), `payload_key_id` by which key it is
    encrypted, "" if it is not. `imported_from` says of which files it was made, where no queue
    was browsed, `put_together_from` of which snapshots, where a backfill made it. The run's plan
    covers the messages in `message_keys` (hex) only; none means all. With `has_given_action` the
    rules are one action, given for these messages.
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
    parked: int = 0
    refers_to: tuple[str, ...] = ()
    payload_key_id: str = ""
    imported_from: tuple[str, ...] = ()
    put_together_from: tuple[str, ...] = ()
    message_keys: tuple[str, ...] = ()
    has_given_action: bool = False
    schema_version: int = SNAPSHOT_VERSION

    @property
    def counts(self) -> SnapshotCounts:
        """How many messages have full rows, and how many compact ones.

        Without a full row there is nothing to evaluate or to execute.
        """
        return SnapshotCounts(self.messages - self.parked, self.parked)

    def to_json(self) -> str:
        """Return the manifest as a JSON document."""
        return _dump({**asdict(self), "taken_at": self.taken_at.isoformat()})

    @classmethod
    def from_json(cls, text: str, place: str) -> SnapshotManifest:
        """Read a manifest; raise `LakeError`, naming `place`, where it is not one."""
        values = _load(cls, text, place, SNAPSHOT_VERSION)
        try:
            values["taken_at"] = datetime.fromisoformat(values["taken_at"])
        except (TypeError, ValueError):
            raise LakeError(f"{place}: taken_at is no ISO 8601 time") from None
        for name in ("imported_from", "put_together_from", "refers_to", "message_keys"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)


@dataclass(frozen=True, slots=True)
class StepCount:
    """How many messages have this as their first step."""

    rule: int
    rule_line: int
    action: str
    target_q: str
    target_q_mgr: str
    messages: int


@dataclass(frozen=True, slots=True)
class PlanDescription:
    """A plan's description.

    `counts` counts the planned messages by rule, action and target of their first step, those of a
    rule with more than a thousand targets by the target "*" (which is no name of a queue),
    `dispositions` all messages by disposition; both add up to what the snapshots hold.
    """

    plan_id: str
    plan_hash: str
    snapshot_ids: tuple[str, ...]
    rules_digest: str
    messages: int
    dispositions: Mapping[str, int]
    counts: tuple[StepCount, ...] = field(default=())
    schema_version: int = PLAN_VERSION

    def to_json(self) -> str:
        """Return the description as a JSON document."""
        return _dump(asdict(self))

    @classmethod
    def from_json(cls, text: str, place: str) -> PlanDescription:
        """Read a description; raise `LakeError`, naming `place`, where it is not one."""
        values = _load(cls, text, place, PLAN_VERSION)
        try:
            values["snapshot_ids"] = tuple(values["snapshot_ids"])
            values["counts"] = tuple(StepCount(**count) for count in values["counts"])
        except TypeError:
            raise LakeError(f"{place}: snapshot_ids or counts is not a list as expected") from None
        return cls(**values)


def _dump(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _load(
    cls: type[SnapshotManifest | PlanDescription], text: str, place: str, newest: int
) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise LakeError(f"{place} is not JSON: {error}") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if version not in range(1, newest + 1):
        known = "1" if newest == 1 else f"1 to {newest}"
        raise LakeError(f"{place}: expected schema_version {known}, found {version!r}")
    expected = {entry.name for entry in fields(cls)}
    missing = sorted(expected - set(values) - _ADDED)
    unknown = sorted(set(values) - expected)
    if missing or unknown:
        raise LakeError(f"{place}: missing {missing or 'nothing'}, unknown {unknown or 'nothing'}")
    return dict(values)
