"""Print control data and rules canonically: tables with the same meaning have the same text.

Defaults are omitted, keywords are in the order of the keyword table, and numbers are printed as
symbolic names if the keyword's family has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mqdlq.constants import name_of
from mqdlq.model import PutAuthority
from mqdlq.rules.keywords import KNOWN
from mqdlq.rules.records import ControlData, Pattern, Rule
from mqdlq.rules.syntax.lines import COLUMNS

_INDENT: Final = "    "
_UNQUOTED: Final = re.compile(r"&?[A-Z0-9./_%*?]+")


def print_entries(control: ControlData, rules: Iterable[Rule]) -> str:
    """Return the text of a table."""
    entries = [list(control_parameters(control))] if control != ControlData() else []
    entries.extend(list(rule_parameters(rule)) for rule in rules)
    return "".join(f"{line}\n" for parameters in entries for line in _lines(parameters))


def control_parameters(control: ControlData) -> Iterator[str]:
    """Yield the keywords of control data with their printed values."""
    default = ControlData()
    if control.input_q:
        yield _parameter("INPUTQ", control.input_q)
    if control.input_q_mgr:
        yield _parameter("INPUTQM", control.input_q_mgr)
    if control.retry_interval_s != default.retry_interval_s:
        yield f"RETRYINT({control.retry_interval_s})"
    if control.wait_s is not None:
        yield f"WAIT({control.wait_s or 'NO'})"


def rule_parameters(rule: Rule) -> Iterator[str]:
    """Yield the keywords of a rule with their printed values."""
    yield from map(_pattern, rule.patterns)
    yield f"ACTION({rule.action})"
    if rule.fwd_q:
        yield _parameter("FWDQ", rule.fwd_q)
    if rule.fwd_q_mgr:
        yield _parameter("FWDQM", rule.fwd_q_mgr)
    if not rule.header:
        yield "HEADER(NO)"
    if rule.put_authority is not PutAuthority.DEF:
        yield f"PUTAUT({rule.put_authority})"
    if rule.retry != 1:
        yield f"RETRY({rule.retry})"


def _pattern(pattern: Pattern) -> str:
    if isinstance(pattern.value, str):
        return _parameter(pattern.keyword, pattern.value)
    name = name_of(pattern.value, KNOWN[pattern.keyword].families)
    return f"{pattern.keyword}({name or pattern.value})"


def _parameter(keyword: str, text: str) -> str:
    if _UNQUOTED.fullmatch(text):
        return f"{keyword}({text})"
    doubled = text.replace("'", "''")
    return f"{keyword}('{doubled or ' '}')"


def _lines(parameters: Iterable[str]) -> Iterator[str]:
    """Fill lines with whole parameters; split a parameter only if it exceeds a line."""
    line = ""
    for parameter in parameters:
        start = f"{line} {parameter}" if line else parameter
        # Two columns are reserved for a continuation sign.
        if len(start) <= COLUMNS - 2:
            line = start
            continue
        if line:
            yield f"{line} +"
        *cut, line = _cut(_INDENT + parameter if line else parameter)
        yield from cut
    yield line


def _cut(text: str) -> Iterator[str]:
    """Split a parameter over lines that continue exactly where the previous line ended."""
    while len(text) > COLUMNS - 2:
        end = min(COLUMNS, len(text)) - 1
        # A line that begins with a blank or an asterisk could be read as a comment: search another
        # place to split. If none exists, the asterisk is indented, within its value.
        good = (at for at in range(end, len(_INDENT) + 1, -1) if text[at] not in " *")
        end = next(good, end)
        if text[end] == "*":
            yield f"{text[:end]}+"
            text = _INDENT + text[end:]
        else:
            yield f"{text[:end]}-"
            text = text[end:]
    yield text
