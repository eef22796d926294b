"""Number the treatments of messages, and make the steps of each treatment once.

Many messages have the same treatment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqdlq.lake import StepCount
from mqdlq.lake.schema import STEP
from mqdlq.model import Disposition, Step
from mqdlq.plan import StepTemplate, resolve, steps_of, treatment_digest
from mqdlq.rules import Rule, RulesTable

UNPROCESSABLE: Final = 0
"""The treatment number of messages of a class that no rule matches."""

_NAME: Final = pa.dictionary(pa.int32(), pa.string())
_STEP: Final = pa.struct(
    [each.with_type(_NAME) if pa.types.is_string(each.type) else each for each in STEP]
)
SCHEMA: Final = pa.schema(
    [
        ("disposition", _NAME),
        ("steps", pa.list_(_STEP)),
        ("winning_rule", pa.int32()),
        ("nearest_rule", pa.int32()),
        ("digest", pa.binary()),
    ]
)
"""The columns of a treatment; dictionaries make repeated texts cheap."""


TARGETS_TO_A_RULE: Final = 1000
"""The most targets by which a rule's messages are counted; with more, there is one count."""

MANY: Final = "*"
"""The target that stands for too many targets; no queue has this name."""

_Row = tuple[Disposition, tuple[Step, ...], tuple[int, int]]


def targets_needed(table: RulesTable) -> frozenset[str]:
    """Return the columns that the rules' targets come from."""
    return frozenset().union(*(Chain.of([rule]).columns for rule in table.rules))


@dataclass(frozen=True, eq=False, slots=True)
class Chain:
    """The steps of all messages that match the same rules, and the columns of their targets."""

    templates: tuple[StepTemplate, ...]
    columns: tuple[str, ...]

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> Chain:
        """Return the chain of these rules, given in the order of their table."""
        templates = steps_of(rules)
        named = {
            name for step in templates for name in (step.target_q.column, step.target_q_mgr.column)
        }
        return cls(templates, tuple(sorted(named - {""})))

    @property
    def winning(self) -> int:
        """The ordinal of the first rule, or 0."""
        return self.templates[0].rule if self.templates else 0


@dataclass
class Treatments:
    """The treatments so far, numbered from 1, and the number of messages of each.

    With `explain`, they include the winning and the nearest rule. `without_a_dlh` are the steps of
    a message without a valid MQDLH: empty, unless an action is given for messages by name.
    """

    explain: bool = False
    without_a_dlh: tuple[Step, ...] = ()
    _settled: list[StepCount] = field(default_factory=list)
    _dispositions: Counter[str] = field(default_factory=Counter)

    _numbers: dict[Any, int] = field(default_factory=dict)
    _rows: list[_Row] = field(default_factory=list)
    _counts: Any = None
    _made: Any = None

    def __post_init__(self) -> None:
        self._clear()

    def __len__(self) -> int:
        return len(self._rows)

    def number(self, chain: Chain, held: Mapping[str, str], nearest: int = 0) -> int:
        """Return the number of the treatment of a message with this chain.

        `held` are the values of its target columns, and `nearest` is the ordinal of the nearest
        rule if none matches.
        """
        explained = (chain.winning, nearest) if self.explain else (0, 0)
        what = (chain, *(held[name] for name in chain.columns), explained)
        if what not in self._numbers:
            self._numbers[what] = len(self._rows)
            steps = tuple(resolve(step, held) for step in chain.templates)
            planned = Disposition.PLANNED if steps else Disposition.UNMATCHED
            self._rows.append((planned, steps, explained))
        return self._numbers[what]

    def count(self, numbers: Any) -> None:
        """Count a message for each of these numbers."""
        counted = np.bincount(numbers, minlength=len(self._rows))
        counted[: len(self._counts)] += self._counts
        self._counts = counted

    def steps(self, number: int) -> tuple[Step, ...]:
        """Return the steps of a treatment."""
        return self._rows[number][1]

    def rows(self, numbers: Any) -> pa.RecordBatch:
        """Return the treatment of each number, in the columns of `SCHEMA`."""
        new = self._rows[self._made.num_rows :]
        if new:
            made = pa.RecordBatch.from_pylist([_as_row(*row) for row in new], schema=SCHEMA)
            self._made = pa.concat_batches([self._made, made])
        return self._made.take(pa.array(numbers))

    def forget(self) -> None:
        """Restart the numbering, and keep the counts."""
        for number, count in enumerate(self._counts.tolist()):
            if count:
                disposition, steps, _ = self._rows[number]
                self._dispositions[disposition.value] += count
                if steps:
                    self._settled.append(_first_step(steps[0], count))
        self._settled = summed(self._settled)
        self._clear()

    def dispositions(self) -> dict[str, int]:
        """Return the number of messages by disposition."""
        self.forget()
        return dict(self._dispositions)

    def step_counts(self) -> list[StepCount]:
        """Count the planned messages by their first step."""
        self.forget()
        return self._settled

    def _clear(self) -> None:
        self._numbers = {}
        steps = self.without_a_dlh
        disposition = Disposition.PLANNED if steps else Disposition.UNPROCESSABLE
        self._rows = [(disposition, steps, (steps[0].rule if steps and self.explain else 0, 0))]
        self._counts = np.zeros(0, np.int64)
        self._made = pa.RecordBatch.from_pylist([], schema=SCHEMA)


def _as_row(
    disposition: Disposition, steps: Sequence[Step], explained: tuple[int, int]
) -> dict[str, Any]:
    winning, nearest = explained
    return {
        "disposition": disposition.value,
        "steps": [asdict(step) for step in steps],
        "winning_rule": winning or None,
        "nearest_rule": nearest or None,
        "digest": bytes.fromhex(treatment_digest(disposition, tuple(steps))),
    }


def _first_step(step: Step, messages: int) -> StepCount:
    return StepCount(
        step.rule, step.rule_line, step.action.value, step.target_q, step.target_q_mgr, messages
    )


def summed(counts: Iterable[StepCount]) -> list[StepCount]:
    """Add up the counts of equal first steps, or of a whole rule if it has too many targets.

    The result does not depend on how the counts were divided.
    """
    found: Counter[StepCount] = Counter()
    for count in counts:
        found[replace(count, messages=0)] += count.messages
    targets = Counter(step.rule for step in found)
    many = {rule for rule, number in targets.items() if number > TARGETS_TO_A_RULE}
    many |= {step.rule for step in found if step.target_q == MANY}
    told: Counter[StepCount] = Counter()
    for step, messages in found.items():
        is_one_of_many = step.rule in many
        told[replace(step, target_q=MANY, target_q_mgr="") if is_one_of_many else step] += messages
    return [replace(step, messages=messages) for step, messages in told.items()]
