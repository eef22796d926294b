"""The command `mqdlq rules check`: rules tables and handlers, checked without connecting."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import click

from mqdlq.cli.commands import Argument, Option
from mqdlq.cli.files import STANDARD_INPUT, YAML, review_table
from mqdlq.cli.output import write_json
from mqdlq.directories import check_input
from mqdlq.rules import CheckResult, Diagnostic, Severity

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def sarif_log(found: Iterable[Diagnostic]) -> dict[str, Any]:
    """Return the log of one run, a result for each diagnostic; columns count characters."""
    diagnostics = list(found)
    codes = sorted({diagnostic.code for diagnostic in diagnostics})
    indexes = {code: index for index, code in enumerate(codes)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "mqdlq", "rules": [{"id": code} for code in codes]}},
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(diagnostic, indexes[diagnostic.code]) for diagnostic in diagnostics
                ],
            }
        ],
    }


def _result(diagnostic: Diagnostic, index: int) -> dict[str, Any]:
    place = Path(diagnostic.path)
    uri = place.as_uri() if place.is_absolute() else quote(place.as_posix())
    region = {
        "startLine": diagnostic.line,
        "startColumn": diagnostic.column,
        "endColumn": diagnostic.column + diagnostic.length,
    }
    return {
        "ruleId": diagnostic.code,
        "ruleIndex": index,
        "level": diagnostic.severity,
        "message": {"text": diagnostic.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri},
                    "region": region,
                }
            }
        ],
    }


_NOTHING: Final = CheckResult(None, ())


class CheckFormat(StrEnum):
    """How the result of a check is written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


@dataclass(frozen=True, slots=True)
class Checked:
    """A file and what was found in it: `verdict` says what it is, `table` what its rules are."""

    path: str
    verdict: str
    diagnostics: tuple[Diagnostic, ...]
    table: CheckResult = _NOTHING

    @property
    def is_valid(self) -> bool:
        return all(d.severity is not Severity.ERROR for d in self.diagnostics)


def check(
    paths: Annotated[
        list[str],
        Argument(
            metavar="PATH",
            help="A rules table, a handler's YAML file, or a directory of both; - is a table on"
            " standard input.",
        ),
    ],
    output: Annotated[CheckFormat, Option("--format", help="How to write it.")] = CheckFormat.TEXT,
) -> None:
    """Implement `mqdlq rules check`.

    A handler is checked with the rules table it names, as its key `lint` judges the warnings.
    Nothing is connected to: `mqdlq check` checks what the handler's user may do.

    Exit code 0 if everything is valid (warnings are allowed); 1 if a file is not; 2 if an argument
    is wrong.

    For example:
      mqdlq rules check include/rules
      mqdlq rules check include/rules/demo.yaml
      mqdlq rules check --format sarif include/rules/*.rules
    """
    results = _checked(_files(paths))
    if output is CheckFormat.JSON:
        write_json({"files": [_as_json(result) for result in results]})
    elif output is CheckFormat.SARIF:
        found = (diagnostic for result in results for diagnostic in result.diagnostics)
        write_json(sarif_log(found))
    else:
        for result in results:
            click.echo(_as_text(result))
    if not all(result.is_valid for result in results):
        raise SystemExit(1)


def _files(paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents; a directory stands for its handlers and tables."""
    for path in paths:
        if path == "-":
            yield STANDARD_INPUT, sys.stdin.buffer.read()
            continue
        found = [Path(path)]
        if found[0].is_dir():
            found = [one for end in ("yaml", "rules") for one in sorted(found[0].glob(f"*.{end}"))]
            if not found:
                raise click.BadParameter(f"'{path}' holds neither *.yaml nor *.rules")
        for file in found:
            try:
                check_input(file)
                yield str(file), file.read_bytes()
            except OSError as error:
                raise click.BadParameter(f"'{file}': {error.strerror}") from None


def _checked(files: Iterable[tuple[str, bytes]]) -> list[Checked]:
    """Check every file; a table that one of the handlers names is checked as that handler's."""
    given = list(files)
    handlers = {name: found for name, data in given if (found := _of_handler(name, data))}
    named = {result.path for found in handlers.values() for result in found}
    results: list[Checked] = []
    for name, data in given:
        if name in handlers:
            results += (result for result in handlers[name] if result not in results)
        elif name not in named:
            results.append(_of_table(name, review_table(data, name)))
    return results


def _of_table(path: str, result: CheckResult) -> Checked:
    return Checked(path, _rules_in(result), result.diagnostics, result)


def _of_handler(name: str, data: bytes) -> list[Checked]:
    """Return the results for a handler and for the table it names; nothing for any other file."""
    if not name.endswith(YAML):
        return []
    from mqdlq.handlers import check_handler, is_handler  # noqa: PLC0415 (imports pydantic)

    if not is_handler(data):
        return []
    found = check_handler(Path(name), data)
    if found.handler is None or found.table is None:
        return [Checked(name, "refused", found.diagnostics)]
    verdict = f"handler, connection {found.handler.connection}"
    if not found.table_path:
        verdict = f"{verdict}, {_rules_in(found.table)}"
        return [Checked(name, verdict, found.diagnostics, found.table)]
    verdict = f"{verdict}, rules {found.handler.rules}"
    return [
        Checked(name, verdict, found.diagnostics),
        _of_table(found.table_path, found.table),
    ]


def _rules_in(result: CheckResult) -> str:
    return "refused" if result.table is None else _counted(len(result.table.rules), "rule")


def _as_json(result: Checked) -> dict[str, Any]:
    rules = result.table.rules
    return {
        "path": result.path,
        "valid": result.is_valid,
        "control": dict(result.table.control),
        "rules": [{"line": rule.line, "keywords": dict(rule.keywords)} for rule in rules],
        "diagnostics": [
            {
                "severity": found.severity,
                "code": found.code,
                "line": found.line,
                "column": found.column,
                "message": found.message,
            }
            for found in result.diagnostics
        ],
    }


def _as_text(result: Checked) -> str:
    counts = Counter(diagnostic.severity for diagnostic in result.diagnostics)
    found = [_counted(counts[severity], severity) for severity in Severity if counts[severity]]
    last = f"{result.path}: {', '.join([result.verdict, *found])}"
    return "\n".join([*map(str, result.diagnostics), last])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
