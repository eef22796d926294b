"""Compute the rules that each value of a column allows, as bits.

The matcher is called for every distinct value of every column that rules use. The rules of a
message are the bits that all its values share. This module does not use Spark.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.rules import Pattern, Rule, RulesTable, with_nuls_as_blanks
from mqdlq.rules.extensions import NEVER, SEPARATOR, UNKNOWN
from mqdlq.rules.keywords import KNOWN, Keyword, Kind, Measure

BITS: Final = 62
"""Rules in a word. Two bits of a long stay unused, so that arithmetic does not overflow."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]

Words = Numbers
"""A row for each value or message, a column for each word."""

Standing = tuple[Words, np.ndarray[Any, Any]]
"""The bits of a column's values, and the index of each row's value."""

_WILDCARDS: Final = re.compile(r"[*?]")


class ValueMasks:
    """The bits of a rules table, whose rule of ordinal n is bit (n - 1) % BITS of word n // BITS.

    With `nul_as_blank`, NULs are compared as blanks, unlike in IBM's handler.
    """

    def __init__(self, table: RulesTable, *, nul_as_blank: bool = False) -> None:
        self.table = table
        self.nul_as_blank = nul_as_blank
        self.columns = table.compared
        self.words = max(-(-len(table.rules) // BITS), 1)
        self.everything = self.bits(table.rules)
        self._asking: dict[str, dict[Pattern, list[Rule]]] = {
            column: defaultdict(list) for column in table.compared
        }
        for rule in table.rules:
            for pattern in rule.patterns:
                self._asking[pattern.column][pattern].append(rule)
        self._last = self.bits([rule for rule in table.rules if rule.cannot_fail])

    def bits_of_values(self, column: str, values: pa.Array) -> Words:
        """Return the bits of the rules that each value of a column allows.

        Values should be distinct and not null: an absent value is a field of blanks, or 0.
        """
        present = values
        if self.nul_as_blank and pa.types.is_string(present.type):
            blanked = (with_nuls_as_blanks({"": value})[""] for value in present.to_pylist())
            present = pa.array(blanked, pa.string())
        # Any value allows the rules that do not use the column.
        asking = [rule for rules in self._asking[column].values() for rule in rules]
        bits = np.tile(self.everything & ~self.bits(asking), (len(present), 1))
        exact = _places_of_named(present, self._asking[column])
        allowed: dict[int, int] = defaultdict(int)  # in numbers, faster than arrays to add to
        for pattern, rules in self._asking[column].items():
            candidates = pa.array(_candidates(pattern, present, exact), pa.int64())
            more = _as_number(rules)
            found = zip(candidates.to_pylist(), present.take(candidates).to_pylist(), strict=True)
            for at, value in found:
                if pattern.matches(value):
                    allowed[at] |= more
        words = {each: self._words_of(each) for each in set(allowed.values())}
        added = np.array([words[each] for each in allowed.values()], np.int64)
        bits[list(allowed)] |= added.reshape(-1, self.words)
        return bits

    def combined(self, rows: int, standing: Sequence[Standing]) -> Words:
        """Return the bits that all values of a row allow, up to the first rule that cannot fail."""
        bits = np.tile(self.everything, (rows, 1))
        for stands, codes in standing:
            bits &= stands[codes]
        ended = np.zeros(rows, bool)
        for word in range(self.words):
            stop = bits[:, word] & self._last[word]
            lowest = stop & -stop
            kept = np.where(stop == 0, bits[:, word], bits[:, word] & (lowest | (lowest - 1)))
            bits[:, word] = np.where(ended, 0, kept)
            ended |= stop != 0
        return bits

    def nearest(self, rows: int, standing: Sequence[Standing]) -> np.ndarray[Any, Any]:
        """Return the ordinal of the rule nearest to each row: the first with the fewest failures.

        This equals `mqdlq.rules.explain(…).nearest`. A rule has at most one pattern for a column,
        so its failures are the columns whose value does not allow it.
        """
        unpacked = [(self._unpacked(stands), codes) for stands, codes in standing]
        found = np.zeros(rows, np.int32)
        for start in range(0, rows if self.table.rules else 0, 4096):
            chunk = slice(start, start + 4096)
            left = np.zeros((len(found[chunk]), len(self.table.rules)), np.int16)
            for stands, codes in unpacked:
                left += stands[codes[chunk]]
            found[chunk] = left.argmax(axis=1) + 1
        return found

    def rules(self, bits: Sequence[int]) -> Iterator[Rule]:
        """Yield the rules of one row of bits, in table order."""
        for word, held in enumerate(bits):
            left = int(held)
            while left:
                lowest = left & -left
                yield self.table.rules[word * BITS + lowest.bit_length() - 1]
                left ^= lowest

    def bits(self, rules: Iterable[Rule]) -> Words:
        return np.array(self._words_of(_as_number(rules)), np.int64)

    def _words_of(self, bits: int) -> list[int]:
        return [bits >> BITS * word & (1 << BITS) - 1 for word in range(self.words)]

    def _unpacked(self, bits: Words) -> np.ndarray[Any, np.dtype[np.int8]]:
        """Expand the columns of words to a column for each rule."""
        places = np.arange(len(self.table.rules))
        return ((bits[:, places // BITS] >> (places % BITS)) & 1).astype(np.int8)


class KnownValues:
    """The values of a column so far, each at its place, with the bits of the rules it allows.

    A column that no rule compares, which has a target only, has no bits.
    """

    def __init__(self, column: str, masks: ValueMasks) -> None:
        self._column, self._masks = column, masks
        self._values: pa.Array | None = None
        self.bits: Words = np.empty((0, masks.words), np.int64)

    def is_longer_than(self, most: int) -> bool:
        return self._values is not None and len(self._values) > most

    def places(self, values: pa.Array) -> Numbers:
        """Return the place of each value; the matcher is asked about new ones."""
        held = values[:0] if self._values is None else self._values
        found = pc.index_in(values, value_set=held)
        if found.null_count or self._values is None:
            new = values.filter(pc.is_null(found))
            self._values = pa.concat_arrays([held, new])
            if self._column in self._masks.columns:
                more = self._masks.bits_of_values(self._column, new)
                self.bits = np.concatenate([self.bits, more])
            found = pc.index_in(values, value_set=self._values)
        places: Numbers = found.to_numpy()
        return places


def encoded(column: pa.Array) -> tuple[pa.Array, Words]:
    """Return the values of a column as they are compared, and the index of each row's value."""
    held = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    blank = "" if pa.types.is_string(held.type.value_type) else 0
    values = pa.concat_arrays([held.dictionary, pa.array([blank], held.type.value_type)])
    codes = pc.fill_null(held.indices, len(held.dictionary)).to_numpy(zero_copy_only=False)
    return values, codes


def _as_number(rules: Iterable[Rule]) -> int:
    """Return the bits of all words as one number."""
    return sum(1 << rule.ordinal - 1 for rule in rules)


def _places_of_named(
    values: pa.Array, patterns: Iterable[Pattern]
) -> Mapping[str | int, Sequence[int]]:
    """Return where each value is that a pattern names as it is, without trailing blanks."""
    named: set[Any] = {pattern.value for pattern in patterns}
    if pa.types.is_string(values.type):
        values = pc.utf8_rtrim(values, " ")
        named = {value.rstrip(" ") for value in named}
    else:
        values = values.cast(pa.int64())
        named = {value for value in named if isinstance(value, int)}  # no conditions
    # Most of a million different values are named by no pattern, and are not made objects here.
    met = pc.indices_nonzero(pc.is_in(values, value_set=pa.array(named, values.type)))
    places = defaultdict(list)
    for place, value in zip(met.to_pylist(), values.take(met).to_pylist(), strict=True):
        places[value].append(place)
    return places


def _candidates(
    pattern: Pattern, values: pa.Array, exact: Mapping[str | int, Sequence[int]]
) -> Sequence[int]:
    """Return the indexes of values that may match a pattern; `exact` has those of each value.

    A value that lacks a literal part of the pattern cannot match. Trailing blanks of a part may be
    the padding of the field, which values do not have.
    """
    everything = range(len(values))
    if isinstance(pattern.value, int):
        return exact.get(pattern.value, ())
    is_property = KNOWN[pattern.keyword].kind is Kind.PROPERTY
    if is_property or not pa.types.is_string(values.type):  # the few values of an extension
        return everything
    if not _WILDCARDS.search(pattern.value):
        return exact.get(pattern.value.rstrip(" "), ())
    start, *stretches = _WILDCARDS.split(pattern.value)
    if start.rstrip(" "):
        return _indexes(pc.starts_with(values, start.rstrip(" ")))
    longest = max((stretch.rstrip(" ") for stretch in stretches), key=len)
    return _indexes(pc.match_substring(values, longest)) if longest else everything


def _indexes(chosen: pa.Array) -> list[int]:
    found: list[int] = pc.indices_nonzero(chosen).to_pylist()
    return found


# Compute the values of extensions for all rows of a batch: `mqdlq.rules.extensions`
# defines those of one message. A number stands for all numbers that fulfil the same conditions, so
# that the matcher is called for few values.


def extension_values(keyword: Keyword, limits: Sequence[int], rows: pa.RecordBatch) -> pa.Array:
    """Return the values of an extension as `RulesTable.key_of`; rules compare it with `limits`."""
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
