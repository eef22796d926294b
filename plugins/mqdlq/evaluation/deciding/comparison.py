"""Compare the treatments of two rules tables on batches of messages.

Spark's tasks run this code. Each task yields a cell for each pair of chains in its messages.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from heapq import nsmallest
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from mqdlq.errors import LakeError
from mqdlq.evaluation.deciding.decisions import Decisions
from mqdlq.model import Step
from mqdlq.plan import STEP_FIELDS
from mqdlq.rules import RulesTable

SCHEMA: Final = pa.schema([("cell", pa.string())])

SAMPLES: Final = 5
MAX_CELLS: Final = 100_000

_ACTS: Final = tuple(name for name in STEP_FIELDS if name not in {"rule", "rule_line"})


class Sample(NamedTuple):
    """A message by its snapshot, its browse_seq there, and its key (hex)."""

    snapshot_id: str
    browse_seq: int
    message_key: str


@dataclass(frozen=True, slots=True)
class Cell:
    """The messages that match these rules in each table, and whether their treatment differs.

    `samples` has the first few messages.
    """

    old: tuple[int, ...]
    new: tuple[int, ...]
    differ: bool
    messages: int = 0
    samples: tuple[Sample, ...] = field(default=())

    def to_json(self) -> str:
        """Return the cell as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Cell:
        """Parse the output of `to_json`."""
        values = json.loads(text)
        values["samples"] = tuple(Sample(*one) for one in values["samples"])
        return cls(**{**values, "old": tuple(values["old"]), "new": tuple(values["new"])})

    def shown(self) -> dict[str, Any]:
        """Return the cell in the form that `mqdlq rules diff` reads."""
        return {
            "old": list(self.old),
            "new": list(self.new),
            "messages": self.messages,
            "samples": [list(sample) for sample in self.samples],
        }


@dataclass(frozen=True)
class Comparison:
    """Comparison of two tables on the same messages, as a function for Spark's tasks."""

    old: RulesTable
    new: RulesTable
    nul_as_blank: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the cells of a task's messages."""
        before = Decisions(self.old, nul_as_blank=self.nul_as_blank)
        after = Decisions(self.new, nul_as_blank=self.nul_as_blank)
        found: list[Cell] = []
        for batch in batches:
            if batch.num_rows:
                found = sum_cells([*found, *_cells(batch, before, after)])
        cells = [cell.to_json() for cell in found]
        yield pa.RecordBatch.from_pydict({"cell": cells}, SCHEMA)


def compared(work: Comparison, found: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Return the sum of the cells that `work` yields.

    The result has the number of messages, the cells of messages whose treatment differs, and the
    number of messages that each rule matched, in table order. A cell has the ordinals of the `old`
    and `new` rules, the number of `messages`, and a few samples in the order of `Sample`.
    """
    texts = (text for batch in found for text in batch.column("cell").to_pylist())
    cells = sum_cells(map(Cell.from_json, texts))
    old: Counter[int] = Counter()
    new: Counter[int] = Counter()
    for cell in cells:
        old.update(dict.fromkeys(cell.old, cell.messages))
        new.update(dict.fromkeys(cell.new, cell.messages))
    differ = [cell for cell in cells if cell.differ]
    differ.sort(key=lambda cell: (-cell.messages, cell.old, cell.new))
    return {
        "messages": sum(cell.messages for cell in cells),
        "cells": [cell.shown() for cell in differ],
        "matched": {
            "old": [old[rule.ordinal] for rule in work.old.rules],
            "new": [new[rule.ordinal] for rule in work.new.rules],
        },
    }


def sum_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Add up cells of the same rules; raise `LakeError` if there are too many."""
    found: dict[tuple[Any, ...], Cell] = {}
    for cell in cells:
        key = (cell.old, cell.new, cell.differ)
        held = found.get(key, replace(cell, messages=0, samples=()))
        samples = nsmallest(SAMPLES, (*held.samples, *cell.samples))
        found[key] = replace(held, messages=held.messages + cell.messages, samples=tuple(samples))
        if len(found) > MAX_CELLS:
            raise LakeError(
                "MQDLQ-411",
                f"the messages are treated in more than {MAX_CELLS} ways; compare fewer"
                " snapshots, or tables that differ less",
            )
    return list(found.values())


def _cells(batch: pa.RecordBatch, before: Decisions, after: Decisions) -> Iterator[Cell]:
    """Yield a cell for each pair of treatments in a batch."""
    numbers = before.numbers(batch), after.numbers(batch)
    size = len(after.treatments)
    pairs, places = np.unique(numbers[0] * size + numbers[1], return_inverse=True)
    ordered = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places))
    for pair, start, end in zip(pairs.tolist(), [0, *ends], ends, strict=False):
        old, new = before.treatments.steps(pair // size), after.treatments.steps(pair % size)
        differ = _treatment(old) != _treatment(new)
        some = ordered[start:end] if differ else ordered[:0]
        yield Cell(_rules(old), _rules(new), differ, int(end - start), _samples(batch, some))


def _samples(batch: pa.RecordBatch, places: Any) -> tuple[Sample, ...]:
    """Return the first of these rows."""
    rows = pa.table(
        {
            "snapshot_id": batch.column("snapshot_id").take(pa.array(places)).cast(pa.string()),
            "browse_seq": batch.column("browse_seq").take(pa.array(places)),
            "message_key": batch.column("message_key").take(pa.array(places)),
        }
    )
    ordered = rows.sort_by([("snapshot_id", "ascending"), ("browse_seq", "ascending")])
    return tuple(
        Sample(row["snapshot_id"], row["browse_seq"], row["message_key"].hex())
        for row in ordered[:SAMPLES].to_pylist()
    )


def _rules(steps: tuple[Step, ...]) -> tuple[int, ...]:
    return tuple(step.rule for step in steps)


def _treatment(steps: tuple[Step, ...]) -> list[tuple[Any, ...]]:
    """Return the treatment, regardless of the rules that cause it."""
    return [tuple(getattr(step, name) for name in _ACTS) for step in steps]
