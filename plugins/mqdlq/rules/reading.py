"""Read the text of a rules table, or report every fault it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mqdlq.rules.diagnostics import Diagnostic, Place, Report, RulesError
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
    """A table, or None where it is refused, and everything there is to say about it.

    `control` and `rules` hold what is written and nothing else, by keyword: text unquoted and
    folded, symbolic names as numbers. They are empty where the table is refused.
    """

    table: RulesTable | None
    diagnostics: tuple[Diagnostic, ...]
    control: Mapping[str, str | int] = field(default_factory=dict)
    rules: tuple[WrittenRule, ...] = ()


def check(text: str | bytes, source: str = "<rules>") -> CheckResult:
    """Read a table and say everything about it; one error anywhere refuses it whole.

    Bytes are UTF-8, of which ASCII is a part. `source` is the name errors give the table.
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
    builder = Builder(report)
    for entry in entries(text, report):
        builder.add(read_statement(entry, report))
        if report.is_full:
            break
    builder.check_end(text)
    if report.has_errors:
        return CheckResult(None, report.diagnostics())
    table = RulesTable(builder.control, tuple(builder.rules))
    return CheckResult(
        table, report.diagnostics(), builder.written_control, tuple(builder.written_rules)
    )


def _other_encoding(data: bytes) -> str:
    """Name the encoding of a file that is neither UTF-8 nor ASCII, "" where it may be either."""
    if data.startswith(_UTF_16_MARKS):
        return "UTF-16"
    # Letters are the same in every EBCDIC code page, and no rule is without an ACTION.
    is_ebcdic = b"ACTION" not in data.upper() and "ACTION" in data.decode("cp500").upper()
    return "EBCDIC" if is_ebcdic else ""


def _foreign_line_end(text: str) -> str:
    """Name what ends the lines of a text from another platform, "" where line ends are LF."""
    if "\n" in text:
        return ""
    within = text.rstrip("".join(_FOREIGN_LINE_ENDS))
    return next((name for end, name in _FOREIGN_LINE_ENDS.items() if end in within), "")


def decoded(text: str | bytes) -> str:
    """Return a table's text; bytes that are not UTF-8 become lone surrogates.

    They are judged where they stand: a comment may hold anything.
    """
    return text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")


def parse(text: str | bytes, source: str = "<rules>") -> RulesTable:
    """Return the table; raises RulesError, which holds every fault, if it has any error."""
    result = check(text, source)
    if result.table is None:
        raise RulesError(result.diagnostics)
    return result.table
