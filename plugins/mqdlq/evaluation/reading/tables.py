"""Read the rules table of an evaluation from the snapshots' manifests, or from a file."""

from __future__ import annotations

from collections.abc import Sequence

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.lake import Snapshot
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
    table = _parsed(snapshot.manifest.rules_text, f"the rules of {snapshot.directory}", frozen=True)
    if table.digest != snapshot.manifest.rules_digest:
        raise LakeError(
            "MQDLQ-402",
            f"{snapshot.directory}: its rules have the digest {table.digest}, its manifest says"
            f" {snapshot.manifest.rules_digest}; take a new snapshot",
        )
    return table


def rules_of_file(place: str, *, frozen: bool = False) -> RulesTable:
    """Return the table in a file; raise `LakeError` if it is missing or invalid.

    A `frozen` table, which mqdlq itself has written, may have extensions.
    """
    text = lake.read_text(place)
    if text is None:
        raise LakeError("MQDLQ-403", f"{place}: no such rules table")
    return _parsed(text, place, frozen=frozen)


def _parsed(text: str, name: str, *, frozen: bool) -> RulesTable:
    try:
        return parse(text, name, frozen=frozen)
    except RulesError as error:
        raise LakeError("MQDLQ-404", error.text) from error
