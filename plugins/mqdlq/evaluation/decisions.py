"""Decide the treatment of batches of messages.

The matcher is called once for each distinct value (see `value_masks`), and steps are made once for
each treatment (see `Treatments`). NumPy and Arrow combine codes and bits for all rows of a batch.
The code runs in Spark's workers, or in the driver for few messages. Its memory is limited for any
number of messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.evaluation.value_masks import (
    KnownValues,
    Numbers,
    Standing,
    ValueMasks,
    Words,
    encoded,
    extension_values,
)
from mqdlq.lake import StepCount
from mqdlq.lake.schema import steps_text
from mqdlq.model import Disposition, Step
from mqdlq.plan import columns_of, resolve, step_of, steps_without_a_dlh, treatment_digest
from mqdlq.rules import RulesTable


def columns_needed(table: RulesTable) -> list[str]:
    """Return the distinct columns of `headers` that an evaluation reads."""
    read = {"browse_seq", "message_key", "class", *table.columns, *targets_needed(table)}
    return sorted(read)


class Decisions:
    """Decisions of one table on successive batches; `treatments` explains their numbers.

    With `has_given_action` the table is one action, given for exactly these messages. About
    `remembered` values of each column, combinations of values, and treatments are cached.
    """

    def __init__(
        self,
        table: RulesTable,
        *,
        nul_as_blank: bool = False,
        explain: bool = False,
        has_given_action: bool = False,
        remembered: int = 65_536,
    ) -> None:
        without_a_dlh = steps_without_a_dlh(table) if has_given_action else ()
        self._targets = tuple(sorted(targets_needed(table)))
        self.treatments = Treatments(explain, without_a_dlh, self._targets)
        self._steps = list(map(step_of, table.rules))
        self._explain = explain
        self._acts_on = table.queue_kind.acts_on.value
        self._masks = ValueMasks(table, nul_as_blank=nul_as_blank)
        self._columns = tuple(sorted({*self._masks.columns, *self._targets}))
        self._chains: dict[bytes, Chain] = {}
        self._known: dict[str, KnownValues] = {}
        self._decided: dict[bytes, int] = {}
        self._remembered = remembered

    def numbers(self, rows: pa.RecordBatch) -> Numbers:
        """Return the number of each row's treatment; numbers are valid until the next call."""
        if max(len(self.treatments), len(self._chains)) > self._remembered:
            self.treatments.forget()
            self._chains.clear()
            self._decided.clear()
        elif len(self._decided) > self._remembered:
            self._decided.clear()
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
        held = {name: encoded(self._values(name, rows)) for name in self._columns}
        which, some = distinct(rows.num_rows, held.values())
        places = {name: self._places(name, values) for name, (values, _) in held.items()}
        # Most combinations were decided in an earlier batch, where their codes were others.
        keys = _keys(len(some), [places[name][codes[some]] for name, (_, codes) in held.items()])
        numbers = [*map(self._decided.get, keys)]
        new = [at for at, number in enumerate(numbers) if number is None]
        if new:
            chosen = {name: (values, codes[some[new]]) for name, (values, codes) in held.items()}
            standing = [
                (self._known[name].bits[places[name]], chosen[name][1])
                for name in self._masks.columns
            ]
            for at, number in zip(new, self._decide(len(new), standing, chosen), strict=True):
                numbers[at] = self._decided[keys[at]] = number
        return np.array(numbers, np.int64)[which]

    def _places(self, name: str, values: pa.Array) -> Numbers:
        """Return the place of each value, the same in every batch until places are forgotten."""
        known = self._known.get(name)
        if known is None or known.is_longer_than(self._remembered):
            known = self._known[name] = KnownValues(name, self._masks)
            self._decided.clear()
        return known.places(values)

    def _values(self, name: str, letters: pa.RecordBatch) -> pa.Array:
        """Return a column as it is compared: that of an extension follows from others."""
        table = self._masks.table
        if keyword := table.extensions.get(name):
            return extension_values(keyword, table.limits.get(name, ()), letters)
        return letters.column(name)

    def _decide(self, number: int, standing: list[Standing], held: dict[str, _Column]) -> list[int]:
        bits = self._masks.combined(number, standing)
        nearest = np.zeros(number, np.int64)
        if self._explain:
            unmatched = np.flatnonzero(~bits.any(axis=1))
            nearest[unmatched] = self._masks.nearest(
                len(unmatched), [(stands, codes[unmatched]) for stands, codes in standing]
            )
        numbers: list[int] = self._decide_rule_sets(bits, held, nearest).tolist()
        return numbers

    def _decide_rule_sets(self, bits: Words, held: dict[str, _Column], nearest: Numbers) -> Numbers:
        sets = _as_bytes(bits).dictionary_encode()
        codes = sets.indices.to_numpy()
        chains = [self._chain(code) for code in sets.dictionary.to_pylist()]
        targets = []
        for name in self._targets:
            values, places = held[name]
            is_needed = np.array([name in chain.columns for chain in chains])[codes]
            # None for rows that need no value, so that it does not distinguish them.
            values = pa.concat_arrays([values, pa.nulls(1, values.type)])
            targets.append((values, np.where(is_needed, places, len(values) - 1)))
        near = pa.nulls(len(self._masks.table.rules) + 1), nearest
        which, some = distinct(len(bits), [(sets.dictionary, codes), *targets, near])
        alike = zip(
            [chains[code] for code in codes[some].tolist()],
            nearest[some].tolist(),
            *(values.take(pa.array(places[some])).to_pylist() for values, places in targets),
            strict=True,
        )
        return np.array(self.treatments.numbers(alike), np.int64)[which]

    def _chain(self, code: bytes) -> Chain:
        if code not in self._chains:
            rules = self._masks.rules(np.frombuffer(code, np.int64).tolist())
            steps = tuple(self._steps[rule.ordinal - 1] for rule in rules)
            self._chains[code] = Chain(steps, columns_of(steps))
        return self._chains[code]


_Column = tuple[pa.Array, Numbers]
"""The values of a column, and for each row the index of its value."""


def distinct(rows: int, columns: Iterable[_Column]) -> tuple[Numbers, Numbers]:
    """Return the number of each row's distinct combination, and one row for each combination."""
    combined, size = np.zeros(rows, np.int64), 1
    for held, codes in columns:
        values = max(len(held), 1)
        if size * values >= 1 << 62:
            dense = pa.array(combined).dictionary_encode()
            combined, size = dense.indices.to_numpy().astype(np.int64), len(dense.dictionary)
        combined = combined * values + codes
        size *= values
    dense = pa.array(combined).dictionary_encode()
    which = dense.indices.to_numpy()
    some = np.empty(len(dense.dictionary), np.int64)
    some[which] = np.arange(rows)
    return which, some


def _keys(rows: int, places: Sequence[Numbers]) -> list[bytes]:
    """Return what stands for each row's combination of places."""
    whole = np.column_stack([np.zeros(rows, np.int32), *places]).astype(np.int32)
    keys: list[bytes] = whole.view(f"V{whole.strides[0]}").ravel().tolist()
    return keys


def _as_bytes(bits: Words) -> pa.FixedSizeBinaryArray:
    held = np.ascontiguousarray(bits)
    kind = pa.binary(held.shape[1] * held.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(held), [None, pa.py_buffer(held)])


# Number the treatments of messages, and make the steps of each treatment once: many messages have
# the same.

UNPROCESSABLE: Final = 0
"""The treatment number of messages of a class that no rule matches."""

SCHEMA: Final = pa.schema(
    [
        ("disposition", pa.string()),
        ("steps", pa.string()),
        ("winning_rule", pa.int32()),
        ("nearest_rule", pa.int32()),
        ("digest", pa.binary()),
    ]
)
"""The columns of a treatment."""

TARGETS_TO_A_RULE: Final = 1000
"""The most targets by which a rule's messages are counted; with more, there is one count."""

MANY: Final = "*"
"""The target that stands for too many targets; no queue has this name."""

_Row = tuple[Disposition, tuple[Step, ...], tuple[int, int]]


def targets_needed(table: RulesTable) -> frozenset[str]:
    return frozenset(columns_of(map(step_of, table.rules)))


@dataclass(frozen=True, eq=False, slots=True)
class Chain:
    """The steps of all messages that match the same rules, and the columns of their targets."""

    steps: tuple[Step, ...]
    columns: tuple[str, ...]


class Treatments:
    """The treatments so far, numbered from 1, and the number of messages of each.

    With `explain`, they include the winning and the nearest rule. `without_a_dlh` are the steps of
    a message without a valid MQDLH: empty, unless an action is given for messages by name.
    `columns` are those of all targets.
    """

    _numbers: dict[Any, int]
    _rows: list[_Row]
    _counts: Any
    _made: Any

    def __init__(
        self, explain: bool, without_a_dlh: tuple[Step, ...], columns: Sequence[str]
    ) -> None:
        self._explain, self._without_a_dlh, self._columns = explain, without_a_dlh, columns
        self._step_counts: list[StepCount] = []
        self._dispositions: Counter[str] = Counter()
        self._clear()

    def __len__(self) -> int:
        return len(self._rows)

    def numbers(self, alike: Iterable[tuple[Any, ...]]) -> list[int]:
        """Return the number of the treatment of each combination of what decides about it.

        This is the chain, the ordinal of the nearest rule if none matches, and the value of each
        of the `columns`, None if the chain does not need it.
        """
        numbers = self._numbers
        return [numbers[what] if what in numbers else self._add(what) for what in alike]

    def _add(self, what: tuple[Any, ...]) -> int:
        chain, nearest, *targets = what
        held = dict(zip(self._columns, targets, strict=True))
        steps = tuple(resolve(step, held) for step in chain.steps)
        planned = Disposition.PLANNED if steps else Disposition.UNMATCHED
        explained = (steps[0].rule if steps and self._explain else 0, nearest)
        self._rows.append((planned, steps, explained))
        return self._numbers.setdefault(what, len(self._rows) - 1)

    def count(self, numbers: Any) -> None:
        counted = np.bincount(numbers, minlength=len(self._rows))
        counted[: len(self._counts)] += self._counts
        self._counts = counted

    def steps(self, number: int) -> tuple[Step, ...]:
        return self._rows[number][1]

    def rows(self, numbers: Any) -> pa.RecordBatch:
        """Return the treatment of each number, in the columns of `SCHEMA`.

        Texts are dictionaries of the values that these rows have, as Parquet stores them.
        """
        new = self._rows[self._made.num_rows :]
        if new:
            columns = zip(*(_as_row(*row) for row in new), strict=True)
            made = pa.RecordBatch.from_arrays(
                list(map(pa.array, columns, SCHEMA.types)), SCHEMA.names
            )
            self._made = pa.concat_batches([self._made, made])
        used = np.flatnonzero(np.bincount(numbers))
        places = np.zeros(len(self._rows), np.int32)
        places[used] = np.arange(len(used))
        held = self._made.take(pa.array(used)).columns
        repeated = [
            each.dictionary_encode() if pa.types.is_string(each.type) else each for each in held
        ]
        codes = pa.array(places[numbers])
        return pa.RecordBatch.from_arrays([each.take(codes) for each in repeated], SCHEMA.names)

    def forget(self) -> None:
        """Restart the numbering, and keep the counts."""
        self._add_up()
        self._clear()

    def counted(self) -> tuple[dict[str, int], list[StepCount]]:
        """Count the messages since the last call by disposition, and by their first steps."""
        self._add_up()
        found = dict(self._dispositions), self._step_counts
        self._dispositions, self._step_counts = Counter(), []
        return found

    def _add_up(self) -> None:
        firsts: Counter[tuple[Any, ...]] = Counter()
        for (disposition, steps, _), count in zip(self._rows, self._counts.tolist(), strict=False):
            self._dispositions[disposition.value] += count
            for step in steps[:1]:
                target = step.target_q, step.target_q_mgr
                firsts[step.rule, step.action.value, *target, step.rule_line] += count
        counts = [StepCount(*(*first, count)) for first, count in firsts.items() if count]
        self._step_counts = summed([*self._step_counts, *counts])
        self._counts = np.zeros(0, np.int64)

    def _clear(self) -> None:
        self._numbers = {}
        steps = self._without_a_dlh
        disposition = Disposition.PLANNED if steps else Disposition.UNPROCESSABLE
        explained = (steps[0].rule if steps and self._explain else 0, 0)
        self._rows = [(disposition, steps, explained)]
        self._counts = np.zeros(0, np.int64)
        self._made = pa.RecordBatch.from_pylist([], schema=SCHEMA)


def _as_row(
    disposition: Disposition, steps: tuple[Step, ...], explained: tuple[int, int]
) -> tuple[Any, ...]:
    """Return a treatment in the columns of `SCHEMA`."""
    winning, nearest = explained
    digest = bytes.fromhex(treatment_digest(disposition, steps))
    return disposition.value, steps_text(steps), winning or None, nearest or None, digest


def summed(counts: Iterable[StepCount]) -> list[StepCount]:
    """Add up the counts of equal first steps, or of a whole rule if it has too many targets.

    The result does not depend on how the counts were divided.
    """
    found: Counter[tuple[Any, ...]] = Counter()
    for count in counts:
        to = count.target_q, count.target_q_mgr
        found[count.rule, count.action, *to, count.rule_line] += count.messages
    targets = Counter(rule for rule, *_ in found)
    many = {rule for rule, number in targets.items() if number > TARGETS_TO_A_RULE}
    many |= {rule for rule, _, target_q, *_ in found if target_q == MANY}
    told: Counter[tuple[Any, ...]] = Counter()
    for (rule, action, *target, line), messages in found.items():
        told[rule, action, *((MANY, "") if rule in many else target), line] += messages
    return [StepCount(*(*step, messages)) for step, messages in told.items()]
