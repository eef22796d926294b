"""Parse the text of a rules table, or report all its faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mqdlq.model import QueueKind
from mqdlq.rules.diagnostics import Diagnostic, Place, Report, RulesError
from mqdlq.rules.keywords import EXTENSIONS, KEYWORDS, KNOWN
from mqdlq.rules.syntax.building import Builder, WrittenRule
from mqdlq.rules.syntax.grammar import read_statement
from mqdlq.rules.syntax.lines import entries
from mqdlq.rules.table import RulesTable

_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_FOREIGN_LINE_ENDS = {
    "\r": "CR",
    "\x85": "NEL (U+0085)",
    "\udc85": "NEL (X'85')",
    "\u2028": "U+2028",
    "\u2029": "U+2029",
}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A table, or None if it is rejected, with all its diagnostics.

    `control` and `rules` have the written keywords only: text without quotation marks and in its
    final case, symbolic names as numbers. They are empty if the table is rejected.
    """

    table: RulesTable | None
    diagnostics: tuple[Diagnostic, ...]
    control: Mapping[str, str | int] = field(default_factory=dict)
    rules: tuple[WrittenRule, ...] = ()


def check(
    text: str | bytes,
    source: str = "<rules>",
    queue_kind: QueueKind = QueueKind.DEAD_LETTER,
    *,
    frozen: bool = False,
) -> CheckResult:
    """Parse a table and report all its faults; a table with any error is rejected as a whole.

    Bytes are UTF-8 or ASCII. Diagnostics call the table `source`. The table is for queues of
    `queue_kind`. Only a `frozen` text, which mqdlq itself has written, has extensions.
    """
    report = Report(source)
    if isinstance(text, bytes):
        if encoding := _other_encoding(text):
            message = f"the file is {encoding} text; save it as UTF-8 or ASCII"
            report.error("not-utf8", Place(1, 1, 1, ""), message)
            return CheckResult(None, report.diagnostics())
        text = decoded(text)
    if line_end := _foreign_line_end(text):
        message = f"the lines end in {line_end}; save the file with LF or CR LF line ends"
        report.error("line-ends", Place(1, 1, 1, ""), message)
        return CheckResult(None, report.diagnostics())
    builder = Builder(report, KNOWN if frozen else KEYWORDS, queue_kind)
    for entry in entries(text, report):
        builder.add(read_statement(entry, report))
        if report.is_full:
            break
    builder.check_end(text)
    if report.has_errors:
        return CheckResult(None, report.diagnostics())
    table = RulesTable(builder.control, tuple(builder.rules), queue_kind)
    return CheckResult(
        table, report.diagnostics(), builder.written_control, tuple(builder.written_rules)
    )


def treatment_changes(frozen_text: str) -> bool:
    """Whether rules can treat an unchanged message differently in a later run: `changes`."""
    names = (name for name, keyword in EXTENSIONS.items() if keyword.changes)
    return any(table_with(frozen_text, name) for name in names)


def table_with(frozen_text: str, name: str) -> RulesTable | None:
    """Return a frozen table if a rule has the extension of this name, such as AGE, else None."""
    # Most tables have no extension and need not be parsed.
    if f"{name}(" not in frozen_text:
        return None
    table = parse(frozen_text, frozen=True)
    return table if EXTENSIONS[name] in table.extensions.values() else None


def find_unstored(frozen_text: str, stored_texts: Iterable[str]) -> list[str]:
    """Return what a frozen table compares and some snapshots do not have, such as "attempts".

    `stored_texts` are the frozen tables of the snapshots, which have what their own tables compare.
    """
    compared = _stored_for(frozen_text)
    unstored = {what for text in set(stored_texts) for what in compared - _stored_for(text)}
    return sorted(unstored)


def _stored_for(frozen_text: str) -> set[str]:
    found = {"attempts"} if table_with(frozen_text, "ATTEMPTS") else set()
    table = table_with(frozen_text, "PROPERTY")
    conditions = table.property_conditions if table else ()
    return found | {f"property {condition}" for condition in conditions}


def _other_encoding(data: bytes) -> str:
    """Return the name of an encoding other than UTF-8 and ASCII, or ""."""
    if data.startswith(_UTF_16_MARKS):
        return "UTF-16"
    # Letters are the same in every EBCDIC code page, and every rule has an ACTION.
    is_ebcdic = b"ACTION" not in data.upper() and "ACTION" in data.decode("cp500").upper()
    return "EBCDIC" if is_ebcdic else ""


def _foreign_line_end(text: str) -> str:
    """Return the name of a line end other than LF and CR LF, or ""."""
    if "\n" in text:
        return ""
    within = text.rstrip("".join(_FOREIGN_LINE_ENDS))
    return next((name for end, name in _FOREIGN_LINE_ENDS.items() if end in within), "")


def decoded(text: str | bytes) -> str:
    """Decode a table; bytes that are not UTF-8 become lone surrogates.

    A comment may have such bytes. Elsewhere they are reported as errors.
    """
    return text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")


def parse(
    text: str | bytes,
    source: str = "<rules>",
    queue_kind: QueueKind = QueueKind.DEAD_LETTER,
    *,
    frozen: bool = False,
) -> RulesTable:
    """Parse a table, as `check` does; raise RulesError with all faults if it has an error."""
    result = check(text, source, queue_kind, frozen=frozen)
    if result.table is None:
        raise RulesError(result.diagnostics)
    return result.table
