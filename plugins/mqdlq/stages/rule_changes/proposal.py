"""A proposed rules table: a table with added rules, its findings and its difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mqdlq.lake import Snapshot
from mqdlq.rules import Diagnostic, Rule, RulesTable, Severity, check
from mqdlq.rules.lint import Code, review
from mqdlq.stages.rule_changes.placing import diff_tables, find_place, insert_rules


@dataclass(frozen=True, slots=True)
class Finding:
    """A warning about the proposed table; `is_new` if today's table does not have it."""

    diagnostic: Diagnostic
    is_new: bool


@dataclass(frozen=True, slots=True)
class Proposal:
    """The proposed table as text: `text`, with the added rules from line `first` to line `last`.

    The rules stand before the rule `before` of today's table, or at its end. `diff` is the unified
    diff from today's table. With extensions, `text` is frozen and no file may have it (ADR 0027):
    only the added rules are for people.
    """

    table: RulesTable
    text: str
    first: int
    last: int
    before: Rule | None
    findings: tuple[Finding, ...]
    diff: str

    @property
    def added_text(self) -> str:
        """The text of the added rules."""
        lines = self.text.split("\n")[self.first - 1 : self.last]
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class RejectedRules:
    """The errors of added rules; their lines and columns count in the added text."""

    errors: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class TableInUse:
    """The table of a handler's newest run: its name, its text, and the queue it is for."""

    name: str
    text: str
    table: RulesTable
    queue_manager: str
    queue: str
    nul_as_blank: bool = False


def propose(
    today: TableInUse,
    added_text: str,
    stored: Sequence[Snapshot],
    *,
    before: int | None = None,
) -> Proposal | RejectedRules:
    """Add rules to a table, and check the result.

    `before` is the ordinal of the rule that follows the added rules, 0 for the end of the table;
    without it, the messages of the snapshots decide (see `find_place`). Raises `LakeError`.
    """
    added_text = added_text.replace("\r\n", "\n").strip("\n") + "\n"
    added = check(added_text, "<rule>")
    if added.table is None:
        return RejectedRules(_errors(added.diagnostics))
    if before is None:
        place = find_place(today.table, added.table, stored, nul_as_blank=today.nul_as_blank)
    else:
        place = next((rule for rule in today.table.rules if rule.ordinal == before), None)
    inserted = insert_rules(today.text, added_text, place)
    last = inserted.line + inserted.lines - 1
    queue = {"queue": today.queue, "queue_manager": today.queue_manager}
    result = review(inserted.text, today.name, today.table.queue_kind, **queue, frozen=True)
    if result.table is None:
        return RejectedRules(
            tuple(
                replace(one, line=one.line - inserted.line + 1)
                for one in _errors(result.diagnostics)
            )
        )
    unchanged = review(today.text, today.name, today.table.queue_kind, **queue, frozen=True)
    known = Counter(map(_identity, unchanged.diagnostics))
    return Proposal(
        result.table,
        inserted.text,
        inserted.line,
        last,
        place,
        tuple(_findings(result.diagnostics, known)),
        diff_tables(today.name, today.text, inserted.text),
    )


def _findings(found: Sequence[Diagnostic], known: Counter[tuple[str, str]]) -> list[Finding]:
    findings = []
    for diagnostic in found:
        identity = _identity(diagnostic)
        findings.append(Finding(diagnostic, is_new=not known[identity]))
        known[identity] -= bool(known[identity])
    return findings


def _identity(diagnostic: Diagnostic) -> tuple[str, str]:
    """Return the same for a finding in both tables, whose lines differ.

    That a table has no catch-all rule is a finding about the whole table, at its last rule.
    """
    is_of_table = diagnostic.code == Code.NO_CATCH_ALL
    return diagnostic.code, "" if is_of_table else diagnostic.source


def _errors(found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(one for one in found if one.severity is Severity.ERROR)
