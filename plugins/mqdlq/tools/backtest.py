"""Backtest a rules table: what it would have done with the messages of stored snapshots.

The comparison is that of `mqdlq rules diff`, in this process. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mqdlq.errors import LakeError
from mqdlq.evaluation.differences import Treatments, treatments_in
from mqdlq.lake import Snapshot, snapshot_stands
from mqdlq.ledger.tables.runs import TakenSnapshot
from mqdlq.rules import RulesTable, find_unstored, freeze

MOST_MESSAGES: Final = 50_000
"""The most messages that are compared while someone waits for a page."""


@dataclass(frozen=True, slots=True)
class SkippedSnapshot:
    """A snapshot that takes no part in a backtest, and the reason in words."""

    taken: TakenSnapshot
    why: str


@dataclass(frozen=True, slots=True)
class ChosenSnapshots:
    """The snapshots of a backtest, the newest first, and the skipped ones."""

    used: tuple[Snapshot, ...]
    skipped: tuple[SkippedSnapshot, ...]


@dataclass(frozen=True, slots=True)
class Backtest:
    """The messages of the chosen snapshots under two tables: today's and the proposed one.

    `unstored` has the comparisons of the tables that not all snapshots have: they match no message
    there.
    """

    snapshots: ChosenSnapshots
    treatments: Treatments
    unstored: tuple[str, ...] = ()


def choose_snapshots(
    taken: Iterable[TakenSnapshot], *, nul_as_blank: bool = False, most: int = MOST_MESSAGES
) -> ChosenSnapshots:
    """Choose the newest snapshots with at most `most` messages in all.

    A snapshot is skipped if it was pruned, is damaged, has too many messages, or compares NULs in
    another way than `nul_as_blank` says.
    """
    used: list[Snapshot] = []
    skipped: list[SkippedSnapshot] = []
    messages = 0
    for one in sorted(taken, key=lambda one: one.taken_at, reverse=True):
        if not snapshot_stands(one.location):
            skipped.append(SkippedSnapshot(one, "it was pruned"))
            continue
        if messages + one.messages > most:
            skipped.append(SkippedSnapshot(one, f"with it, there are more than {most:,} messages"))
            continue
        try:
            snapshot = Snapshot.at(one.location)
        except LakeError as error:
            skipped.append(SkippedSnapshot(one, error.text))
            continue
        if snapshot.manifest.nul_as_blank != nul_as_blank:
            setting = "nul_as_blank was {}".format("off" if nul_as_blank else "on")
            skipped.append(SkippedSnapshot(one, f"{setting} when it was taken"))
            continue
        used.append(snapshot)
        messages += one.messages
    return ChosenSnapshots(tuple(used), tuple(skipped))


def backtest(today: RulesTable, proposed: RulesTable, snapshots: ChosenSnapshots) -> Backtest:
    """Compare two tables over snapshots; raise `LakeError` for a damaged one.

    A message that several snapshots hold counts once, as the newest shows it.
    """
    texts = [snapshot.manifest.rules_text for snapshot in snapshots.used]
    unstored = {what for one in (today, proposed) for what in find_unstored(freeze(one), texts)}
    found = treatments_in(today, proposed, snapshots.used, None)
    return Backtest(snapshots, found, tuple(sorted(unstored)))
