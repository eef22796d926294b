"""Choose the strategy of an evaluation.

Strategies differ in where messages are read and decided, not in their result. All strategies
process a batch in the same way (see `plan_parts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mqdlq.evaluation.reading.row_groups import Group, groups_in_order
from mqdlq.lake import Snapshot


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
