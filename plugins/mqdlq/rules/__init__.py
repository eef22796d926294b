"""The rules language of the dead-letter queue handler: parse a table, match messages."""

from mqdlq.rules.comparing import Comparison, compare
from mqdlq.rules.diagnostics import Diagnostic, RulesError, Severity
from mqdlq.rules.formatting import format_table
from mqdlq.rules.reading import (
    CheckResult,
    WrittenRule,
    check,
    find_unstored,
    parse,
    table_with,
    treatment_changes,
)
from mqdlq.rules.table import (
    ControlData,
    Explanation,
    Failure,
    Pattern,
    Rule,
    RulesTable,
    Trace,
    explain,
    freeze,
    matches,
    matching_rules,
    print_table,
    with_nuls_as_blanks,
)
