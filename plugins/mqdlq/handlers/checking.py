"""Check a handler's YAML file and the rules table it names, without connecting to anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqdlq.errors import HandlerError
from mqdlq.handlers.configuration import Handler, build_handler, name_fault
from mqdlq.handlers.documents import Document, MappingNode, Node, read_document
from mqdlq.handlers.tables import check
from mqdlq.rules import CheckResult, Diagnostic
from mqdlq.rules.diagnostics import Place, Report

_OF_A_TABLE: Final = {"table", "lint", "queue_kind"}


@dataclass(frozen=True, slots=True)
class HandlerCheck:
    """A handler, or None if its file is rejected, with all diagnostics of the file.

    `table` is the check of its rules: of the file `table_path` if given, otherwise of the key
    `table` in the handler's file. It is None if the file is rejected.
    """

    handler: Handler | None
    diagnostics: tuple[Diagnostic, ...]
    table: CheckResult | None = None
    table_path: str = ""


def is_handler(data: bytes) -> bool:
    """Whether a YAML file is a handler: it has keys other than those of a table."""
    return not {name for name, _ in _keys(read_document(data, Report("")))} <= _OF_A_TABLE


def check_handler(path: Path, data: bytes) -> HandlerCheck:
    """Check the bytes of a handler's file, and its rules by the severities of its key `lint`.

    Only the file and its rules table are read.
    """
    report = Report(str(path))
    document = read_document(data, report)
    handler = build_handler(document, report, path.stem, path.parent)
    fault = name_fault(path.stem)
    if path.suffix != ".yaml":
        right = f"{path.stem}.yaml"
        fault = f"a handler's file ends in .yaml; no run would find this one, rename it {right}"
    if fault:
        report.error("handler-name", Place(1, 1, 1, ""), fault)
    if handler is None or report.has_errors:
        return HandlerCheck(None, report.diagnostics())
    if handler.rules is None:
        return HandlerCheck(handler, report.diagnostics(), check(data, str(path)))
    try:
        table_path, text = handler.read_table()
    except HandlerError as error:
        report.error("rules-table", document.place(dict(_keys(document))["rules"]), error.text)
        return HandlerCheck(None, report.diagnostics())
    result = handler.review_table(table_path, text)
    return HandlerCheck(handler, report.diagnostics(), result, str(table_path))


def _keys(document: Document) -> list[tuple[str, Node]]:
    """Return the top-level keys in lower case, as they are read, and their values."""
    root = document.root
    pairs = root.value if isinstance(root, MappingNode) else ()
    return [(str(key.value).lower(), value) for key, value in pairs]
