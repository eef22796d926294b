"""Decide the treatment of batches of messages.

The matcher is called once for each distinct value (see `value_masks`), and steps are made once for
each treatment (see `treatments`). NumPy and Arrow combine codes and bits for all rows of a batch.
The code runs in Spark's workers, or in the driver for few messages. Its memory is limited for any
number of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.evaluation.deciding.extension_values import extension_values
from mqdlq.evaluation.deciding.treatments import UNPROCESSABLE, Chain, Treatments, targets_needed
from mqdlq.evaluation.deciding.value_masks import ValueMasks, Words, encoded
from mqdlq.plan import steps_without_a_dlh
from mqdlq.rules import RulesTable

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_REMEMBERED: Final = 65_536
"""The most treatments that are cached."""


def columns_needed(table: RulesTable) -> list[str]:
    """Return the distinct columns of `headers` that an evaluation reads."""
    read = {"browse_seq", "message_key", "class", *table.columns, *targets_needed(table)}
    return sorted(read)


class Decisions:
    """Decisions of one table on successive batches; `treatments` explains their numbers.

    With `has_given_action` the table is one action, given for exactly these messages.
    """

    def __init__(
        self,
        table: RulesTable,
        *,
        nul_as_blank: bool = False,
        explain: bool = False,
        has_given_action: bool = False,
        remembered: int = _REMEMBERED,
    ) -> None:
        without_a_dlh = steps_without_a_dlh(table) if has_given_action else ()
        self.treatments = Treatments(explain, without_a_dlh)
        self._explain = explain
        self._acts_on = table.queue_kind.acts_on.value
        self._masks = ValueMasks(table, nul_as_blank=nul_as_blank, remembered=remembered)
        self._targets = tuple(sorted(targets_needed(table)))
        self._columns = tuple(sorted({*self._masks.columns, *self._targets}))
        self._chains: dict[bytes, Chain] = {}
        self._remembered = remembered

    def numbers(self, rows: pa.RecordBatch) -> Numbers:
        """Return the number of each row's treatment; numbers are valid until the next call."""
        if max(len(self.treatments), len(self._chains)) > self._remembered:
            self.treatments.forget()
            self._chains.clear()
        asked = pc.equal(rows.column("class"), self._acts_on)
        is_asked = asked.to_numpy(zero_copy_only=False)
        found = np.full(rows.num_rows, UNPROCESSABLE, np.int64)
        if is_asked.all():
            found[:] = self._number_matchable(rows)
        elif is_asked.any():
            found[is_asked] = self._number_matchable(rows.filter(asked))
        self.treatments.count(found)
        return found

    def _number_matchable(self, rows: pa.RecordBatch) -> Numbers:
        held = {name: _Column(*encoded(self._values(name, rows))) for name in self._columns}
        which, some = _distinct(rows.num_rows, list(held.values()))
        one_of_each = {name: column.at(some) for name, column in held.items()}
        return self._decide_combinations(len(some), one_of_each)[which]

    def _values(self, name: str, letters: pa.RecordBatch) -> pa.Array:
        """Return a column as it is compared: that of an extension follows from others."""
        table = self._masks.table
        keyword = table.extensions.get(name)
        if keyword is None:
            return letters.column(name)
        return extension_values(keyword, table.limits.get(name, ()), letters)

    def _decide_combinations(self, number: int, held: dict[str, _Column]) -> Numbers:
        """Decide for distinct combinations of values."""
        standing = [
            (self._masks.cached_bits(name, held[name].values), held[name].codes)
            for name in self._masks.columns
        ]
        bits = self._masks.combined(number, standing)
        nearest = np.zeros(number, np.int64)
        if self._explain:
            unmatched = np.flatnonzero(~bits.any(axis=1))
            nearest[unmatched] = self._masks.nearest(
                len(unmatched), [(stands, codes[unmatched]) for stands, codes in standing]
            )
        return self._decide_rule_sets(bits, held, nearest)

    def _decide_rule_sets(self, bits: Words, held: dict[str, _Column], nearest: Numbers) -> Numbers:
        """Decide for sets of rules, with targets from the messages."""
        sets = _as_bytes(bits).dictionary_encode()
        codes = sets.indices.to_numpy()
        chains = [self._chain(code) for code in sets.dictionary.to_pylist()]
        targets = {
            name: held[name].where(np.array([name in chain.columns for chain in chains])[codes])
            for name in self._targets
        }
        near = _Column(pa.nulls(len(self._masks.table.rules) + 1), nearest)
        which, some = _distinct(
            len(bits), [_Column(sets.dictionary, codes), *targets.values(), near]
        )
        alike = zip(
            codes[some].tolist(), _values(targets, some), nearest[some].tolist(), strict=True
        )
        numbers = [self.treatments.number(chains[code], *what) for code, *what in alike]
        return np.array(numbers, np.int64)[which]

    def _chain(self, code: bytes) -> Chain:
        """Return the chain of the rules whose bits are set."""
        if code not in self._chains:
            chain = Chain.of(self._masks.rules(np.frombuffer(code, np.int64).tolist()))
            self._chains[code] = chain
        return self._chains[code]


@dataclass(frozen=True, slots=True)
class _Column:
    """Rows of a column as codes, which are indexes of their values."""

    values: pa.Array
    codes: Numbers

    def at(self, places: Numbers) -> _Column:
        return _Column(self.values, self.codes[places])

    def where(self, is_needed: Any) -> _Column:
        """Use the first value for rows that need none, so that it does not distinguish them."""
        return _Column(self.values, np.where(is_needed, self.codes, 0))


def _distinct(rows: int, columns: Sequence[_Column]) -> tuple[Numbers, Numbers]:
    """Return the number of each row's distinct combination, and one row for each combination."""
    combined, size = np.zeros(rows, np.int64), 1
    for column in columns:
        values = max(len(column.values), 1)
        if size * values >= 1 << 62:
            dense = pa.array(combined).dictionary_encode()
            combined, size = dense.indices.to_numpy().astype(np.int64), len(dense.dictionary)
        combined = combined * values + column.codes
        size *= values
    dense = pa.array(combined).dictionary_encode()
    which = dense.indices.to_numpy()
    some = np.empty(len(dense.dictionary), np.int64)
    some[which] = np.arange(rows)
    return which, some


def _as_bytes(bits: Words) -> pa.FixedSizeBinaryArray:
    held = np.ascontiguousarray(bits)
    kind = pa.binary(held.shape[1] * held.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(held), [None, pa.py_buffer(held)])


def _values(columns: dict[str, _Column], places: Numbers) -> list[dict[str, str]]:
    if not columns:
        return [{} for _ in places]
    held = {
        name: column.values.take(pa.array(column.codes[places])) for name, column in columns.items()
    }
    rows: list[dict[str, str]] = pa.table(held).to_pylist()
    return rows
