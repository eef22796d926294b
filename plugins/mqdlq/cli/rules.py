"""The commands `mqdlq rules check`, `format` and `convert`; how other commands read a table."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, BinaryIO, Final, Literal
from urllib.parse import quote

import click

from mqdlq.cli.output import attributes, refusing, write_json
from mqdlq.directories import check_input, new_file
from mqdlq.model import QueueKind
from mqdlq.rules import CheckResult, Diagnostic, RulesError, RulesTable, Severity, format_table
from mqdlq.rules import check as check_text
from mqdlq.rules.diagnostics import counted
from mqdlq.rules.lint import review

STANDARD_INPUT: Final = "<stdin>"
YAML: Final = (".yaml", ".yml")
_SARIF: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
QueueKindOption = Annotated[
    QueueKind,
    "--queue-kind: The kind of queue that the rules are for; the key queue_kind of a YAML file"
    " counts first.",
]


def name_of(file: BinaryIO) -> str:
    """Return the name errors give an input; what is piped in may have none."""
    return str(getattr(file, "name", STANDARD_INPUT))


def review_table(data: bytes, name: str) -> CheckResult:
    """Check and lint a table, which is in YAML where the file's name says so."""
    return _check_yaml(data, name) if name.endswith(YAML) else review(data, name)


def parse_table(file: BinaryIO, queue_kind: QueueKind = QueueKind.DEAD_LETTER) -> RulesTable:
    """Return the table in a file, which is in YAML where its name says so; raises RulesError."""
    name = name_of(file)
    result = (_check_yaml if name.endswith(YAML) else check_text)(file.read(), name, queue_kind)
    return result.valid_table()


def _check_yaml(
    data: bytes, name: str, queue_kind: QueueKind = QueueKind.DEAD_LETTER
) -> CheckResult:
    from mqdlq.handlers import check as check_yaml  # noqa: PLC0415 (pydantic takes long to import)

    return check_yaml(data, name, queue_kind)


_NOTHING: Final = CheckResult(None, ())


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


def check(paths: tuple[str, ...], output: Literal["text", "json", "sarif"] = "text") -> None:
    """Implement `mqdlq rules check`.

    A handler is checked with the rules table it names, as its key `lint` judges the warnings.
    Nothing is connected to: `mqdlq check` checks what the handler's user may do.

    Exit code 0 if everything is valid (warnings are allowed); 1 if a file is not; 2 if an argument
    is wrong.

    Takes:
      PATH: A rules table, a handler's YAML file, the file OWNERS, or a directory of them; - is a
        table on standard input.
      --format: How to write it.

    For example:
      mqdlq rules check include/rules
      mqdlq rules check include/rules/demo.yaml
      mqdlq rules check --format sarif include/rules/*.rules
    """
    results = check_files(_files(paths))
    if output == "json":
        write_json({"files": [_as_json(result) for result in results]})
    elif output == "sarif":
        write_json(_sarif_log([found for result in results for found in result.diagnostics]))
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
            kinds = ("*.yaml", "*.rules", "OWNERS")
            found = [one for kind in kinds for one in sorted(found[0].glob(kind))]
            if not found:
                raise click.BadParameter(f"'{path}' holds neither *.yaml nor *.rules")
        for file in found:
            try:
                check_input(file)
                yield str(file), file.read_bytes()
            except OSError as error:
                raise click.BadParameter(f"'{file}': {error.strerror}") from None


def check_files(
    files: Iterable[tuple[str, bytes]], unsaved: Mapping[str, str] = MappingProxyType({})
) -> list[Checked]:
    """Check every file; a table that one of the handlers names is checked as that handler's.

    `unsaved` has texts that count in place of the files of such tables, by their paths.
    """
    given = list(files)
    handlers = {name: found for name, data in given if (found := _of_handler(name, data, unsaved))}
    named = {result.path for found in handlers.values() for result in found}
    results: list[Checked] = []
    for name, data in given:
        if name in handlers:
            results += (result for result in handlers[name] if result not in results)
        elif Path(name).name == "OWNERS":
            results.append(_of_owners(name, data))
        elif name not in named:
            results.append(_of_table(name, review_table(data, name)))
    return results


def _of_table(path: str, result: CheckResult) -> Checked:
    return Checked(path, _rules_in(result), result.diagnostics, result)


def _of_owners(name: str, data: bytes) -> Checked:
    from mqdlq.handlers.owners import check_owners  # noqa: PLC0415 (imports pydantic)

    owners, diagnostics = check_owners(data, name)
    verdict = "refused" if owners is None else counted(len(owners.owners), "owner")
    return Checked(name, verdict, diagnostics)


def _of_handler(name: str, data: bytes, unsaved: Mapping[str, str]) -> list[Checked]:
    """Return the results for a handler and for the table it names; nothing for any other file."""
    if not name.endswith(YAML):
        return []
    from mqdlq.handlers import check_handler, is_handler  # noqa: PLC0415 (imports pydantic)

    if not is_handler(data):
        return []
    found = check_handler(Path(name), data, unsaved)
    if found.handler is None or found.table is None:
        return [Checked(name, "refused", found.diagnostics)]
    verdict = f"handler, connection {found.handler.connection}"
    if not found.table_path:
        verdict = f"{verdict}, {_rules_in(found.table)}"
        return [Checked(name, verdict, found.diagnostics, found.table)]
    verdict = f"{verdict}, rules {found.handler.rules}"
    return [Checked(name, verdict, found.diagnostics), _of_table(found.table_path, found.table)]


def _rules_in(result: CheckResult) -> str:
    return "refused" if result.table is None else counted(len(result.table.rules), "rule")


def _as_json(result: Checked) -> dict[str, Any]:
    rules = result.table.rules
    return {
        "path": result.path,
        "valid": result.is_valid,
        "control": dict(result.table.control),
        "rules": [{"line": rule.line, "keywords": dict(rule.keywords)} for rule in rules],
        "diagnostics": [
            attributes(found, "severity", "code", "line", "column", "message")
            for found in result.diagnostics
        ],
    }


def _as_text(result: Checked) -> str:
    counts = Counter(diagnostic.severity for diagnostic in result.diagnostics)
    found = [counted(counts[severity], severity) for severity in Severity if counts[severity]]
    last = f"{result.path}: {', '.join([result.verdict, *found])}"
    return "\n".join([*map(str, result.diagnostics), last])


def _sarif_log(diagnostics: list[Diagnostic]) -> dict[str, Any]:
    """Return the log of one run, a result for each diagnostic; columns count characters."""
    codes = sorted({diagnostic.code for diagnostic in diagnostics})
    results = [_result(one) | {"ruleIndex": codes.index(one.code)} for one in diagnostics]
    run = {
        "tool": {"driver": {"name": "mqdlq", "rules": [{"id": code} for code in codes]}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [run]}


def _result(diagnostic: Diagnostic) -> dict[str, Any]:
    path = Path(diagnostic.path)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    region = {
        "startLine": diagnostic.line,
        "startColumn": diagnostic.column,
        "endColumn": diagnostic.column + diagnostic.length,
    }
    place = {"artifactLocation": {"uri": uri}, "region": region}
    return {
        "ruleId": diagnostic.code,
        "level": diagnostic.severity,
        "message": {"text": diagnostic.message},
        "locations": [{"physicalLocation": place}],
    }


def format_tables(tables: tuple[BinaryIO, ...], only_check: bool = False) -> None:
    """Implement `mqdlq rules format`.

    The files are changed in place, and comments keep their places. Keywords come in one order, no
    line exceeds 72 columns, and parameters that repeat a default are removed. Neither the meaning
    of the table nor its digest changes.

    Exit code 0; 1 if a table is rejected, or if --check finds one that would change; 2 if an
    argument is wrong.

    Takes:
      PATH: - formats standard input to standard output.
      --check: Write nothing; say which files would change.

    For example:
      mqdlq rules format include/rules/demo.rules
      mqdlq rules format --check include/rules/*.rules
    """
    ends = [_format(table, only_check=only_check) for table in tables]
    raise SystemExit(max(ends))


def _format(file: BinaryIO, *, only_check: bool) -> int:
    data, name = file.read(), name_of(file)
    try:
        canonical = _encoded(format_table(data, name))
    except RulesError as error:
        click.echo(f"{error}\n{name}: refused, nothing is written", err=True)
        return 1
    changes = canonical != data
    if only_check:
        click.echo(f"{name}: {'would be changed' if changes else 'is canonical'}")
        return int(changes)
    if name == STANDARD_INPUT:
        click.echo(canonical, nl=False)
        return 0
    if changes:
        final = Path(name).resolve()
        with new_file(final) as formatted:
            os.fchmod(formatted.fileno(), final.stat().st_mode)
            formatted.write(canonical)
    click.echo(f"{name}: {'formatted' if changes else 'is canonical already'}")
    return 0


def convert(file: BinaryIO, to: Literal["yaml", "table"]) -> None:
    """Implement `mqdlq rules convert`.

    The other form goes to standard output with the same meaning and the same comments. The YAML
    form is the key `table` of a handler's file; the file's other keys are left out.

    Exit code 0; 1 if the table is rejected; 2 if an argument is wrong.

    Takes:
      PATH: A rules table or, to convert to one, a YAML file; - is standard input.
      --to: The form to write.

    For example:
      mqdlq rules convert --to yaml include/rules/demo.rules
    """
    from mqdlq.handlers import to_table, to_yaml  # noqa: PLC0415 (imports pydantic)

    data, name = file.read(), name_of(file)
    with refusing(RulesError, code=1, prefix=""):
        converted = to_yaml(data, name) if to == "yaml" else to_table(data, name)
    click.echo(_encoded(converted), nl=False)


def _encoded(text: str) -> bytes:
    """Return a table's text as bytes; bytes that were not UTF-8 stay the same."""
    return text.encode("utf-8", "surrogateescape")
