"""A valid rules table, with its columns, its canonical print and its digest."""

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
        """The columns of a snapshot that its patterns look at, sorted."""
        return tuple(sorted({pattern.column for rule in self.rules for pattern in rule.patterns}))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical print, in hex: tables that mean the same have the same."""
        return hashlib.sha256(print_table(self).encode()).hexdigest()


def print_table(table: RulesTable) -> str:
    """Return the canonical text: ``parse(print_table(table)) == table``."""
    return print_entries(table.control, table.rules)
