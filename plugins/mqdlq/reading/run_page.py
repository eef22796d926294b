"""The plan of a run by rule, action and target, beside the run before and the outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mqdlq.errors import LakeError
from mqdlq.lake import PlanDescription, find_plan, plan_directory
from mqdlq.ledger import Ledger
from mqdlq.model import Action, Outcome
from mqdlq.reading.report.building import RunReading
from mqdlq.reading.run import NO_RULE, Cell, RuleTarget, Sources, WrittenRule, written_rules

MANY_TARGETS: Final = "*"
"""The target in a plan's description if a rule has too many targets to count each."""
MOST_CHANGES: Final = 5


@dataclass(frozen=True, slots=True)
class MatrixRow(RuleTarget):
    """A rule's action on a target: planned messages, and what became of messages.

    `planned` counts the messages whose first step this is. `before` is that number in the run
    before, None if there is no such run or its plan cannot be read. `outcomes` counts the messages
    that this rule decided in the end: a message whose first step failed is in the row of a later
    rule.
    """

    planned: int
    before: int | None
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)

    @property
    def has_many_targets(self) -> bool:
        return self.target_q == MANY_TARGETS

    @property
    def change(self) -> int:
        return 0 if self.before is None else self.planned - self.before


@dataclass(frozen=True, slots=True)
class PlanMatrix:
    """The plan of a run; `description` is None without a readable plan, and `trouble` says why.

    `rows` are in table order; `discards` are the ones among them that discard. `changes` are the
    largest changes against the plan of the run `before`, "" if there is none.
    """

    description: PlanDescription | None
    trouble: str
    rows: tuple[MatrixRow, ...]
    before: str
    changes: tuple[MatrixRow, ...]

    @property
    def discards(self) -> tuple[MatrixRow, ...]:
        return tuple(row for row in self.rows if row.action == Action.DISCARD)


def plan_matrix(summary: RunReading, ledger: Ledger, lake_root: str) -> PlanMatrix:
    """Return the matrix of a run's plan; without a plan, only what the rules did."""
    sources = summary.sources
    description, trouble = _description(sources, lake_root)
    before, planned_before = _run_before(sources, ledger)
    planned = _planned(description) if description is not None else {}
    outcomes: dict[Cell, dict[Outcome, int]] = {}
    for row in summary.rules:
        if row.rule:
            cell = (row.rule, row.action, row.target_q, row.target_q_mgr)
            outcomes.setdefault(cell, {})[row.outcome] = row.messages
    rows = []
    for cell in sorted(planned.keys() | outcomes.keys()):
        was = None
        if planned_before is not None:  # a rule is the same if its text is
            was = planned_before.pop((_one_line(sources.rules.get(cell[0], NO_RULE)), *cell[1:]), 0)
        found = (planned.get(cell, 0), was, outcomes.get(cell, {}))
        rows.append(MatrixRow(*sources.placed(cell), *found))
    changed = [row for row in rows if row.change]
    still = {_one_line(written): ordinal for ordinal, written in sources.rules.items()}
    for (text, action, target_q, target_q_mgr), number in (planned_before or {}).items():
        rule = still.get(text, 0)  # 0: this run's table lacks the rule
        line = sources.rules.get(rule, NO_RULE).line
        changed.append(MatrixRow(rule, action, target_q, target_q_mgr, line, text, 0, number))
    changed.sort(key=lambda row: (-abs(row.change), row.rule, row.target_q))
    return PlanMatrix(
        description=description,
        trouble=trouble,
        rows=tuple(rows),
        before=before,
        changes=tuple(changed[:MOST_CHANGES]) if description is not None else (),
    )


def _planned(description: PlanDescription) -> dict[Cell, int]:
    found: Counter[Cell] = Counter()
    for step in description.counts:
        found[step.rule, step.action, step.target_q, step.target_q_mgr] += step.messages
    return dict(found)


def _description(sources: Sources, lake_root: str) -> tuple[PlanDescription | None, str]:
    if sources.plan is None:
        return None, "no plan was made"
    try:
        found = find_plan(plan_directory(lake_root, sources.plan.plan_id))
    except (LakeError, OSError) as error:
        return None, f"the plan {sources.plan.plan_id} cannot be read: {error}"
    if found is None:
        return None, f"the lake no longer has the plan {sources.plan.plan_id}"
    return found, ""


def _run_before(
    sources: Sources, ledger: Ledger
) -> tuple[str, dict[tuple[str, str, str, str], int] | None]:
    """Return the run before and its planned messages by text, action and target.

    The messages are None if there is no such run, or its plan cannot be read.
    """
    found = ledger.plans.before(sources.run) if sources.run is not None else None
    if found is None:
        return "", None
    run_id, location = found
    run = ledger.runs.get(run_id)
    try:
        description = find_plan(location)
    except (LakeError, OSError):
        description = None
    if run is None or description is None:
        return run_id, None
    rules = written_rules(run.rules_text)
    counted: Counter[tuple[str, str, str, str]] = Counter()
    for (rule, *how), number in _planned(description).items():
        counted[_one_line(rules.get(rule, NO_RULE)), how[0], how[1], how[2]] += number
    return run_id, dict(counted)


def _one_line(written: WrittenRule) -> str:
    return " ".join(written.text.replace("+\n", " ").split())
