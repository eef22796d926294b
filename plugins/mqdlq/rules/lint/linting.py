"""Report doubtful rules of a valid table as warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final, Literal

from mqdlq.model import QueueKind
from mqdlq.rules.diagnostics import Diagnostic, Place, Report, Severity
from mqdlq.rules.lint import actions, forwarding_loops, reach
from mqdlq.rules.lint.findings import Code, Effort, Finding
from mqdlq.rules.reading import CheckResult, check, decoded
from mqdlq.rules.syntax.grammar import read_statement
from mqdlq.rules.syntax.lines import Entry, entries
from mqdlq.rules.table import RulesTable

_PARSER_WARNINGS: Final = (
    "byte-order-mark",
    "comment-in-entry",
    "crlf",
    "indented-asterisk",
    "inexact-substitution",
    "long-line",
    "no-effect",
    "no-final-newline",
    "no-separator",
    "non-ascii",
    "other-family",
    "tab",
)

WARNING_CODES: Final = frozenset({*_PARSER_WARNINGS, *(code.value for code in Code)})
"""Every code of a warning; `promote` accepts these."""

Level = Literal["error", "warning", "off"]
"""The severity that a handler assigns to a warning."""


def lint(
    table: RulesTable,
    *,
    queue: str = "",
    queue_manager: str = "",
    text: str | bytes = "",
    source: str = "<rules>",
) -> tuple[Diagnostic, ...]:
    """Return warnings about a table, in the table's order.

    `queue` is the dead-letter queue and `queue_manager` its queue manager; by default, INPUTQ and
    INPUTQM. `text` is the table's source, used to locate keywords; without it a warning is at
    column 1 of its rule's line.
    """
    input_queue = forwarding_loops.input_queue_of(table, queue, queue_manager)
    report = Report(source)
    places = _Places(text)
    for finding in _findings(table, input_queue):
        report.warning(finding.code.value, places.of(finding), finding.message)
    # The alternatives of a rule in YAML share a line, so equal warnings are reported once.
    return tuple(dict.fromkeys(report.diagnostics()))


def review(
    text: str | bytes,
    source: str = "<rules>",
    queue_kind: QueueKind = QueueKind.DEAD_LETTER,
    *,
    queue: str = "",
    queue_manager: str = "",
    frozen: bool = False,
) -> CheckResult:
    """Check a table, and lint it if it is valid; return all findings in one order."""
    result = check(text, source, queue_kind, frozen=frozen)
    if result.table is None:
        return result
    doubts = lint(result.table, queue=queue, queue_manager=queue_manager, text=text, source=source)
    found = sorted((*result.diagnostics, *doubts), key=lambda d: (d.line, d.column))
    return replace(result, diagnostics=tuple(found))


def promote(
    diagnostics: Iterable[Diagnostic], levels: Mapping[str, Level]
) -> tuple[Diagnostic, ...]:
    """Apply `levels`, by code, to warnings: make them errors, keep them, or omit them.

    Errors stay errors, and a code without a level keeps its severity.
    """
    return tuple(_promoted(diagnostics, levels))


def _promoted(
    diagnostics: Iterable[Diagnostic], levels: Mapping[str, Level]
) -> Iterator[Diagnostic]:
    for diagnostic in diagnostics:
        level = levels.get(diagnostic.code, "warning")
        if diagnostic.severity is Severity.ERROR or level == "warning":
            yield diagnostic
        elif level == "error":
            yield replace(diagnostic, severity=Severity.ERROR)


def _findings(table: RulesTable, input_queue: forwarding_loops.InputQueue) -> Iterator[Finding]:
    yield from reach.find_unreached(table, Effort())
    yield from reach.find_uncaught(table)
    yield from forwarding_loops.find_loops(table, input_queue, Effort())
    for rule in table.rules:
        yield from chain(
            actions.find_discarded(rule),
            actions.find_hopeless_retry(rule),
            actions.find_unguarded_reply(rule),
            actions.find_dropped_queue_manager(rule, input_queue.queue_manager),
            forwarding_loops.find_forward_to_input_queue(rule, input_queue),
        )


class _Places:
    """The places of each rule's keywords; the text is divided on first use."""

    def __init__(self, text: str | bytes) -> None:
        self._text = text
        self._entries: dict[int, Entry] | None = None

    def of(self, finding: Finding) -> Place:
        """Return the place of the keyword, or of the rule."""
        if self._entries is None:
            # Faults of the text were already reported when it was checked.
            found = entries(decoded(self._text), Report(""))
            self._entries = {entry.line: entry for entry in found}
        entry = self._entries.get(finding.rule.line)
        if entry is None:
            return Place(finding.rule.line, 1, 1, "")
        written = read_statement(entry, Report("")).parameters if finding.keyword else ()
        places = {one.keyword: (one.start, one.end) for one in written}
        return entry.place(*places.get(finding.keyword, (0, len(entry.text))))
