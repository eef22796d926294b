"""Read the rules table of an evaluation from the snapshots' manifests, or from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.evaluation.reading.row_groups import Group, groups_in_order
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


# Choose the strategy of an evaluation.
#
# Strategies differ in where messages are read and decided, not in their result. All strategies
# process a batch in the same way (see `plan_parts`).


class Strategy(StrEnum):
    """Where an evaluation reads messages and decides about them."""

    DRIVER = "driver"
    """Spark reads few messages, and the driver decides; no worker starts."""
    ROW_GROUPS = "row groups"
    """Each of Spark's tasks reads its stretch of the snapshot; no rows are exchanged."""
    ROWS = "rows"
    """Spark reads, finds the newest row of each message, and sorts the rows for its workers."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits that hold for any number of messages.

    The driver takes at most `in_driver` messages, and a task at most `rows_to_a_task` rows of a
    stretch. A worker caches `remembered` values of each column, and as many treatments. A
    `strategy` given here is used without a choice.
    """

    in_driver: int = 20_000
    rows_to_a_task: int = 524_288
    remembered: int = 65_536
    strategy: Strategy | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy and the reason for it, with row groups if the strategy reads them."""

    strategy: Strategy
    why: str
    groups: tuple[Group, ...] = ()


ROWS_ARE_WORTH_A_TASK: Final = 131_072


def choose(
    snapshots: Sequence[Snapshot], *, messages: int, with_settled: bool, bounds: Bounds
) -> Choice:
    """Choose by the number of messages, and whether one snapshot has all of them in order."""
    few = messages <= bounds.in_driver
    if bounds.strategy is Strategy.DRIVER or (few and bounds.strategy is None):
        return Choice(Strategy.DRIVER, f"{messages} messages are few")
    if len(snapshots) > 1:
        return Choice(Strategy.ROWS, f"{len(snapshots)} snapshots have messages in common")
    if with_settled:
        return Choice(Strategy.ROWS, "other snapshots hold the rows of its settled messages")
    if bounds.strategy is Strategy.ROWS:
        return Choice(Strategy.ROWS, "as was asked for")
    groups = groups_in_order(snapshots[0].headers)
    if groups is None:
        return Choice(Strategy.ROWS, "the snapshot's row groups are not in order")
    why = f"{messages} messages in {len(groups)} row groups in order"
    return Choice(Strategy.ROW_GROUPS, why, tuple(groups))


def rows_to_a_task(messages: int, cores: int, bounds: Bounds) -> int:
    """Return the number of rows for a task: two tasks for a core, if they are worth the start."""
    wanted = max(messages // (2 * cores), ROWS_ARE_WORTH_A_TASK)
    return min(wanted, bounds.rows_to_a_task)
