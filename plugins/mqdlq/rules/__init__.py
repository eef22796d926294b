"""The rules language of the dead-letter queue handler: parse a table, match messages."""

from __future__ import annotations

from mqdlq.rules.comparing import Change, Comparison, RuleChange, compare
from mqdlq.rules.diagnostics import Diagnostic, RulesError, Severity
from mqdlq.rules.formatting import format_table
from mqdlq.rules.matching import (
    Explanation,
    Failure,
    Trace,
    explain,
    matches,
    matching_rules,
    with_nuls_as_blanks,
)
from mqdlq.rules.reading import (
    CheckResult,
    WrittenRule,
    check,
    find_unstored,
    parse,
    table_with,
    treatment_changes,
)
from mqdlq.rules.table import ControlData, Pattern, Rule, RulesTable, freeze, print_table
