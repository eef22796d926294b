"""How an evaluation goes about it: a sample of what the rules look at in, a strategy out.

The strategies differ in what they bring to the driver, not in what they find.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the driver takes in at most, whatever the number of messages.

    `combinations` of the values of several columns, `values` of one column, `treatments` (steps
    that differ), `sample` rows to choose a strategy by. Where more than a `share` of the messages
    differ, their combinations are not worth bringing together.
    """

    combinations: int = 200_000
    values: int = 1_000_000
    treatments: int = 200_000
    sample: int = 65_536
    share: float = 0.25


class Strategy(StrEnum):
    """What is asked of the matcher, and where."""

    COMBINATIONS = "combinations"
    """One join: every distinct combination of what the rules look at is decided in the driver."""
    VALUES = "values"
    """Columns apart: the bits of their values are joined and put together by Spark."""


@dataclass(frozen=True, slots=True)
class Group:
    """Columns whose values are looked up together; `in_driver` says where the matcher runs."""

    columns: tuple[str, ...]
    in_driver: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, what it groups, and why it was chosen."""

    strategy: Strategy
    groups: tuple[Group, ...]
    why: str


def choose(
    sample: pa.Table, columns: Sequence[str], *, messages: int, is_all: bool, bounds: Bounds
) -> Choice:
    """Choose by how many distinct combinations a sample has, and how their number grows in it."""
    codes = {name: _codes(sample[name]) for name in columns}
    seen = _distinct(sample.num_rows, list(codes.values()))
    expected = seen if is_all else _expected(sample.num_rows, list(codes.values()), messages)
    why = f"{seen} combinations in {sample.num_rows} of {messages} messages"
    why += "" if is_all else f", about {expected} in all"
    few = expected <= bounds.combinations and (is_all or expected <= bounds.share * messages)
    if few or not columns:
        whole = Group(tuple(columns), in_driver=True)
        return Choice(Strategy.COMBINATIONS, (whole,), why)
    return Choice(Strategy.VALUES, _grouped(sample.num_rows, codes, messages, bounds), why)


def in_groups(
    sample: pa.Table, columns: Sequence[str], *, messages: int, bounds: Bounds, why: str
) -> Choice:
    """Return the strategy that works for any number of combinations."""
    codes = {name: _codes(sample[name]) for name in columns}
    groups = _grouped(sample.num_rows, codes, messages, bounds)
    return Choice(Strategy.VALUES, groups, why)


def _grouped(
    rows: int, codes: dict[str, pa.Array], messages: int, bounds: Bounds
) -> tuple[Group, ...]:
    """Put columns together as long as they have few combinations; what varies most stays alone."""
    few = min(bounds.combinations, max(rows // 8, 1))
    groups: list[list[str]] = []
    for name in sorted(codes, key=lambda name: _distinct(rows, [codes[name]])):
        for group in groups:
            together = [codes[column] for column in (*group, name)]
            if (
                _distinct(rows, together) <= few
                and _expected(rows, together, messages) <= bounds.combinations
            ):
                group.append(name)
                break
        else:
            groups.append([name])
    return tuple(
        Group(
            tuple(group),
            len(group) > 1
            or _expected(rows, [codes[column] for column in group], messages) <= bounds.values,
        )
        for group in groups
    )


def _expected(rows: int, codes: list[pa.Array], messages: int) -> int:
    """Extrapolate the number of distinct combinations by what doubling the sample added."""
    seen = _distinct(rows, codes)
    if not rows or messages <= rows:
        return seen
    half = _distinct(rows // 2, codes)
    growth = min(seen / max(half, 1), 2.0)
    doublings = math.log2(messages / rows)
    return min(messages, math.ceil(seen * math.pow(growth, doublings)))


def _distinct(rows: int, codes: Sequence[pa.Array]) -> int:
    """Count the distinct combinations in every other row, or in all where these are all rows."""
    if not rows:
        return 0
    table = pa.table({str(number): code for number, code in enumerate(codes)})
    if not codes:
        return 1
    if rows < table.num_rows:
        table = table.take(pa.array(range(0, 2 * rows, 2)))
    distinct: int = table.group_by(table.column_names).aggregate([]).num_rows
    return distinct


def _codes(column: pa.ChunkedArray) -> pa.Array:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices
