"""Two rules tables and stored snapshots in; which messages they treat differently out.

A few messages are compared here and now; many by a Spark job, which finds the same.
"""

from __future__ import annotations

import json
import tempfile
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from mqdlq import home, lake
from mqdlq.errors import LakeError
from mqdlq.lake import Snapshot, SnapshotManifest
from mqdlq.model import MessageClass
from mqdlq.plan import TARGET_COLUMNS, StepTemplate, resolve, steps_for
from mqdlq.rules import Rule, RulesTable, print_table, with_nuls_as_blanks
from mqdlq.rules.comparing import action_text

SAMPLES: Final = 5
HERE_UP_TO: Final = 10_000
"""Messages that are compared without Spark, whose start alone takes longer."""
_LEFT: Final = "no rule"

Templates = tuple[StepTemplate, ...]
Submit = Callable[[Path, list[str], int], int]


@dataclass(slots=True)
class Cell:
    """The messages that were treated as `old` and become treated as `new`.

    `samples` are the first few, by snapshot id and browse_seq.
    """

    old: str
    new: str
    messages: int = 0
    samples: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Treatments:
    """What two tables make of the messages of snapshots; a message counts once, as seen last."""

    snapshots: tuple[str, ...]
    messages: int
    cells: tuple[Cell, ...]
    never_old: tuple[Rule, ...] = ()
    never_new: tuple[Rule, ...] = ()

    @property
    def different(self) -> int:
        """How many messages are treated differently."""
        return sum(cell.messages for cell in self.cells)


def treatments_in(
    old: RulesTable, new: RulesTable, stored: Sequence[Snapshot], submit: Submit | None
) -> Treatments:
    """Compare what the rules make of each message: actions, targets and tries, in their order.

    With `submit`, Spark does it. Raises `LakeError`.
    """
    ids = tuple(snapshot.manifest.snapshot_id for snapshot in stored)
    if not stored:
        return Treatments(ids, 0, ())
    if len({snapshot.manifest.nul_as_blank for snapshot in stored}) > 1:
        raise LakeError(
            "some of the snapshots take NULs for blanks (nul_as_blank), some do not; compare them"
            " apart"
        )
    found = (
        _by_spark(old, new, stored, submit)
        if submit
        else _compare(old, new, _newest(stored, _columns_needed(old, new)), stored[0].manifest)
    )
    cells: dict[tuple[str, str], Cell] = {}
    for cell in found["cells"]:
        labels = _label(cell["old"], old), _label(cell["new"], new)
        kept = cells.setdefault(labels, Cell(*labels))
        kept.messages += cell["messages"]
        samples = [(sample["snapshot_id"], sample["browse_seq"]) for sample in cell["samples"]]
        kept.samples = sorted([*kept.samples, *samples])[:SAMPLES]
    in_order = sorted(cells.values(), key=lambda cell: (-cell.messages, cell.old, cell.new))
    never = found["never_matched"]
    return Treatments(
        ids,
        found["messages"],
        tuple(in_order),
        tuple(old.rules[ordinal - 1] for ordinal in never["old"]),
        tuple(new.rules[ordinal - 1] for ordinal in never["new"]),
    )


def _columns_needed(old: RulesTable, new: RulesTable) -> list[str]:
    return sorted(
        {"browse_seq", "message_key", "class", *old.columns, *new.columns, *TARGET_COLUMNS}
    )


def _newest(
    stored: Sequence[Snapshot], columns: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of all snapshots with their ids; what a newer one has is passed over."""
    seen: set[tuple[str, str, bytes]] = set()
    for snapshot in sorted(stored, key=lambda each: each.manifest.taken_at, reverse=True):
        manifest, here = snapshot.manifest, set()
        for row in lake.whole_rows(snapshot.directory, columns):
            key = manifest.queue_manager, manifest.queue, row["message_key"]
            if key not in seen:
                here.add(key)
                yield manifest.snapshot_id, row
        seen |= here


def _compare(
    old: RulesTable,
    new: RulesTable,
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    manifest: SnapshotManifest,
) -> dict[str, Any]:
    """Compare as `compare_rules.py` does; what comes out has the same form.

    The matcher is asked once for every distinct combination of the values the rules look at.
    """
    looked_at = sorted({*old.columns, *new.columns})
    known: dict[tuple[Any, ...], tuple[Templates, Templates]] = {}
    cells: dict[tuple[tuple[int, ...], tuple[int, ...]], dict[str, Any]] = {}
    messages = 0
    for snapshot_id, row in rows:
        messages += 1
        if row["class"] != MessageClass.DEAD_LETTER:
            continue
        key = tuple(row[column] for column in looked_at)
        if key not in known:
            values = with_nuls_as_blanks(row) if manifest.nul_as_blank else row
            known[key] = steps_for(old, values), steps_for(new, values)
        before, after = known[key]
        if _acts(before, row) != _acts(after, row):
            rules = _rules(before), _rules(after)
            empty = {"old": rules[0], "new": rules[1], "messages": 0, "samples": []}
            cell = cells.setdefault(rules, empty)
            cell["messages"] += 1
            # Parked messages come after the others, so that the first few may come last.
            sample = {"snapshot_id": snapshot_id, "browse_seq": row["browse_seq"]}
            insort(cell["samples"], sample, key=lambda each: tuple(each.values()))
            del cell["samples"][SAMPLES:]
    met = [{rule for pair in known.values() for rule in _rules(pair[n])} for n in (0, 1)]
    return {
        "messages": messages,
        "cells": list(cells.values()),
        "never_matched": {"old": _never(old, met[0]), "new": _never(new, met[1])},
    }


def _by_spark(
    old: RulesTable, new: RulesTable, stored: Sequence[Snapshot], submit: Submit
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mqdlq-") as directory:
        output = Path(directory, "found.json")
        arguments = ["--output", str(output)]
        for name, table in (("old", old), ("new", new)):
            place = Path(directory, f"{name}.rules")
            place.write_text(print_table(table), encoding="utf-8")
            arguments += [f"--{name}", str(place)]
        for snapshot in stored:
            arguments += ["--snapshot", snapshot.directory]
        messages = sum(snapshot.manifest.messages for snapshot in stored)
        application = home.PROJECT / "spark" / "compare_rules.py"
        if submit(application, arguments, messages) or not output.is_file():
            raise LakeError("the comparison in Spark failed; what it said stands above")
        found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
        return found


def _acts(templates: Templates, row: Mapping[str, Any]) -> list[Any]:
    """Return what is done to a message, whichever rules say so."""
    return [replace(resolve(template, row), rule=0, rule_line=0) for template in templates]


def _rules(templates: Templates) -> tuple[int, ...]:
    return tuple(template.rule for template in templates)


def _never(table: RulesTable, met: set[int]) -> list[int]:
    return [rule.ordinal for rule in table.rules if rule.ordinal not in met]


def _label(rules: Sequence[int], table: RulesTable) -> str:
    return ", then ".join(action_text(table.rules[ordinal - 1]) for ordinal in rules) or _LEFT
