"""The command `mqdlq lsp`: a language server for rules tables and handlers' files."""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from mqdlq.cli.rules import YAML, check_files
from mqdlq.handlers.editing import Cursor, meaning, offers
from mqdlq.rules import Diagnostic, RulesError, Severity, format_table

_SEVERITIES: Final = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
}


def lsp() -> None:
    """Implement `mqdlq lsp`.

    Serves an editor by the Language Server Protocol over standard input and output: the findings
    of `mqdlq rules check` while you write, completion of keywords, keys and symbolic names, the
    meaning of reason codes, and the layout of `mqdlq rules format`. The editor starts the command;
    nothing is connected to. It ends with its input.

    Exit code 0 when the editor ends it.

    For example:
      mqdlq lsp
    """
    if sys.stdin.isatty():
        click.echo("mqdlq: this waits for an editor on standard input", err=True)
    server = LanguageServer("mqdlq", version("mqdlq"))
    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(_changed)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(_changed)
    server.feature(types.TEXT_DOCUMENT_DID_SAVE)(_changed)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(_closed)
    triggers = types.CompletionOptions(trigger_characters=["(", "_"])
    server.feature(types.TEXT_DOCUMENT_COMPLETION, triggers)(_complete)
    server.feature(types.TEXT_DOCUMENT_HOVER)(_hover)
    server.feature(types.TEXT_DOCUMENT_FORMATTING)(_format)
    server.start_io()


_Changed = (
    types.DidOpenTextDocumentParams
    | types.DidChangeTextDocumentParams
    | types.DidSaveTextDocumentParams
    | types.DidCloseTextDocumentParams
)


def _changed(server: LanguageServer, _: _Changed) -> None:
    """Check all open files: a change of one can be a fault in another, its handler or its table."""
    for document in server.workspace.text_documents.values():
        found = [_diagnostic(one, document) for one in _findings(server, document)]
        server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(document.uri, found, document.version)
        )


def _closed(server: LanguageServer, params: types.DidCloseTextDocumentParams) -> None:
    server.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(params.text_document.uri, [])
    )
    _changed(server, params)


def _findings(server: LanguageServer, document: TextDocument) -> Iterator[Diagnostic]:
    """Yield what `mqdlq rules check` finds in a file, given together with the handlers beside it.

    Open files count as they are in the editor.
    """
    unsaved = {_name(one): one.source for one in server.workspace.text_documents.values()}
    name = _name(document)
    files = [(name, _encoded(document.source))]
    if not name.endswith(YAML) and document.uri.startswith("file:"):
        for path in sorted(Path(name).parent.glob("*.yaml")):
            text = unsaved.get(str(path))
            data = path.read_bytes() if text is None else _encoded(text)
            if Path(name).name.encode() in data:
                files.append((str(path), data))
    for result in check_files(files, unsaved):
        if result.path == name:
            yield from result.diagnostics


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _name(document: TextDocument) -> str:
    return document.path or document.uri


def _diagnostic(found: Diagnostic, document: TextDocument) -> types.Diagnostic:
    start = types.Position(found.line - 1, found.column - 1)
    end = types.Position(found.line - 1, found.column - 1 + found.length)
    return types.Diagnostic(
        range=document.position_codec.range_to_client_units(
            document.lines, types.Range(start, end)
        ),
        message=found.message,
        severity=_SEVERITIES[found.severity],
        code=found.code,
        source="mqdlq",
    )


def _cursor(server: LanguageServer, uri: str, position: types.Position) -> Cursor:
    document = server.workspace.get_text_document(uri)
    at = document.position_codec.position_from_client_units(document.lines, position)
    lines = [line.rstrip("\r\n") for line in document.lines]
    return Cursor(lines, at.line, at.character, _name(document).endswith(YAML))


def _word(server: LanguageServer, uri: str, cursor: Cursor) -> types.Range:
    document = server.workspace.get_text_document(uri)
    start, end = (types.Position(cursor.line, column) for column in cursor.word)
    return document.position_codec.range_to_client_units(document.lines, types.Range(start, end))


def _complete(server: LanguageServer, params: types.CompletionParams) -> list[types.CompletionItem]:
    uri = params.text_document.uri
    cursor = _cursor(server, uri, params.position)
    replaced = types.Range(_word(server, uri, cursor).start, params.position)
    return [
        types.CompletionItem(
            label=offer.text.rstrip("(: "),
            detail=offer.detail,
            documentation=types.MarkupContent(types.MarkupKind.Markdown, offer.meaning),
            text_edit=types.TextEdit(replaced, offer.text),
        )
        for offer in offers(cursor)
    ]


def _hover(server: LanguageServer, params: types.HoverParams) -> types.Hover | None:
    uri = params.text_document.uri
    cursor = _cursor(server, uri, params.position)
    text = meaning(cursor)
    if not text:
        return None
    content = types.MarkupContent(types.MarkupKind.Markdown, text)
    return types.Hover(content, _word(server, uri, cursor))


def _format(
    server: LanguageServer, params: types.DocumentFormattingParams
) -> list[types.TextEdit] | None:
    """Lay out a rules table; a table with an error stays, and so does a handler's file."""
    document = server.workspace.get_text_document(params.text_document.uri)
    if _name(document).endswith(YAML):
        return None
    try:
        text = format_table(document.source, _name(document))
    except RulesError:
        return None
    everything = types.Range(types.Position(0, 0), types.Position(len(document.lines), 0))
    return [types.TextEdit(everything, text)] if text != document.source else []
