"""Conditions on the rows of snapshots as masks of Arrow's columns, where there is no DuckDB.

The functions have the names and the meanings of those of `row_search`, which says the conditions in
SQL: `filters` describes a filter once, in the words of either module.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.rules.wildcards import automaton

_UTC: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Mask:
    """A condition on a row: `of` returns for each row of a batch whether it holds, or null.

    A batch has at least the `columns`.
    """

    columns: frozenset[str]
    of: Callable[[pa.RecordBatch], pa.Array]

    def rows(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows meet the condition; null is no."""
        return pc.fill_null(self.of(batch), False)


def equals(value: Any, *columns: str) -> Mask:
    return _any_has(lambda column: pc.equal(column, value), columns)


def is_like(pattern: str, *columns: str) -> Mask:
    """Return the condition that one of these columns fits a pattern with ``*`` and ``?``."""
    if not {"*", "?"}.intersection(pattern):
        return equals(pattern, *columns)
    expression = rf"\A(?s:{automaton(pattern)})\z"
    return _any_has(lambda column: pc.match_substring_regex(column, expression), columns)


def contains(word: str, *columns: str) -> Mask:
    """Return the condition that one of these columns contains a word, whatever its case."""
    small = pc.utf8_lower(word).as_py()
    return _any_has(lambda column: pc.match_substring(pc.utf8_lower(column), small), columns)


def is_between(start: datetime | None, end: datetime | None, *columns: str) -> Mask:
    """Return the condition that the first column that is not null is in [start, end)."""

    def of(batch: pa.RecordBatch) -> pa.Array:
        at = pc.coalesce(*(batch.column(column) for column in columns))
        holds = pc.is_valid(at)
        if start is not None:
            holds = pc.and_(holds, pc.greater_equal(at, pa.scalar(start, _UTC)))
        return holds if end is None else pc.and_(holds, pc.less(at, pa.scalar(end, _UTC)))

    return Mask(frozenset(columns), of)


def begins_with(digits: str, length: int, column: str) -> Mask:
    """Return the condition that an identifier begins with these of its hexadecimal digits."""
    first, last = (bytes.fromhex(digits.ljust(length, one)) for one in "0f")

    def of(batch: pa.RecordBatch) -> pa.Array:
        held = batch.column(column)
        return pc.and_(pc.greater_equal(held, first), pc.less_equal(held, last))

    return Mask(frozenset({column}), of)


def has_values(test: Callable[..., bool], *columns: str) -> Mask:
    """Return the condition that a test of these columns' values holds; null is "" or 0.

    Rows with the same values are tested once.
    """

    def of(batch: pa.RecordBatch) -> pa.Array:
        held, numbers = [], np.zeros(len(batch), np.int64)
        for column in map(batch.column, columns):
            held.append(pc.fill_null(column, "" if pa.types.is_string(column.type) else 0))
            coded = held[-1].dictionary_encode()
            numbers = numbers * max(1, len(coded.dictionary)) + coded.indices.to_numpy()
        _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
        values = zip(*(one.take(pa.array(first)).to_pylist() for one in held), strict=True)
        return pa.array(np.array([test(*row) for row in values], bool)[which])

    return Mask(frozenset(columns), of)


def any_of(masks: Sequence[Mask]) -> Mask:
    return _joined(pc.or_kleene, masks)


def all_of(masks: Iterable[Mask]) -> Mask:
    """Return the condition that all of these hold; without any, it always does."""
    always = Mask(frozenset(), lambda batch: pa.array(np.ones(len(batch), bool)))
    return _joined(pc.and_kleene, [always, *masks])


def _any_has(test: Callable[[pa.Array], pa.Array], columns: Sequence[str]) -> Mask:
    def of_column(column: str) -> Mask:
        return Mask(frozenset({column}), lambda batch: test(batch.column(column)))

    return any_of([*map(of_column, columns)])


def _joined(join: Callable[[pa.Array, pa.Array], pa.Array], masks: Sequence[Mask]) -> Mask:
    columns = frozenset[str]().union(*(mask.columns for mask in masks))
    return Mask(columns, lambda batch: reduce(join, (mask.of(batch) for mask in masks)))


# Sets of message keys in columns, 32 bytes for each key.

_KEY: Final = np.dtype("S32")
Keys = npt.NDArray[np.bytes_]


def keys_of(column: pa.Array) -> Keys:
    """Return a column of message keys as it lies in memory."""
    held = column.cast(pa.binary(_KEY.itemsize))
    return np.frombuffer(held.buffers()[1] or b"", _KEY)[held.offset : held.offset + len(held)]


class KeySet:
    """Message keys, each once, and how many of each were given; it notes which were met."""

    def __init__(self, parts: Iterable[Keys]) -> None:
        joined = np.concatenate([np.empty(0, _KEY), *parts])
        self._keys, self.numbers = np.unique(joined, return_counts=True)
        self._is_met = np.zeros(len(self._keys), bool)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def missing(self) -> int:
        """How many keys were not met."""
        return len(self) - int(np.count_nonzero(self._is_met))

    def find(self, keys: Keys) -> npt.NDArray[np.int64]:
        """Return the place of each key in the set, -1 for a key that is not in it."""
        if not len(self):
            return np.full(len(keys), -1)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self) - 1)
        return np.where(self._keys[places] == keys, places, -1)

    def meet(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Return which keys are in the set, and note that they were met."""
        places = self.find(keys)
        self._is_met[places[places >= 0]] = True
        return places >= 0
