"""A valid rules table: its columns, canonical print and digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from mqdlq.constants import name_of
from mqdlq.model import MessageClass, PutAuthority, QueueKind
from mqdlq.rules.diagnostics import Place, Report, RulesError, listed
from mqdlq.rules.extensions import (
    PropertyCondition,
    collapsed,
    condition_of,
    read_condition,
    value_of,
)
from mqdlq.rules.keywords import EXTENSIONS, KNOWN, Keyword
from mqdlq.rules.records import ControlData, Pattern, Rule
from mqdlq.rules.syntax.lines import COLUMNS


@dataclass(frozen=True)
class RulesTable:
    """A valid table for queues of one kind: the control data and at least one rule, in order."""

    control: ControlData
    rules: tuple[Rule, ...]
    queue_kind: QueueKind = QueueKind.DEAD_LETTER

    def acts_on(self, message_class: MessageClass | str) -> bool:
        return message_class == self.queue_kind.acts_on

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of a snapshot that the patterns use, sorted."""
        found = {name for name in self.compared if name not in self.extensions}
        found.update(name for each in self.extensions.values() for name in each.sources)
        return tuple(sorted(found))

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """The columns of the patterns, sorted; those of extensions exist in the table only."""
        return tuple(sorted({pattern.column for pattern in self._patterns}))

    @cached_property
    def extensions(self) -> Mapping[str, Keyword]:
        found = {each.column: KNOWN[each.keyword] for each in self._patterns if each.is_extension}
        return dict(sorted(found.items()))

    @cached_property
    def limits(self) -> Mapping[str, Sequence[int]]:
        """The numbers that the rules compare an extension with, sorted, by its column."""
        found: dict[str, set[int]] = {}
        for pattern in self._patterns:
            keyword = self.extensions.get(pattern.column)
            if keyword and keyword.measure:
                condition = condition_of(keyword, str(pattern.value))
                found.setdefault(pattern.column, set()).update(
                    [condition.number] if condition.sign else ()
                )
        return {column: sorted(numbers) for column, numbers in found.items()}

    @cached_property
    def property_conditions(self) -> tuple[PropertyCondition, ...]:
        found = {
            str(each.value)
            for each in self._patterns
            if self.extensions.get(each.column) is EXTENSIONS["PROPERTY"]
        }
        return tuple(map(read_condition, sorted(found)))

    @property
    def changes(self) -> bool:
        return any(keyword.changes for keyword in self.extensions.values())

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical print: equal for tables with the same meaning.

        The same print has another meaning on a backout queue, and therefore another digest.
        """
        is_default = self.queue_kind is QueueKind.DEAD_LETTER
        meaning = freeze(self) + ("" if is_default else f"* {self.queue_kind}\n")
        return hashlib.sha256(meaning.encode()).hexdigest()

    def key_of(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values of a row that decide which rules match, for use as a key."""
        return tuple(self._compared_value(name, values) for name in self.compared)

    def _compared_value(self, column: str, values: Mapping[str, Any]) -> Any:
        keyword = self.extensions.get(column)
        if keyword is None:
            return values.get(column)
        value = value_of(keyword, values)
        return collapsed(value, self.limits[column]) if isinstance(value, int) else value

    @property
    def _patterns(self) -> tuple[Pattern, ...]:
        return tuple(pattern for rule in self.rules for pattern in rule.patterns)


def freeze(table: RulesTable) -> str:
    """Return the canonical text with extensions, which `parse` reads as the same table.

    It is ``parse(freeze(table), queue_kind=table.queue_kind, frozen=True) == table``.
    """
    return print_entries(table.control, table.rules)


def print_table(table: RulesTable, source: str = "<rules>") -> str:
    """Return the canonical text: ``parse(print_table(table)) == table``.

    Raises RulesError for a table with extensions, which runmqdlq's syntax does not have.
    """
    report = Report(source)
    for rule in table.rules:
        if rule.extensions:
            noun = "extension" if len(rule.extensions) == 1 else "extensions"
            report.error(
                "extension",
                Place(rule.line, 1, 1, ""),
                f"rule {rule.ordinal} has the {noun} {listed(rule.extensions, 'and')}, which no"
                " table of runmqdlq has; keep the table in YAML",
            )
    if report.has_errors:
        raise RulesError(report.diagnostics())
    return freeze(table)


# Print control data and rules canonically: tables with the same meaning have the same text.
#
# Defaults are omitted, keywords are in the order of the keyword table, and numbers are printed as
# symbolic names if the keyword's family has one.

_INDENT: Final = "    "
_UNQUOTED: Final = re.compile(r"&?[A-Z0-9./_%*?]+")


def print_entries(control: ControlData, rules: Iterable[Rule]) -> str:
    entries = [list(control_parameters(control))] if control != ControlData() else []
    entries.extend(list(rule_parameters(rule)) for rule in rules)
    return "".join(f"{line}\n" for parameters in entries for line in _lines(parameters))


def control_parameters(control: ControlData) -> Iterator[str]:
    default = ControlData()
    if control.input_q:
        yield _parameter("INPUTQ", control.input_q)
    if control.input_q_mgr:
        yield _parameter("INPUTQM", control.input_q_mgr)
    if control.retry_interval_s != default.retry_interval_s:
        yield f"RETRYINT({control.retry_interval_s})"
    if control.wait_s is not None:
        yield f"WAIT({control.wait_s or 'NO'})"


def rule_parameters(rule: Rule) -> Iterator[str]:
    yield from map(_pattern, rule.patterns)
    yield f"ACTION({rule.action})"
    if rule.fwd_q:
        yield _parameter("FWDQ", rule.fwd_q)
    if rule.fwd_q_mgr:
        yield _parameter("FWDQM", rule.fwd_q_mgr)
    if not rule.header:
        yield "HEADER(NO)"
    if rule.put_authority is not PutAuthority.DEF:
        yield f"PUTAUT({rule.put_authority})"
    if rule.retry != 1:
        yield f"RETRY({rule.retry})"


def _pattern(pattern: Pattern) -> str:
    if isinstance(pattern.value, str):
        return _parameter(pattern.keyword, pattern.value)
    name = name_of(pattern.value, KNOWN[pattern.keyword].families)
    return f"{pattern.keyword}({name or pattern.value})"


def _parameter(keyword: str, text: str) -> str:
    if _UNQUOTED.fullmatch(text):
        return f"{keyword}({text})"
    doubled = text.replace("'", "''")
    return f"{keyword}('{doubled or ' '}')"


def _lines(parameters: Iterable[str]) -> Iterator[str]:
    """Fill lines with whole parameters; split a parameter only if it exceeds a line."""
    line = ""
    for parameter in parameters:
        start = f"{line} {parameter}" if line else parameter
        # Two columns are reserved for a continuation sign.
        if len(start) <= COLUMNS - 2:
            line = start
            continue
        if line:
            yield f"{line} +"
        *cut, line = _cut(_INDENT + parameter if line else parameter)
        yield from cut
    yield line


def _cut(text: str) -> Iterator[str]:
    """Split a parameter over lines that continue exactly where the previous line ended."""
    while len(text) > COLUMNS - 2:
        end = min(COLUMNS, len(text)) - 1
        # A line that begins with a blank or an asterisk could be read as a comment: search another
        # place to split. If none exists, the asterisk is indented, within its value.
        good = (at for at in range(end, len(_INDENT) + 1, -1) if text[at] not in " *")
        end = next(good, end)
        if text[end] == "*":
            yield f"{text[:end]}+"
            text = _INDENT + text[end:]
        else:
            yield f"{text[:end]}-"
            text = text[end:]
    yield text
