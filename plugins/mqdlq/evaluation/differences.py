"""Find the messages of stored snapshots that two rules tables treat differently.

A few messages are compared in this process, many by a Spark job; both decide by the same code.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.evaluation.deciding.comparison import SAMPLES, SCHEMA, Comparison, Sample, compared
from mqdlq.evaluation.deciding.decisions import columns_needed
from mqdlq.evaluation.reading.messages import Messages
from mqdlq.evaluation.reading.snapshot_rows import nul_as_blank
from mqdlq.evaluation.reading.strategies import Bounds, queue_kind, rules_of_file
from mqdlq.evaluation.spark_conf import application
from mqdlq.lake import Snapshot
from mqdlq.lake.schema import HEADERS
from mqdlq.rules import Rule, RulesTable, freeze
from mqdlq.rules.comparing import action_text

_ROWS: Final = 4096
_LEFT: Final = "no rule"

Submit = Callable[[Path, list[str], int], int]


@dataclass(slots=True)
class Cell:
    """The messages whose treatment changes from `old` to `new`.

    `samples` has the first few messages.
    """

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
    if len({snapshot.manifest.nul_as_blank for snapshot in stored}) > 1:
        raise LakeError(
            "MQDLQ-407",
            "some snapshots compare NULs as blanks (nul_as_blank), others do not; name snapshots"
            " with the same setting",
        )
    if {old.queue_kind, new.queue_kind} != {kind := queue_kind(stored)}:
        raise LakeError(
            "MQDLQ-438",
            f"the snapshots are of queues of the kind {kind}, but a table is for queues of another"
            " kind; name the kind with --queue-kind",
        )
    found = (
        _compare_in_spark(old, new, stored, submit)
        if submit
        else _compare_locally(old, new, stored)
    )
    cells: dict[tuple[str, str], Cell] = {}
    for cell in found["cells"]:
        labels = _label(cell["old"], old), _label(cell["new"], new)
        kept = cells.setdefault(labels, Cell(*labels))
        kept.messages += cell["messages"]
        samples = [Sample(*sample) for sample in cell["samples"]]
        kept.samples = sorted([*kept.samples, *samples])[:SAMPLES]
    in_order = sorted(cells.values(), key=lambda cell: (-cell.messages, cell.old, cell.new))
    matched = found["matched"]
    return Treatments(
        ids,
        found["messages"],
        tuple(in_order),
        tuple(zip(old.rules, matched["old"], strict=True)),
        tuple(zip(new.rules, matched["new"], strict=True)),
    )


def _compare_locally(
    old: RulesTable, new: RulesTable, stored: Sequence[Snapshot]
) -> dict[str, Any]:
    columns = sorted({*columns_needed(old), *columns_needed(new)})
    work = Comparison(old, new, nul_as_blank=stored[0].manifest.nul_as_blank)
    return compared(work, work(_batches(stored, columns)))


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
) -> dict[str, Any]:
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
        found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
        return found


def _label(rules: Sequence[int], table: RulesTable) -> str:
    return ", then ".join(action_text(table.rules[ordinal - 1]) for ordinal in rules) or _LEFT


# Compare two rules tables over stored snapshots in Spark.
#
# One job evaluates both tables for the same messages. The result counts how often one treatment
# became another, with samples, and lists the rules that never matched.


def write_comparison(directories: Sequence[str], old: str, new: str, output: str) -> None:
    """Compare the frozen tables in two files over snapshots, and write the result as JSON."""
    snapshots = [Snapshot.at(directory) for directory in directories]
    kind = queue_kind(snapshots)
    tables = rules_of_file(old, kind, frozen=True), rules_of_file(new, kind, frozen=True)
    spark = SparkSession.builder.appName("mqdlq rules diff").getOrCreate()
    found = compare(spark, snapshots, *tables)
    lake.write_text(output, json.dumps(found))


def compare(
    spark: SparkSession,
    snapshots: Sequence[Snapshot],
    old: RulesTable,
    new: RulesTable,
    bounds: Bounds | None = None,
) -> dict[str, Any]:
    """Return the result of `compared` for all messages of snapshots; raise `LakeError`."""
    columns = sorted({*columns_needed(old), *columns_needed(new)})
    messages = Messages(spark, snapshots, columns, bounds or Bounds(), whole=True)
    choice = messages.strategy()
    work = Comparison(old, new, nul_as_blank=nul_as_blank(snapshots))
    return compared(work, messages.process(work, SCHEMA, choice).to_batches())
