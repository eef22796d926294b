"""Find the messages of stored snapshots that two rules tables treat differently.

A few messages are compared in this process, many by a Spark job; both decide by the same code. The
result counts how often one treatment became another, with samples, and the messages that each rule
matched.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.evaluation.decisions import Decisions, columns_needed
from mqdlq.evaluation.messages import Bounds, Messages, nul_as_blank, queue_kind, rules_of_file
from mqdlq.evaluation.spark_conf import application
from mqdlq.lake import Snapshot
from mqdlq.lake.schema import HEADERS
from mqdlq.model import Step
from mqdlq.plan import STEP_FIELDS
from mqdlq.rules import Rule, RulesTable, freeze
from mqdlq.rules.comparing import action_text

SAMPLES: Final = 5
MAX_CELLS: Final = 100_000
_ROWS: Final = 4096
_LEFT: Final = "no rule"
_ACTS: Final = tuple(name for name in STEP_FIELDS if name not in {"rule", "rule_line"})

Submit = Callable[[Path, list[str], int], int]


class Sample(NamedTuple):
    """A message by its snapshot, its browse_seq there, and its key (hex)."""

    snapshot_id: str
    browse_seq: int
    message_key: str


_Pair = tuple[tuple[int, ...], tuple[int, ...], bool]
"""The rules of each table that a message matches, and whether its treatment differs."""

_Cells = dict[_Pair, tuple[int, list[Sample]]]
"""How many messages have a pair, and the first few of them if their treatment differs."""


@dataclass(slots=True)
class Cell:
    """The messages whose treatment changes from `old` to `new`, and the first few of them."""

    old: str
    new: str
    messages: int = 0
    samples: list[Sample] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Treatments:
    """Treatments of messages by two tables; each message counts once, as last seen.

    `matched_old` and `matched_new` have the number of messages that each rule matches and no
    earlier rule ends, in table order.
    """

    snapshots: tuple[str, ...]
    messages: int
    cells: tuple[Cell, ...]
    matched_old: tuple[tuple[Rule, int], ...] = ()
    matched_new: tuple[tuple[Rule, int], ...] = ()

    @property
    def different(self) -> int:
        """The number of messages whose treatment differs."""
        return sum(cell.messages for cell in self.cells)

    @property
    def never_old(self) -> tuple[Rule, ...]:
        """The rules of the old table that no message matches."""
        return tuple(rule for rule, messages in self.matched_old if not messages)

    @property
    def never_new(self) -> tuple[Rule, ...]:
        """The rules of the new table that no message matches."""
        return tuple(rule for rule, messages in self.matched_new if not messages)


def treatments_in(
    old: RulesTable, new: RulesTable, stored: Sequence[Snapshot], submit: Submit | None
) -> Treatments:
    """Compare the actions, targets and attempts of each message, in their order.

    With `submit`, a Spark job compares. Raises `LakeError`.
    """
    ids = tuple(snapshot.manifest.snapshot_id for snapshot in stored)
    if not stored:
        return Treatments(ids, 0, ())
    is_blank = nul_as_blank(stored)
    if {old.queue_kind, new.queue_kind} != {kind := queue_kind(stored)}:
        raise LakeError(
            "MQDLQ-438",
            f"the snapshots are of queues of the kind {kind}, but a table is for queues of another"
            " kind; name the kind with --queue-kind",
        )
    if submit:
        found = _compare_in_spark(old, new, stored, submit)
    else:
        found = compared(old, new, is_blank, _batches(stored, _columns(old, new)))
    cells: dict[tuple[str, str], Cell] = {}
    matched_old, matched_new = Counter[int](), Counter[int]()
    for (before, after, differ), (messages, samples) in found.items():
        matched_old.update(dict.fromkeys(before, messages))
        matched_new.update(dict.fromkeys(after, messages))
        if differ:
            labels = _label(before, old), _label(after, new)
            kept = cells.setdefault(labels, Cell(*labels))
            kept.messages += messages
            kept.samples = sorted([*kept.samples, *samples])[:SAMPLES]
    return Treatments(
        ids,
        sum(messages for messages, _ in found.values()),
        tuple(sorted(cells.values(), key=lambda cell: (-cell.messages, cell.old, cell.new))),
        tuple((rule, matched_old[rule.ordinal]) for rule in old.rules),
        tuple((rule, matched_new[rule.ordinal]) for rule in new.rules),
    )


def _batches(stored: Sequence[Snapshot], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([*map(HEADERS.field, columns), ("snapshot_id", pa.string())])
    rows = (
        {**row, "snapshot_id": snapshot.manifest.snapshot_id}
        for snapshot, row in lake.newest_rows(stored, columns)
    )
    while some := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist(some, schema)


def _compare_in_spark(
    old: RulesTable, new: RulesTable, stored: Sequence[Snapshot], submit: Submit
) -> _Cells:
    with tempfile.TemporaryDirectory(prefix="mqdlq-") as directory:
        output = Path(directory, "found.json")
        arguments = ["--output", str(output)]
        for name, table in (("old", old), ("new", new)):
            place = Path(directory, f"{name}.rules")
            place.write_text(freeze(table), encoding="utf-8")
            arguments += [f"--{name}", str(place)]
        for snapshot in stored:
            arguments += ["--snapshot", snapshot.directory]
        messages = sum(snapshot.manifest.messages for snapshot in stored)
        if submit(application("compare_rules"), arguments, messages) or not output.is_file():
            raise LakeError(
                "MQDLQ-412", "the comparison in Spark failed; the lines above have its output"
            )
        return {
            (tuple(before), tuple(after), differ): (messages, [Sample(*one) for one in samples])
            for before, after, differ, messages, samples in json.loads(output.read_bytes())
        }


def _label(rules: Sequence[int], table: RulesTable) -> str:
    return ", then ".join(action_text(table.rules[ordinal - 1]) for ordinal in rules) or _LEFT


def write_comparison(snapshot: Sequence[str], old: str, new: str, output: str) -> None:
    """Compare the frozen tables in two files over snapshots, and write the result as JSON."""
    snapshots = [Snapshot.at(directory) for directory in snapshot]
    kind = queue_kind(snapshots)
    tables = rules_of_file(old, kind, frozen=True), rules_of_file(new, kind, frozen=True)
    found = compare(snapshots, *tables)
    lake.write_text(output, json.dumps([(*pair, *held) for pair, held in found.items()]))


def compare(
    snapshots: Sequence[Snapshot], old: RulesTable, new: RulesTable, bounds: Bounds | None = None
) -> _Cells:
    """Count the pairs of all messages of snapshots in Spark; raise `LakeError`."""
    messages = Messages(
        "mqdlq rules diff", snapshots, _columns(old, new), bounds or Bounds(), whole=True
    )
    strategy, _ = messages.strategy()
    cells: _Cells = {}
    for found in messages.process(partial(compared, old, new, nul_as_blank(snapshots)), strategy):
        for pair, held in found.items():
            _add(cells, pair, *held)
    return cells


def _columns(old: RulesTable, new: RulesTable) -> list[str]:
    return sorted({*columns_needed(old), *columns_needed(new)})


def compared(
    old: RulesTable, new: RulesTable, is_blank: bool, batches: Iterable[pa.RecordBatch]
) -> _Cells:
    """Count the pairs of a task's messages; `is_blank` says whether NULs compare as blanks."""
    before = Decisions(old, nul_as_blank=is_blank)
    after = Decisions(new, nul_as_blank=is_blank)
    found: _Cells = {}
    for batch in batches:
        if batch.num_rows:
            for pair, messages, samples in _counted(batch, before, after):
                _add(found, pair, messages, samples)
    return found


def _add(cells: _Cells, pair: _Pair, messages: int, samples: Sequence[Sample]) -> None:
    held, some = cells.get(pair, (0, []))
    cells[pair] = held + messages, nsmallest(SAMPLES, [*some, *samples])
    if len(cells) > MAX_CELLS:
        raise LakeError(
            "MQDLQ-411",
            f"the messages are treated in more than {MAX_CELLS} ways; compare fewer"
            " snapshots, or tables that differ less",
        )


def _counted(
    batch: pa.RecordBatch, before: Decisions, after: Decisions
) -> Iterator[tuple[_Pair, int, list[Sample]]]:
    """Yield each pair of a batch, with the number of its messages and samples."""
    numbers = before.numbers(batch), after.numbers(batch)
    size = len(after.treatments)
    pairs, places = np.unique(numbers[0] * size + numbers[1], return_inverse=True)
    ordered = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places))
    for pair, start, end in zip(pairs.tolist(), [0, *ends], ends, strict=False):
        old, new = before.treatments.steps(pair // size), after.treatments.steps(pair % size)
        differ = _treatment(old) != _treatment(new)
        some = ordered[start:end] if differ else ordered[:0]
        rules = [tuple(step.rule for step in steps) for steps in (old, new)]
        yield (rules[0], rules[1], differ), int(end - start), _samples(batch, some)


def _samples(batch: pa.RecordBatch, places: Any) -> list[Sample]:
    at = pa.array(places)
    columns = {name: batch.column(name).take(at) for name in Sample._fields}
    columns["snapshot_id"] = columns["snapshot_id"].cast(pa.string())
    ordered = pa.table(columns).sort_by([("snapshot_id", "ascending"), ("browse_seq", "ascending")])
    rows = ordered[:SAMPLES].to_pylist()
    return [Sample(**{**row, "message_key": row["message_key"].hex()}) for row in rows]


def _treatment(steps: tuple[Step, ...]) -> list[tuple[Any, ...]]:
    """Return the treatment, regardless of the rules that cause it."""
    return [tuple(getattr(step, name) for name in _ACTS) for step in steps]
