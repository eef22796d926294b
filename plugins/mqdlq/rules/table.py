"""A valid rules table: its columns, canonical print and digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from mqdlq.rules.printing import print_entries
from mqdlq.rules.records import ControlData, Rule


@dataclass(frozen=True)
class RulesTable:
    """A valid table: the control data and at least one rule, in order."""

    control: ControlData
    rules: tuple[Rule, ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of a snapshot that the patterns use, sorted."""
        return tuple(sorted({pattern.column for rule in self.rules for pattern in rule.patterns}))

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical print: equal for tables with the same meaning."""
        return hashlib.sha256(print_table(self).encode()).hexdigest()


def print_table(table: RulesTable) -> str:
    """Return the canonical text: ``parse(print_table(table)) == table``."""
    return print_entries(table.control, table.rules)
