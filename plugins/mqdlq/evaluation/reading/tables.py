"""Read the rules table of an evaluation from the snapshots' manifests, or from a file."""

from __future__ import annotations

from collections.abc import Sequence

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.lake import Snapshot
from mqdlq.model import QueueKind
from mqdlq.rules import RulesError, RulesTable, parse


def frozen_rules(snapshots: Sequence[Snapshot]) -> RulesTable:
    """Return the common table of all snapshots; raise `LakeError` if their tables differ."""
    digests = {snapshot.manifest.rules_digest for snapshot in snapshots}
    if len(digests) > 1:
        raise LakeError(
            "MQDLQ-401",
            f"the snapshots were taken with {len(digests)} different rules tables; name one with"
            " --rules",
        )
    snapshot = snapshots[0]
    manifest = snapshot.manifest
    name = f"the rules of {snapshot.directory}"
    table = _parsed(manifest.rules_text, name, manifest.queue_kind, frozen=True)
    if table.digest != snapshot.manifest.rules_digest:
        raise LakeError(
            "MQDLQ-402",
            f"{snapshot.directory}: its rules have the digest {table.digest}, its manifest says"
            f" {snapshot.manifest.rules_digest}; take a new snapshot",
        )
    return table


def queue_kind(snapshots: Sequence[Snapshot]) -> QueueKind:
    """Return the kind of the snapshots' queues; raise `LakeError` if there are several."""
    kinds = {snapshot.manifest.queue_kind for snapshot in snapshots}
    if len(kinds) > 1:
        raise LakeError(
            "MQDLQ-437",
            "some snapshots are of backout queues (queue_kind), others are not; name snapshots of"
            " one kind of queue",
        )
    return kinds.pop()


def rules_of_file(place: str, queue_kind: QueueKind, *, frozen: bool = False) -> RulesTable:
    """Return the table in a file; raise `LakeError` if it is missing or invalid.

    A `frozen` table, which mqdlq itself has written, may have extensions.
    """
    text = lake.read_text(place)
    if text is None:
        raise LakeError("MQDLQ-403", f"{place}: no such rules table")
    return _parsed(text, place, queue_kind, frozen=frozen)


def _parsed(text: str, name: str, queue_kind: QueueKind, *, frozen: bool) -> RulesTable:
    try:
        return parse(text, name, queue_kind, frozen=frozen)
    except RulesError as error:
        raise LakeError("MQDLQ-404", error.text) from error
