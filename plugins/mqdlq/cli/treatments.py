"""Two rules tables and the rows of a snapshot in; which messages they treat differently out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mqdlq.model import MessageClass
from mqdlq.plan import TARGET_COLUMNS, StepTemplate, resolve, steps_for
from mqdlq.rules import RulesTable, with_nuls_as_blanks
from mqdlq.rules.comparing import action_text

SAMPLES: Final = 5
_LEFT: Final = "no rule"

Templates = tuple[StepTemplate, ...]


@dataclass(slots=True)
class Cell:
    """The messages that were treated as `old` and become treated as `new`."""

    old: str
    new: str
    messages: int = 0
    samples: list[int] = field(default_factory=list)
    """The first few, by browse_seq."""


@dataclass(frozen=True, slots=True)
class Treatments:
    """What two tables make of the messages of a snapshot."""

    messages: int
    cells: tuple[Cell, ...]

    @property
    def different(self) -> int:
        """How many messages are treated differently."""
        return sum(cell.messages for cell in self.cells)


def columns_needed(old: RulesTable, new: RulesTable) -> list[str]:
    """Name the columns a comparison reads."""
    return sorted({"browse_seq", "class", *old.columns, *new.columns, *TARGET_COLUMNS})


def compare_treatments(
    old: RulesTable,
    new: RulesTable,
    rows: Iterable[Mapping[str, Any]],
    *,
    nul_as_blank: bool = False,
) -> Treatments:
    """Compare what the rules make of each message: actions, targets and tries, in their order.

    The matcher is asked once for every distinct combination of the values the rules look at.
    """
    looked_at = sorted({*old.columns, *new.columns})
    known: dict[tuple[Any, ...], tuple[Templates, Templates]] = {}
    cells: dict[tuple[str, str], Cell] = {}
    messages = 0
    for row in rows:
        messages += 1
        if row["class"] != MessageClass.DEAD_LETTER:
            continue
        key = tuple(row[column] for column in looked_at)
        if key not in known:
            values = with_nuls_as_blanks(row) if nul_as_blank else row
            known[key] = steps_for(old, values), steps_for(new, values)
        before, after = known[key]
        if _acts(before, row) != _acts(after, row):
            labels = _label(before, old), _label(after, new)
            cell = cells.setdefault(labels, Cell(*labels))
            cell.messages += 1
            if len(cell.samples) < SAMPLES:
                cell.samples.append(row["browse_seq"])
    return Treatments(messages, tuple(sorted(cells.values(), key=lambda cell: -cell.messages)))


def _acts(templates: Templates, row: Mapping[str, Any]) -> list[Any]:
    """Return what is done to a message, whichever rules say so."""
    return [replace(resolve(template, row), rule=0, rule_line=0) for template in templates]


def _label(templates: Templates, table: RulesTable) -> str:
    return ", then ".join(_actions(templates, table)) or _LEFT


def _actions(templates: Templates, table: RulesTable) -> Iterator[str]:
    for template in templates:
        yield action_text(table.rules[template.rule - 1])
