"""What can be done with a message: the rules it meets in, a numbered row of ready-made steps out.

Many messages are treated alike. Each treatment is made once, by the core, and joined to all its
messages; a target that only the message's own row knows is left open in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from mqdlq.lake import StepCount
from mqdlq.lake.schema import STEP
from mqdlq.model import Disposition
from mqdlq.plan import StepTemplate, resolve, steps_of, treatment_digest
from mqdlq.rules import Rule, RulesTable

OPEN: Final = pa.struct([("target_q", pa.string()), ("target_q_mgr", pa.string())])
"""The columns a step's targets are to be taken from, "" where they are known."""

SCHEMA: Final = pa.schema(
    [
        ("treatment", pa.int32()),
        ("disposition", pa.string()),
        ("steps", pa.list_(STEP)),
        ("open", pa.list_(OPEN)),
        ("digest", pa.string()),
        ("winning_rule", pa.int32()),
        ("nearest_rule", pa.int32()),
    ]
)

UNPROCESSABLE: Final = -1
"""The number of what is done with all that is no dead letter: nothing."""


def targets_needed(table: RulesTable) -> frozenset[str]:
    """Name the columns of a message that the rules' targets are taken from."""
    steps = [step for rule in table.rules for step in steps_of([rule])]
    return frozenset({name for step in steps for name in _columns(step) if name})


@dataclass
class Treatments:
    """The treatments met with so far, numbered from 0, and how many messages get each.

    `known` are the target columns whose values are told to `number`; others stay open.
    """

    table: RulesTable
    known: tuple[str, ...]
    explain: bool = False
    counts: Counter[int] = field(default_factory=Counter)
    _numbers: dict[Any, int] = field(default_factory=dict)
    _rows: list[dict[str, Any]] = field(default_factory=list)

    def number(self, rules: Sequence[Rule], held: Mapping[str, str], nearest: int = 0) -> int:
        """Return the number of what is done with a message that meets these rules.

        `held` are the values of its `known` columns, `nearest` the ordinal of the rule that is
        nearest if it meets none.
        """
        templates = steps_of(rules)
        row = {name: held[name] for step in templates for name in _columns(step) if name in held}
        explained = (rules[0].ordinal if rules else 0, 0 if rules else nearest)
        what = (templates, tuple(sorted(row.items())), explained if self.explain else ())
        if what not in self._numbers:
            self._numbers[what] = len(self._rows)
            self._rows.append(self._row(templates, row, explained))
        return self._numbers[what]

    def to_arrow(self) -> pa.Table:
        """Return all treatments, that of what is no dead letter among them."""
        nothing = self._treatment(UNPROCESSABLE, Disposition.UNPROCESSABLE, ())
        return pa.Table.from_pylist([nothing, *self._rows], schema=SCHEMA)

    @property
    def is_open(self) -> bool:
        """Whether there are steps whose targets are to be taken from the message."""
        return any(row["open"] is not None for row in self._rows)

    def dispositions(self) -> dict[str, int]:
        """Count the messages by disposition."""
        found = {disposition.value: 0 for disposition in Disposition}
        for number, count in self.counts.items():
            found[self._disposition(number)] += count
        return found

    def step_counts(self) -> tuple[StepCount, ...]:
        """Count the planned messages by their first step."""
        found: Counter[StepCount] = Counter()
        for number, count in self.counts.items():
            if self._disposition(number) == Disposition.PLANNED:
                step = self._rows[number]["steps"][0]
                names = ("rule", "rule_line", "action", "target_q", "target_q_mgr")
                found[StepCount(**{name: step[name] for name in names}, messages=0)] += count
        return in_order([replace(what, messages=count) for what, count in found.items()])

    def _disposition(self, number: int) -> str:
        if number == UNPROCESSABLE:
            return Disposition.UNPROCESSABLE.value
        return str(self._rows[number]["disposition"])

    def _row(
        self,
        templates: tuple[StepTemplate, ...],
        held: Mapping[str, str],
        explained: tuple[int, int],
    ) -> dict[str, Any]:
        columns = {name for step in templates for name in _columns(step)}
        row = {name: held.get(name, "") for name in columns}
        steps = tuple(resolve(step, row) for step in templates)
        disposition = Disposition.PLANNED if steps else Disposition.NO_RULE
        treatment = self._treatment(len(self._rows), disposition, steps)
        if columns - {""} - set(held):
            treatment["open"] = open_targets(templates, held)
            treatment["digest"] = None
        if self.explain:
            winning, nearest = explained
            treatment |= {"winning_rule": winning or None, "nearest_rule": nearest or None}
        return treatment

    def _treatment(
        self, number: int, disposition: Disposition, steps: tuple[Any, ...]
    ) -> dict[str, Any]:
        return {
            "treatment": number,
            "disposition": disposition.value,
            "steps": [asdict(step) for step in steps],
            "open": None,
            "digest": treatment_digest(disposition, steps),
        }


def open_targets(
    templates: Sequence[StepTemplate], held: Mapping[str, str]
) -> list[dict[str, str]]:
    """Name the columns the steps' targets are to be taken from, "" for what is known."""
    names = [("" if name in held else name for name in _columns(step)) for step in templates]
    return [dict(zip(("target_q", "target_q_mgr"), pair, strict=True)) for pair in names]


def in_order(counts: Sequence[StepCount]) -> tuple[StepCount, ...]:
    """Return counts in the order a plan's description gives them."""
    return tuple(sorted(counts, key=lambda count: (count.rule, count.target_q, count.target_q_mgr)))


def _columns(step: StepTemplate) -> tuple[str, str]:
    return step.target_q.column, step.target_q_mgr.column
