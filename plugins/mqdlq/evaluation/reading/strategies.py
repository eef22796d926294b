"""Choose who reads the messages and where they are decided about.

The strategies differ in who reads the messages and where they are decided about, not in what is
found. What is done with a batch of them is always the same (see `plan_parts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mqdlq.evaluation.reading.row_groups import Group, groups_in_order
from mqdlq.lake import Snapshot


class Strategy(StrEnum):
    """Where messages are decided about, and who reads them."""

    DRIVER = "driver"
    """Spark reads the few there are; the driver decides, and no worker need be started."""
    ROW_GROUPS = "row groups"
    """Each of Spark's tasks reads its stretch of the snapshot; nothing is moved."""
    ROWS = "rows"
    """Spark reads, finds each message's newest row, and brings them in order for its workers."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is taken in at most, whatever the number of messages.

    `in_driver` messages by the driver; `rows_to_a_task` of a snapshot's stretch, `remembered`
    values of each column and treatments by a worker. A `strategy` named here is not chosen.
    """

    in_driver: int = 20_000
    rows_to_a_task: int = 524_288
    remembered: int = 65_536
    strategy: Strategy | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy and why it was chosen; the row groups to read, where it reads these."""

    strategy: Strategy
    why: str
    groups: tuple[Group, ...] = ()


ROWS_ARE_WORTH_A_TASK: Final = 131_072


def choose(
    snapshots: Sequence[Snapshot], *, messages: int, with_parked: bool, bounds: Bounds
) -> Choice:
    """Choose by the number of messages, and by whether one snapshot has them all in order."""
    few = messages <= bounds.in_driver
    if bounds.strategy is Strategy.DRIVER or (few and bounds.strategy is None):
        return Choice(Strategy.DRIVER, f"{messages} messages are few")
    if len(snapshots) > 1:
        return Choice(Strategy.ROWS, f"{len(snapshots)} snapshots have messages in common")
    if with_parked:
        return Choice(Strategy.ROWS, "other snapshots hold the rows of its parked messages")
    if bounds.strategy is Strategy.ROWS:
        return Choice(Strategy.ROWS, "as was asked for")
    groups = groups_in_order(snapshots[0].headers)
    if groups is None:
        return Choice(Strategy.ROWS, "the snapshot's row groups are not in order")
    why = f"{messages} messages in {len(groups)} row groups in order"
    return Choice(Strategy.ROW_GROUPS, why, tuple(groups))


def rows_to_a_task(messages: int, cores: int, bounds: Bounds) -> int:
    """Return how many rows a task is to take: two tasks to a core if they are worth their start."""
    wanted = max(messages // (2 * cores), ROWS_ARE_WORTH_A_TASK)
    return min(wanted, bounds.rows_to_a_task)
