"""Properties of the rules language for any input."""

from __future__ import annotations

from mqdlq.handlers import check as check_yaml
from mqdlq.handlers import to_table, to_yaml
from mqdlq.rules import Diagnostic, RulesError, check, format_table, parse, print_table


def what_must_hold(data: bytes) -> None:
    """Read any bytes in both forms; an AssertionError, or any other error, is a finding."""
    what_must_hold_of_yaml(data)
    result = check(data)
    places = [(diagnostic.line, diagnostic.column) for diagnostic in result.diagnostics]
    assert places == sorted(places)
    assert all(str(diagnostic) for diagnostic in result.diagnostics)
    if result.table is None:
        assert _refusal(data) == result.diagnostics
        return
    printed = print_table(result.table)
    assert parse(printed) == result.table
    assert print_table(parse(printed)) == printed
    formatted = format_table(data)
    assert parse(formatted) == result.table
    assert parse(formatted).digest == result.table.digest
    assert format_table(formatted) == formatted
    # As it is written to a file, and read from there again.
    assert format_table(formatted.encode("utf-8", "surrogateescape")) == formatted
    assert all(len(line) <= 72 for line in (printed + formatted).split("\n"))
    assert parse(to_table(to_yaml(data))) == result.table


def what_must_hold_of_yaml(data: bytes) -> None:
    """Read any bytes as a YAML file; what is accepted says the same as a table."""
    result = check_yaml(data, "any.yaml")
    assert all(str(diagnostic) for diagnostic in result.diagnostics)
    if result.table is not None:
        assert parse(to_table(data)) == result.table


def _refusal(data: bytes) -> tuple[Diagnostic, ...] | None:
    try:
        format_table(data)
    except RulesError as error:
        return error.diagnostics
    return None
