"""Compute the values of extensions for all rows of a batch.

`mqdlq.rules.extensions` defines the values of one message. Here they are computed for many at once,
and a number stands for all numbers that fulfil the same conditions, so that the matcher is called
for few values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.rules.extensions import NEVER, UNKNOWN
from mqdlq.rules.keywords import Keyword, Kind, Measure
from mqdlq.rules.properties import SEPARATOR

Numbers = np.ndarray[Any, np.dtype[np.int64]]


def extension_values(keyword: Keyword, limits: Sequence[int], rows: pa.RecordBatch) -> pa.Array:
    """Return the value of an extension for each row, as `RulesTable.key_of` has it.

    `limits` are the numbers that the rules compare it with, sorted.
    """
    if keyword.kind is Kind.PROPERTY:
        return pc.fill_null(pc.binary_join(rows.column("properties_met"), SEPARATOR), "")
    if keyword.measure is None:
        chains = pc.binary_join(rows.column("header_chain"), " ")
        is_known = pc.fill_null(rows.column("chain_is_whole"), False)
        return pc.fill_null(pc.if_else(is_known, chains, ""), "")
    return pa.array(_collapsed(_measured(keyword.measure, rows), limits))


def _measured(measure: Measure, rows: pa.RecordBatch) -> Numbers:
    of = _numbers(rows.column(measure.of))
    is_unknown = of == UNKNOWN
    found = of - measure.less
    if measure.since:
        since = _numbers(rows.column(measure.since))
        is_unknown |= since == UNKNOWN
        found -= since
    found = np.where(is_unknown, UNKNOWN, found // measure.per)
    if measure.never:
        never = _numbers(rows.column(measure.never))
        found = np.where((never < 0) & (never != UNKNOWN), NEVER, found)
    return found


def _numbers(column: pa.Array) -> Numbers:
    """Return a column as numbers, times in microseconds since 1970; null is `UNKNOWN`."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz))
    numbers = pc.fill_null(column.cast(pa.int64()), UNKNOWN)
    return np.array(numbers.to_numpy(zero_copy_only=False), np.int64)


def _collapsed(values: Numbers, limits: Sequence[int]) -> Numbers:
    """Replace each number as `mqdlq.rules.extensions.collapsed` does."""
    special = (values == UNKNOWN) | (values == NEVER)
    if not limits:
        return np.where(special, values, 0)
    known = np.array(limits, np.int64)
    at = np.searchsorted(known, values)
    before = np.where(at > 0, known[np.maximum(at - 1, 0)] + 1, known[0] - 1)
    is_limit = (at < len(known)) & (known[np.minimum(at, len(known) - 1)] == values)
    return np.where(special | is_limit, values, before)
