"""Test `mqdlq lsp` with a real client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from mqdlq.cli import app

pytestmark = pytest.mark.slow

T = TypeVar("T")
START = """
import sys
for name in ("airflow", "sqlalchemy", "pyarrow", "numpy", "fsspec", "rich"):
    sys.modules[name] = None  # a bare installation has none of these
from mqdlq.cli import app
app()
"""
ERRORS = "INPUTQ(DLQ)\nREASON(MQRC_Q_FUL) ACTION(RETRY)\nDESTQ(ORDERS.*) ACTON(DISCARD)\n"
GOOD = "INPUTQ(DLQ)\n\nREASON(MQRC_Q_FULL) ACTION(RETRY)\nACTION(IGNORE)\n"


class Editor:
    """A client that starts the server, opens files, and keeps what the server says of each."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = LanguageClient("test", "1")
        self._found: dict[tuple[str, int | None], list[types.Diagnostic]] = {}
        self._changed = asyncio.Event()
        self._versions: dict[str, int] = {}

        def publish(params: types.PublishDiagnosticsParams) -> None:
            self._found[params.uri, params.version] = list(params.diagnostics)
            self._changed.set()

        self._client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(publish)

        self._do(self._client.start_io(sys.executable, "-c", START, "lsp"))
        self.server = self._do(
            self._client.initialize_async(types.InitializeParams(types.ClientCapabilities()))
        )
        self._client.initialized(types.InitializedParams())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, 60))

    def write(self, path: Path, text: str) -> list[types.Diagnostic]:
        """Open a file with this text, or replace its text there; return what is found in it."""
        uri = path.as_uri()
        version = self._versions.get(uri, 0) + 1
        self._versions[uri] = version
        if version == 1:
            opened = types.TextDocumentItem(uri, "mqdlq-rules", version, text)
            self._client.text_document_did_open(types.DidOpenTextDocumentParams(opened))
        else:
            changed = types.VersionedTextDocumentIdentifier(version, uri)
            self._client.text_document_did_change(
                types.DidChangeTextDocumentParams(
                    changed, [types.TextDocumentContentChangeWholeDocument(text)]
                )
            )
        return self.found(path, version)

    def found(self, path: Path, version: int | None = None) -> list[types.Diagnostic]:
        async def wait() -> list[types.Diagnostic]:
            while (path.as_uri(), version) not in self._found:
                self._changed.clear()
                await self._changed.wait()
            return self._found[path.as_uri(), version]

        return self._do(wait())

    def forget(self) -> None:
        self._found.clear()

    def close(self, path: Path) -> None:
        self._client.text_document_did_close(types.DidCloseTextDocumentParams(_named(path)))

    def offered(self, path: Path, line: int, column: int) -> dict[str, types.CompletionItem]:
        params = types.CompletionParams(_named(path), types.Position(line, column))
        found = self._do(self._client.text_document_completion_async(params))
        assert isinstance(found, list)
        return {one.label: one for one in found}

    def meaning(self, path: Path, line: int, column: int) -> str:
        params = types.HoverParams(_named(path), types.Position(line, column))
        found = self._do(self._client.text_document_hover_async(params))
        if found is None:
            return ""
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value

    def formatted(self, path: Path) -> list[types.TextEdit]:
        params = types.DocumentFormattingParams(_named(path), types.FormattingOptions(4, True))
        found = self._do(self._client.text_document_formatting_async(params))
        return list(found or ())

    def end(self) -> int:
        """End the server as an editor does; return its exit code."""
        self._do(self._client.shutdown_async(None))
        self._client.exit(None)
        process = self._client._server
        assert process is not None
        code = self._do(process.wait())
        self._do(self._client.stop())  # type: ignore[no-untyped-call]
        self._loop.close()
        return code


def _named(path: Path) -> types.TextDocumentIdentifier:
    return types.TextDocumentIdentifier(path.as_uri())


@pytest.fixture(scope="module", name="shared")
def _shared() -> Iterator[Editor]:
    editor = Editor()
    yield editor
    assert editor.end() == 0


@pytest.fixture(name="editor")
def _editor(shared: Editor) -> Editor:
    shared.forget()
    return shared


def places(found: list[types.Diagnostic]) -> list[tuple[int, int, int, Any]]:
    return [
        (one.range.start.line, one.range.start.character, one.range.end.character, one.code)
        for one in found
    ]


def test_the_findings_are_those_of_rules_check(editor: Editor, tmp_path: Path) -> None:
    table = tmp_path / "orders.rules"
    table.write_text(ERRORS)

    found = editor.write(table, ERRORS)

    printed = CliRunner().invoke(app, ["rules", "check", str(table)]).output
    assert [one.code for one in found] == ["unknown-name", "unknown-keyword"]
    for one in found:
        start = one.range.start
        assert f"{table}:{start.line + 1}:{start.character + 1}: {one.message}" in printed
    assert found[0].severity == types.DiagnosticSeverity.Error
    assert found[0].source == "mqdlq"


def test_a_correction_ends_the_findings(editor: Editor, tmp_path: Path) -> None:
    table = tmp_path / "orders.rules"
    editor.write(table, ERRORS)

    assert editor.write(table, GOOD) == []


def test_columns_count_as_the_editor_counts_them(editor: Editor, tmp_path: Path) -> None:
    found = editor.write(tmp_path / "wide.rules", "DESTQ('𝄞𝄞') ACTON(RETRY) ACTION(IGNORE)\n")

    # Each of the two characters is one column for us, and two units of UTF-16.
    assert (0, 14, 19, "unknown-keyword") in places(found)


def test_an_empty_table_and_one_without_a_line_end_are_checked(
    editor: Editor, tmp_path: Path
) -> None:
    table = tmp_path / "new.rules"

    assert [one.code for one in editor.write(table, "")] == ["no-rule"]
    assert "no-final-newline" in {one.code for one in editor.write(table, "ACTION(IGNORE)")}


def test_a_table_is_checked_as_its_handler_says(editor: Editor, tmp_path: Path) -> None:
    table, handler = tmp_path / "orders.rules", tmp_path / "orders.yaml"
    doubtful = "INPUTQ(DLQ)\nREASON(2053) ACTION(RETRY)\n"
    table.write_text(doubtful)
    handler.write_text("connection: mq\nrules: orders.rules\n")
    before = editor.write(table, doubtful)
    editor.forget()

    editor.write(handler, "connection: mq\nrules: orders.rules\nlint: {no-catch-all: 'off'}\n")

    assert [one.code for one in before] == ["no-catch-all"]
    assert editor.found(table, 1) == []


def test_a_table_counts_as_it_is_in_the_editor(editor: Editor, tmp_path: Path) -> None:
    table, handler = tmp_path / "orders.rules", tmp_path / "orders.yaml"
    table.write_text(ERRORS)
    handler.write_text("connection: mq\nrules: orders.rules\n")

    assert editor.write(table, GOOD) == []
    assert [one.code for one in editor.write(table, ERRORS)] == ["unknown-name", "unknown-keyword"]


def test_a_handlers_file_is_checked(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "orders.rules").write_text(GOOD)
    text = "connection: mq\nrules: orders.rules\nmax_messages_per_unti: 3\n"

    (found,) = editor.write(tmp_path / "orders.yaml", text)

    assert places([found]) == [(2, 0, 21, "unknown-keyword")]
    assert "did you mean max_messages_per_unit?" in found.message


def test_a_closed_file_has_no_findings(editor: Editor, tmp_path: Path) -> None:
    table = tmp_path / "orders.rules"
    editor.write(table, ERRORS)

    editor.close(table)

    assert editor.found(table, None) == []


def test_a_table_counts_as_it_is_stored_when_its_editor_is_closed(
    editor: Editor, tmp_path: Path
) -> None:
    table, handler = tmp_path / "orders.rules", tmp_path / "orders.yaml"
    table.write_text(GOOD)
    text = "connection: mq\nrules: nowhere.rules\n"
    editor.write(table, ERRORS)
    (found,) = editor.write(handler, text)
    editor.forget()

    editor.close(table)

    assert editor.found(table, None) == []
    assert editor.found(handler, 1) == [found]


def test_a_table_that_is_not_stored_yet_is_checked(editor: Editor, tmp_path: Path) -> None:
    found = editor.write(tmp_path / "nowhere" / "new.rules", "ACTION(RTRY)\n")

    assert [one.code for one in found] == ["invalid-value"]


def test_keywords_are_offered_where_a_rule_may_have_them(editor: Editor, tmp_path: Path) -> None:
    table = tmp_path / "orders.rules"
    editor.write(table, "RE\nREASON(2053) +\n  * not yet\n  AC\n")

    first, second = editor.offered(table, 0, 2), editor.offered(table, 3, 4)

    assert {"INPUTQ", "RETRYINT", "REASON", "ACTION"} <= set(first)
    assert "ACTION" in second
    assert not {"INPUTQ", "REASON"} & set(second)
    assert first["REASON"].text_edit == types.TextEdit(
        types.Range(types.Position(0, 0), types.Position(0, 2)), "REASON("
    )


def test_names_and_words_are_offered_as_values(editor: Editor, tmp_path: Path) -> None:
    table = tmp_path / "orders.rules"
    editor.write(table, "REASON(MQRC_Q_) ACTION()\nFWDQ(&) PERSIST(\n")

    reasons = editor.offered(table, 0, 14)
    assert reasons["MQRC_Q_FULL"].detail == "2053"
    assert "MQFB_TM_ERROR" in reasons
    assert "MQPER_PERSISTENT" not in reasons
    assert set(editor.offered(table, 0, 23)) == {"DISCARD", "IGNORE", "RETRY", "FWD"}
    assert set(editor.offered(table, 1, 6)) == {"&DESTQ", "&REPLYQ"}
    assert "MQPER_PERSISTENT" in editor.offered(table, 1, 16)


def test_keys_and_values_of_a_handler_are_offered(editor: Editor, tmp_path: Path) -> None:
    handler = tmp_path / "orders.yaml"
    lines = [
        *(
            "connection: mq",
            "",
            "approval:",
            "  ",
            "table:",
            "  ",
            "  control:",
            "    ",
            "  rules:",
        ),
        *("    - match:", "        ", "        MQDLH.Reason: [MQRC_", "        FEEDBACK:"),
        *("          - MQFB_", "      ", "    - match: {DE", "      extensions: {", "# REA"),
    ]
    editor.write(handler, "\n".join(lines))

    def at(line: int) -> set[str]:
        return set(editor.offered(handler, line, len(lines[line])))

    assert {"schedule", "payload", "table"} <= at(1)
    assert "timeout" in at(3)
    assert at(5) == {"control", "rules"}
    assert {"input_q", "retryint", "wait"} <= at(7)
    assert {"DESTQ", "REASON"} <= at(10)
    assert "MQRC_Q_FULL" in at(11)
    assert "MQFB_TM_ERROR" in at(13)
    assert {"match", "extensions", "action", "fwdq", "retry"} <= at(14)
    assert "DESTQ" in at(15)
    assert {"age", "header_chain"} <= at(16)
    assert at(17) == set()


def test_a_reason_has_its_meaning_its_remedy_and_what_ends_it(
    editor: Editor, tmp_path: Path
) -> None:
    table = tmp_path / "orders.rules"
    editor.write(
        table, "REASON(2053) ACTION(RETRY)\nFEEDBACK(MQFB_TM_ERROR) ACTION(IGNORE)\n* 2053\n"
    )

    assert editor.meaning(table, 0, 8) == (
        "**MQRC_Q_FULL (2053)**: the queue is full\n\n"
        "It passes by itself. Next: check the application that reads it, or raise its MAXDEPTH.\n\n"
        "A retry succeeds when full queues are emptied."
    )
    assert editor.meaning(table, 1, 12).startswith("**MQFB_TM_ERROR (266)**: the trigger message")
    assert editor.meaning(table, 0, 2) == (
        "**REASON** compares MQDLH.Reason with a number from 0 to 999999999, an MQRC or MQFB name"
        " or '*'"
    )
    assert editor.meaning(table, 2, 3) == ""
    assert editor.meaning(table, 0, 20) == ""


def test_a_reason_in_a_handlers_table_has_its_meaning(editor: Editor, tmp_path: Path) -> None:
    handler = tmp_path / "orders.yaml"
    editor.write(handler, "table:\n  rules:\n    - match:\n        Reason: [2051, 2053]\n")

    assert editor.meaning(handler, 3, 18).startswith("**MQRC_PUT_INHIBITED (2051)**")
    assert editor.meaning(handler, 3, 24).startswith("**MQRC_Q_FULL (2053)**")
    assert editor.meaning(handler, 3, 10).startswith("**REASON** compares MQDLH.Reason")


def test_a_key_of_a_handler_has_its_meaning(editor: Editor, tmp_path: Path) -> None:
    handler = tmp_path / "orders.yaml"
    text = "connection: mq\napproval:\n  timeout: 1h\nnul_as_blank: yes\npayload: head\n"
    editor.write(handler, text)

    assert editor.meaning(handler, 3, 5) == (
        "**nul_as_blank**: Compare NULs in text fields as blanks. IBM's handler does not do that."
    )
    assert editor.meaning(handler, 4, 2).endswith("See snapshots.")
    assert editor.meaning(handler, 2, 4).startswith("**timeout**: ")
    offered = editor.offered(handler, 3, 2)
    assert offered["nul_as_blank"].documentation == types.MarkupContent(
        types.MarkupKind.Markdown, editor.meaning(handler, 3, 5)
    )
    assert not {"name", "directory"} & set(offered)


def test_a_table_is_laid_out_as_rules_format_does(editor: Editor, tmp_path: Path) -> None:
    table = tmp_path / "orders.rules"
    written = "* all\naction(retry) reason(2053) retry(1)\n"
    table.write_text(written)
    editor.write(table, written)

    (edit,) = editor.formatted(table)

    assert CliRunner().invoke(app, ["rules", "format", str(table)]).exit_code == 0
    assert edit.new_text == table.read_text() != written
    assert edit.range == types.Range(types.Position(0, 0), types.Position(2, 0))


def test_a_table_with_an_error_and_a_handlers_file_keep_their_layout(
    editor: Editor, tmp_path: Path
) -> None:
    for name in ("orders.rules", "orders.yaml"):
        editor.write(tmp_path / name, ERRORS)

        assert editor.formatted(tmp_path / name) == []
