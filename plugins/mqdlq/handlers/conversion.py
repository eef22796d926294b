"""Convert a rules table between runmqdlq's syntax and YAML.

Comments on separate lines or after a value are kept, before their rule. Layout and explicit
defaults are not kept.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final

import yaml

from mqdlq.constants import name_of
from mqdlq.handlers.documents import Document, MappingNode, Node, ScalarNode
from mqdlq.handlers.tables import check as check_yaml
from mqdlq.rules import ControlData, check, format_table, print_table
from mqdlq.rules.diagnostics import Report
from mqdlq.rules.formatting import comments
from mqdlq.rules.keywords import KEYWORDS
from mqdlq.rules.table import print_entries

_DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_COMMENT: Final = re.compile(r"(?<![^ \t])#(.*)")
_ONE_LINE: Final = 1_000_000
_CONTROL: Final = {"INPUTQ": "input_q", "INPUTQM": "input_q_mgr"}


def to_yaml(text: str | bytes, source: str = "<rules>") -> str:
    """Convert a table in runmqdlq's syntax to the `table` of a handler's YAML file.

    Raises RulesError with all faults if the table has an error.
    """
    result = check(text, source)
    canonical = check(print_table(result.valid_table()))
    of_control, *of_rules = comments(text) if result.control else ((), *comments(text))
    lines = ["table:"]
    if canonical.control:
        lines += [*_commented(of_control, "  "), "  control:"]
        lines += [
            f"    {_CONTROL.get(name, name.lower())}: {_value(name, value)}"
            for name, value in canonical.control.items()
        ]
        of_control = ()
    lines += [*_commented(of_control, "  "), "  rules:"]
    for remarks, rule in zip_longest(of_rules, canonical.rules):
        lines += _commented(remarks, "    ")
        if rule:
            lines += _rule(rule.keywords)
    return "".join(f"{line}\n" for line in lines)


def to_table(data: str | bytes, source: str = "<rules>") -> str:
    """Convert the `table` of a YAML file to runmqdlq's syntax.

    Raises RulesError with all faults if the table has an error.
    """
    table = check_yaml(data, source).valid_table()
    print_table(table, source)  # it refuses extensions
    document = Document(data, Report(source))
    found = list(_comments(document))
    ends = _last_lines(document)
    lines: list[str] = []

    def add(entry: str, first_line: int) -> None:
        """Add an entry after the comments that precede it."""
        last = ends.get(first_line, first_line)
        while found and found[0][0] <= last:
            lines.append(f"* {found.pop(0)[1]}\n")
        lines.append(entry)

    add(print_entries(table.control, ()), 0)
    for rule in table.rules:
        add(print_entries(ControlData(), (rule,)), rule.line)
    lines += [f"* {comment}\n" for _, comment in found]
    return format_table("".join(lines), source)


def _commented(remarks: Iterable[str], indent: str) -> Iterator[str]:
    for remark in remarks:
        shown = "".join(char if char.isprintable() else "?" for char in remark.expandtabs())
        yield f"{indent}# {shown}".rstrip()


def _rule(keywords: Mapping[str, str | int]) -> Iterator[str]:
    patterns = {name: value for name, value in keywords.items() if KEYWORDS[name].is_pattern}
    actions = {name: value for name, value in keywords.items() if name not in patterns}
    lines = ["match:"] if patterns else []
    lines += [f"  {name}: {_value(name, value)}" for name, value in patterns.items()]
    lines += [f"{name.lower()}: {_value(name, value)}" for name, value in actions.items()]
    for number, line in enumerate(lines):
        yield f"    {'  ' if number else '- '}{line}"


def _value(name: str, value: str | int) -> str:
    if isinstance(value, int):
        return name_of(value, KEYWORDS[name].families) or str(value)
    dumped = yaml.dump(value or " ", Dumper=_DUMPER, allow_unicode=True, width=_ONE_LINE)
    return str(dumped).removesuffix("\n").removesuffix("\n...")


def _comments(document: Document) -> Iterator[tuple[int, str]]:
    """Yield the comments of the table with their lines; skip scalars, which may contain a #."""
    first, last = _region(document)
    ends = _scalar_ends(_table(document))
    for number in range(first, last):
        line = document.lines[number]
        found = _COMMENT.search(line, ends.get(number, 0))
        if found and found.group(1).strip():
            yield number + 1, found.group(1).strip()


def _region(document: Document) -> tuple[int, int]:
    """Return the lines, from 0, between the key `table` and the next key of its mapping."""
    names, nodes, _ = zip(*document.entries(), strict=True)
    starts, at = [key.start_mark.line for key in nodes], names.index("table")
    last = starts[at + 1] if at + 1 < len(starts) else len(document.lines)
    # Comments above the next key, at its indentation, belong to the next key.
    while last > starts[at] + 1 and not document.lines[last - 1].startswith((" ", "\t")):
        last -= 1
    return starts[at], last


def _last_lines(document: Document) -> dict[int, int]:
    """Return the last lines of the control data, under 0, and of every rule, under its first."""
    table = {key.value.lower(): value for key, value in _table(document).value}
    lines = {0: max(_scalar_ends(table["control"]), default=-1) + 1 if "control" in table else 0}
    for rule in table["rules"].value:
        first = rule.start_mark.line + 1
        lines[first] = max(lines.get(first, 0), max(_scalar_ends(rule)) + 1)
    return lines


def _table(document: Document) -> Node:
    return next(value for name, _, value in document.entries() if name == "table")


def _scalar_ends(node: Node) -> dict[int, int]:
    """Return for each line, from 0, the column where its last scalar ends."""
    ends: dict[int, int] = {}
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ScalarNode):
            start, end = node.start_mark, node.end_mark
            ends |= dict.fromkeys(range(start.line, end.line), _ONE_LINE)
            ends[end.line] = max(ends.get(end.line, 0), end.column)
        elif isinstance(node, MappingNode):
            waiting += [part for pair in node.value for part in pair]
        else:
            waiting += node.value
    return ends
