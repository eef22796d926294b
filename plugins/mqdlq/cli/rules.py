"""`mqdlq rules`: rules tables in, what is to be said about them out."""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from typing import Annotated, Any

import typer

from mqdlq.cli.files import name_of, review_table
from mqdlq.cli.sarif import sarif_log
from mqdlq.rules import CheckResult, Diagnostic, Severity


class CheckFormat(StrEnum):
    """How the result of a check is written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def check(
    paths: Annotated[
        list[typer.FileBinaryRead],
        typer.Argument(
            metavar="PATH", help="A table, or a handler's YAML file; - is standard input."
        ),
    ],
    output: Annotated[
        CheckFormat, typer.Option("--format", help="How to write it.")
    ] = CheckFormat.TEXT,
) -> None:
    """Implement `mqdlq rules check`.

    Exit code 0 if all are valid (warnings are allowed); 1 if one is not; 2 if an argument is wrong.

    For example:
      mqdlq rules check include/rules/*.rules
    """
    results = [(name_of(file), review_table(file.read(), name_of(file))) for file in paths]
    if output is CheckFormat.JSON:
        files = [_as_json(path, result) for path, result in results]
        typer.echo(json.dumps({"files": files}, indent=2))
    elif output is CheckFormat.SARIF:
        found = (diagnostic for _, result in results for diagnostic in result.diagnostics)
        typer.echo(json.dumps(sarif_log(found), indent=2))
    else:
        for path, result in results:
            typer.echo(_as_text(path, result))
    if any(result.table is None for _, result in results):
        raise typer.Exit(1)


def _as_json(path: str, result: CheckResult) -> dict[str, Any]:
    return {
        "path": path,
        "valid": result.table is not None,
        "control": dict(result.control),
        "rules": [{"line": rule.line, "keywords": dict(rule.keywords)} for rule in result.rules],
        "diagnostics": [_diagnostic_as_json(diagnostic) for diagnostic in result.diagnostics],
    }


def _diagnostic_as_json(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "message": diagnostic.message,
    }


def _as_text(path: str, result: CheckResult) -> str:
    counts = Counter(diagnostic.severity for diagnostic in result.diagnostics)
    found = [_counted(counts[severity], severity) for severity in Severity if counts[severity]]
    verdict = "refused" if result.table is None else _counted(len(result.table.rules), "rule")
    last = f"{path}: {', '.join([verdict, *found])}"
    return "\n".join([*map(str, result.diagnostics), last])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
