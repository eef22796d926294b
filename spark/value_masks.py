"""Which rules each value of a column leaves standing: a table and values in, bits out.

The core's own matcher is asked about every distinct value of every column the rules look at; a
message's rules are then the bits all its values have in common. Nothing here knows of Spark.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.rules import Pattern, Rule, RulesTable, with_nuls_as_blanks

BITS: Final = 62
"""Rules to a word. Two bits of a long stay free, so that no arithmetic on words overflows."""

Words = np.ndarray[Any, np.dtype[np.int64]]
"""A row per value or message, a column per word."""

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What Spark's `mapInArrow` takes."""

_WILDCARDS: Final = re.compile(r"[*?]")


class ValueMasks:
    """The bits of a rules table, whose rule of ordinal n is bit (n - 1) % BITS of word n // BITS.

    `nul_as_blank` says that NULs are compared as blanks, which IBM's handler does not.
    """

    def __init__(self, table: RulesTable, *, nul_as_blank: bool = False) -> None:
        self.table = table
        self.nul_as_blank = nul_as_blank
        self.columns = table.columns
        self.words = -(-len(table.rules) // BITS)
        self.everything = self.bits(table.rules)
        self._asking: dict[str, dict[Pattern, list[Rule]]] = {
            column: defaultdict(list) for column in table.columns
        }
        for rule in table.rules:
            for pattern in rule.patterns:
                self._asking[pattern.column][pattern].append(rule)

    def unmatched(self, column: str) -> Words:
        """Return the bits of the rules that do not look at a column: those of any other value."""
        asking = [rule for rules in self._asking[column].values() for rule in rules]
        return self.everything & ~self.bits(asking)

    def of_values(self, column: str, values: pa.Array) -> Words:
        """Return the bits of the rules that each value of a column leaves standing.

        Values are best distinct. A null is a field of blanks, or 0, as for the core's matcher.
        """
        present = as_compared(values)
        if self.nul_as_blank and pa.types.is_string(present.type):
            held = (with_nuls_as_blanks({"": value})[""] for value in present.to_pylist())
            present = pa.array(held, pa.string())
        bits = np.tile(self.unmatched(column), (len(present), 1))
        for pattern, rules in self._asking[column].items():
            asked = self.bits(rules)
            candidates = _candidates(pattern, present)
            found = [
                place
                for place, value in zip(
                    candidates.tolist(), present.take(pa.array(candidates)).to_pylist(), strict=True
                )
                if pattern.matches(value)
            ]
            bits[found] |= asked
        return bits

    def of_rows(self, rows: pa.Table, columns: tuple[str, ...] | None = None) -> Words:
        """Return the bits each row leaves standing, judged by these of its columns or by all."""
        bits = np.tile(self.everything, (rows.num_rows, 1))
        for column in self.columns if columns is None else columns:
            values, codes = _encoded(rows[column])
            bits &= self.of_values(column, values)[codes]
        return bits

    def nearest(self, rows: pa.Table) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Return the ordinal of the rule nearest to each row: the first that fails in least.

        It is `mqdlq.rules.explain(…).nearest`: a rule has one pattern to a column at most, so
        what it fails in are the columns whose value does not leave it standing.
        """
        encoded = [(column, *_encoded(rows[column])) for column in self.columns]
        standing = [
            (self._unpacked(self.of_values(column, values)), codes)
            for column, values, codes in encoded
        ]
        found = np.empty(rows.num_rows, np.int32)
        for start in range(0, rows.num_rows, 4096):
            chunk = slice(start, start + 4096)
            left = np.zeros((len(found[chunk]), len(self.table.rules)), np.int16)
            for stands, codes in standing:
                left += stands[codes[chunk]]
            found[chunk] = left.argmax(axis=1) + 1
        return found

    def rules(self, bits: tuple[int, ...]) -> Iterator[Rule]:
        """Yield the rules of one row of bits in the order of the table."""
        for word, held in enumerate(bits):
            left = int(held)
            while left:
                lowest = left & -left
                yield self.table.rules[word * BITS + lowest.bit_length() - 1]
                left ^= lowest

    def bits(self, rules: Iterable[Rule]) -> Words:
        """Return the words in which the bits of these rules are set."""
        words = [0] * self.words
        for rule in rules:
            words[(rule.ordinal - 1) // BITS] |= 1 << (rule.ordinal - 1) % BITS
        return np.array(words, np.int64)

    def _unpacked(self, bits: Words) -> np.ndarray[Any, np.dtype[np.int8]]:
        """Return a column per rule in the place of one per word."""
        places = np.arange(len(self.table.rules))
        return ((bits[:, places // BITS] >> (places % BITS)) & 1).astype(np.int8)


def as_words(rows: pa.Table, words: Sequence[str]) -> Words:
    """Return bits that stand in columns, a column per word."""
    return np.stack([rows[word].to_numpy() for word in words], axis=1)


def words_in_batches(masks: ValueMasks, column: str, words: Sequence[str]) -> Batches:
    """Return what adds its bits to each distinct value that any pattern matches; others go."""

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            bits = masks.of_values(column, batch.column(0))
            found = np.flatnonzero((bits != masks.unmatched(column)).any(axis=1))
            columns = [pa.array(bits[found, number]) for number in range(len(words))]
            values = batch.column(0).take(pa.array(found))
            yield pa.RecordBatch.from_arrays([values, *columns], [column, *words])

    return ask


def nearest_in_batches(masks: ValueMasks) -> Batches:
    """Return what adds `nearest` to each distinct combination of what the rules look at."""

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = pa.array(masks.nearest(pa.Table.from_batches([batch])), pa.int32())
            yield batch.append_column("nearest", found)

    return ask


def as_compared(values: pa.Array) -> pa.Array:
    """Return values without nulls: blank text, or 0."""
    return pc.fill_null(values, "" if pa.types.is_string(values.type) else 0)


def without_nulls(rows: pa.Table) -> pa.Table:
    """Return rows whose values are as they are compared."""
    columns: Mapping[str, pa.Array] = {
        name: as_compared(rows[name].combine_chunks()) for name in rows.column_names
    }
    return pa.table(columns)


def _encoded(column: pa.ChunkedArray) -> tuple[pa.Array, np.ndarray[Any, Any]]:
    """Return the distinct values of a column, and which of them each row holds."""
    encoded = as_compared(column).combine_chunks().dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False)


def _candidates(pattern: Pattern, values: pa.Array) -> np.ndarray[Any, Any]:
    """Return the places of the values worth asking the matcher about.

    A value that lacks a stretch of the pattern's own letters cannot match. Blanks at the end of
    a stretch may be those a field is padded with, which no value holds.
    """
    if isinstance(pattern.value, int):
        return np.flatnonzero(pc.equal(values, pattern.value))
    if not _WILDCARDS.search(pattern.value):
        trimmed = pc.utf8_rtrim(values, characters=" ")
        return np.flatnonzero(pc.equal(trimmed, pattern.value.rstrip(" ")))
    start, *stretches = _WILDCARDS.split(pattern.value)
    if start.rstrip(" "):
        return np.flatnonzero(pc.starts_with(values, start.rstrip(" ")))
    longest = max((stretch.rstrip(" ") for stretch in stretches), key=len)
    if longest:
        return np.flatnonzero(pc.match_substring(values, longest))
    return np.arange(len(values))
