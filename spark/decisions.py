"""What is to be done with each message: a snapshot's rows and a table in, treatments out.

The core's matcher is asked once per distinct value (see `value_masks`), the core makes the steps
of each set of rules that meets (see `treatments`); per message there are joins, and bits put
together, in Spark. Where there is little to ask the driver does it, within `Bounds`; where there
is much, Spark's workers ask about the distinct values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from lookups import counted, distinct_rows, joined, keyed
from mqdlq.plan import cannot_fail
from mqdlq.rules import Rule, RulesTable
from strategies import Bounds, Choice, Group, Strategy, choose, in_groups
from treatments import UNPROCESSABLE, Treatments, targets_needed
from value_masks import (
    ValueMasks,
    Words,
    as_words,
    nearest_in_batches,
    without_nulls,
    words_in_batches,
)
from workers import asked_of_workers

DEAD = "is_dead_letter"


@dataclass(frozen=True)
class Question:
    """What is asked: the table, how it reads NULs, whether to explain, and within which bounds.

    `sample` are rows of the messages, `is_all` says that it has all `messages`.
    """

    table: RulesTable
    sample: pa.Table
    messages: int
    is_all: bool = False
    nul_as_blank: bool = False
    explain: bool = False
    bounds: Bounds = field(default_factory=Bounds)


@dataclass(frozen=True)
class Decided:
    """Messages with `treatment`, a number in `treatments`, or with their bits where it is None.

    `how` says what was done, for people. `nearest_rule` is a column of the messages where
    `has_nearest`, else of the treatments. Where they were `moved`, no order is left among messages.
    """

    messages: DataFrame
    treatments: Treatments | None
    how: str
    has_nearest: bool = False
    moved: bool = False


def decide(spark: SparkSession, messages: DataFrame, asked: Question) -> Decided:
    """Decide about every message; `messages` are rows of snapshots with all columns needed."""
    masks = ValueMasks(asked.table, nul_as_blank=asked.nul_as_blank)
    targets = sorted(targets_needed(asked.table))
    rows = keyed(messages, DEAD, sorted({*masks.columns, *targets}))
    choice, known = _choice(asked, masks.columns, targets)
    if choice.strategy is Strategy.COMBINATIONS:
        decided = _by_combinations(spark, rows, asked, masks, known=known, choice=choice)
        if decided:
            return decided
        why = f"{choice.why}, and yet more than the driver takes ({asked.bounds.combinations})"
        choice = in_groups(
            asked.sample,
            masks.columns,
            messages=asked.messages,
            bounds=asked.bounds,
            why=why,
        )
    return _by_values(spark, rows, asked, masks, targets=targets, choice=choice)


def _choice(
    asked: Question, columns: Sequence[str], targets: Sequence[str]
) -> tuple[Choice, tuple[str, ...]]:
    """Choose; where combinations stay few, targets are looked up with them and known."""
    choice = _chosen(asked, sorted({*columns, *targets}))
    if choice.strategy is Strategy.COMBINATIONS:
        return choice, tuple(targets)
    return _chosen(asked, columns), _both(targets, columns)


def _chosen(asked: Question, columns: Sequence[str]) -> Choice:
    return choose(
        asked.sample, columns, messages=asked.messages, is_all=asked.is_all, bounds=asked.bounds
    )


def _both(some: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in some if name in others)


def _by_combinations(
    spark: SparkSession,
    rows: DataFrame,
    asked: Question,
    masks: ValueMasks,
    *,
    known: tuple[str, ...],
    choice: Choice,
) -> Decided | None:
    """Decide about distinct combinations in the driver; None if there are too many of them."""
    key = (DEAD, *sorted({*masks.columns, *known}))
    if asked.is_all:
        seen: pa.Table | None = distinct_rows(asked.sample, DEAD, key)
    else:
        seen = counted(rows, key, asked.bounds.combinations)
    if seen is None:
        return None
    treatments = Treatments(asked.table, known, asked.explain)
    numbers = _numbers(seen, masks.of_rows(seen), masks, treatments)
    table = seen.append_column("treatment", pa.array(numbers, pa.int32()))
    how = f"strategy {Strategy.COMBINATIONS}: {choice.why}; {seen.num_rows} decided in the driver"
    return Decided(joined(spark, rows, table, key, ("treatment",)), treatments, how)


def _by_values(
    spark: SparkSession,
    rows: DataFrame,
    asked: Question,
    masks: ValueMasks,
    *,
    targets: Sequence[str],
    choice: Choice,
) -> Decided:
    """Join each group's bits, put them together, and decide about the distinct results."""
    base, kept, words = rows, rows.columns, [f"word_{number}" for number in range(masks.words)]
    lookups: list[Sequence[str]] = []
    told = []
    for group in choice.groups:
        rows, added, where = _with_bits(rows, base, group, masks, asked.bounds)
        lookups += added
        told.append(f"{'+'.join(group.columns)} in the {where}")
    rows = rows.select(*kept, *_put_together(lookups, masks, words))
    how = f"strategy {Strategy.VALUES}: {choice.why}; {', '.join(told)}"
    moved = asked.explain or any(told_of.endswith("workers") for told_of in told)
    if asked.explain:
        rows = _with_nearest(rows, masks, words)
    for known in (tuple(name for name in targets if _is_few(asked, name)), ()):
        key = (DEAD, *words, *known)
        seen = counted(rows, key, asked.bounds.treatments)
        if seen is not None:
            treatments = Treatments(asked.table, known, asked.explain)
            numbers = _numbers(seen, as_words(seen, words), masks, treatments)
            table = seen.append_column("treatment", pa.array(numbers, pa.int32()))
            found = joined(spark, rows, table, key, ("treatment",))
            how += f"; {seen.num_rows} sets of rules decided in the driver"
            return Decided(found, treatments, how, has_nearest=asked.explain, moved=moved)
    how += f"; more than {asked.bounds.treatments} sets of rules: steps made of bits in Spark"
    return Decided(rows, None, how, has_nearest=asked.explain, moved=moved)


def _is_few(asked: Question, name: str) -> bool:
    """Say whether a target may be told with the rules that meet, as it hardly varies."""
    return bool(len(asked.sample[name].unique()) <= max(asked.sample.num_rows // 64, 1))


def _with_bits(
    rows: DataFrame, base: DataFrame, group: Group, masks: ValueMasks, bounds: Bounds
) -> tuple[DataFrame, list[Sequence[str]], str]:
    """Add the bits the values of a group's columns leave standing; say who asked the matcher.

    `base` are the same rows before anything was joined to them.
    """
    names = [f"bits_{'_'.join(group.columns)}_{number}" for number in range(masks.words)]
    limit = bounds.values if len(group.columns) == 1 else bounds.combinations
    seen = counted(base, group.columns, limit) if group.in_driver else None
    if seen is not None:
        bits = masks.of_rows(seen, group.columns)
        for number, name in enumerate(names):
            seen = seen.append_column(name, pa.array(bits[:, number], pa.int64()))
        return joined(base.sparkSession, rows, seen, group.columns, names), [names], "driver"
    lookups: list[Sequence[str]] = []
    for column in group.columns:
        names = [f"bits_{column}_{number}" for number in range(masks.words)]
        kind = dict(base.dtypes)[column]
        schema = ", ".join([f"`{column}` {kind}", *(f"`{name}` bigint" for name in names)])
        asks = words_in_batches(masks, column, tuple(names))
        table = asked_of_workers(base.select(column).distinct(), asks, schema)
        unmatched = zip(names, masks.unmatched(column).tolist(), strict=True)
        rows = rows.join(table, column, "left").withColumns(
            {name: F.coalesce(name, F.lit(bits).cast("bigint")) for name, bits in unmatched}
        )
        lookups.append(names)
    return rows, lookups, "workers"


def _put_together(
    of_groups: Sequence[Sequence[str]], masks: ValueMasks, words: Sequence[str]
) -> list[Column]:
    """Return the bits all groups leave standing, up to the first rule that cannot fail."""
    last = masks.bits([rule for rule in masks.table.rules if cannot_fail(rule)]).tolist()
    ended: Column = ~F.col(DEAD)
    found = []
    for number, word in enumerate(words):
        bits = reduce(Column.bitwiseAND, (F.col(group[number]) for group in of_groups))
        stop = bits.bitwiseAND(F.lit(last[number]).cast("bigint"))
        lowest = stop.bitwiseAND(-stop)
        kept = F.when(stop == 0, bits).otherwise(bits.bitwiseAND(lowest + lowest - 1))
        found.append(F.when(ended, F.lit(0).cast("bigint")).otherwise(kept).alias(word))
        ended = ended | (stop != 0)
    return found


def _with_nearest(rows: DataFrame, masks: ValueMasks, words: Sequence[str]) -> DataFrame:
    """Add `nearest_rule` where no rule matches, asked once per distinct combination."""
    is_unmatched = reduce(Column.__and__, (F.col(word) == 0 for word in words)) & F.col(DEAD)
    columns = list(masks.columns)
    if not columns:
        return rows.withColumn("nearest_rule", F.lit(None).cast("int"))
    schema = ", ".join(
        [*(f"`{name}` {kind}" for name, kind in rows.select(*columns).dtypes), "nearest int"]
    )
    asks = nearest_in_batches(masks)
    unmatched = rows.where(is_unmatched).select(*columns).distinct()
    found = asked_of_workers(unmatched, asks, schema)
    nearest = F.when(is_unmatched, F.col("nearest")).alias("nearest_rule")
    return rows.join(found, columns, "left").select(*rows.columns, nearest)


def _numbers(seen: pa.Table, bits: Words, masks: ValueMasks, treatments: Treatments) -> list[int]:
    """Give a number to the treatment of each distinct row, and count its messages."""
    is_dead = seen[DEAD].to_pylist()
    known = list(treatments.known)
    held = without_nulls(seen.select(known)).to_pylist() if known else [{}] * seen.num_rows
    nearest = _nearest(seen, bits, is_dead, masks, treatments)
    meeting: dict[bytes, tuple[Rule, ...]] = {}
    numbers = []
    places = zip(np.ascontiguousarray(bits), is_dead, held, nearest, strict=True)
    for row, dead, values, near in places:
        if not dead:
            numbers.append(UNPROCESSABLE)
            continue
        code = row.tobytes()
        if code not in meeting:
            meeting[code] = tuple(masks.rules(tuple(row)))
        numbers.append(treatments.number(meeting[code], values, near))
    for number, count in zip(numbers, seen["messages"].to_pylist(), strict=True):
        treatments.counts[number] += count
    return numbers


def _nearest(
    seen: pa.Table, bits: Words, is_dead: list[bool], masks: ValueMasks, treatments: Treatments
) -> list[int]:
    """Return the nearest rule of each row that meets none, where it is wanted and can be told."""
    found = np.zeros(seen.num_rows, np.int32)
    if treatments.explain and set(masks.columns) <= set(seen.column_names):
        unmatched = np.flatnonzero(~bits.any(axis=1) & np.array(is_dead, bool))
        found[unmatched] = masks.nearest(seen.take(pa.array(unmatched)))
    return [int(number) for number in found]
