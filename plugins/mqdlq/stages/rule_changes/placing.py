"""Insert rules into the text of a rules table, and keep every other line as it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import unified_diff
from io import StringIO
from typing import Final

from mqdlq import lake
from mqdlq.lake import Snapshot
from mqdlq.model import Action
from mqdlq.rules import Rule, RulesTable, matches, matching_rules, with_nuls_as_blanks
from mqdlq.rules.lint.inclusion import rule_covers

_COMMENT: Final = "*"
_BLANKS: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Insertion:
    """A table's text with inserted lines: `lines` of them, the first at `line` (from 1)."""

    text: str
    line: int
    lines: int


def find_place(
    table: RulesTable, added: RulesTable, stored: Iterable[Snapshot], *, nul_as_blank: bool = False
) -> Rule | None:
    """Return the rule before which added rules belong, or None for the end of the table.

    It is the first rule that a message of the snapshots tries today, of the messages that the added
    rules match. Without such a message, it is the first rule that matches every message of an added
    rule. An IGNORE that matches only some messages of the added rules is an exception that someone
    made, for example for messages under legal hold: it stays before the added rules. Raises
    `LakeError`.
    """
    takers = [
        rule
        for rule in table.rules
        if rule.action is not Action.IGNORE or _covers_one_of(rule, added)
    ]
    columns = sorted({"message_key", "class", *table.columns, *added.columns})
    seen: set[tuple[object, ...]] = set()
    found: list[Rule] = []
    for _, row in lake.newest_rows(stored, columns):
        values = (*table.key_of(row), *added.key_of(row))
        if not table.acts_on(row["class"]) or values in seen:
            continue
        seen.add(values)
        compared = with_nuls_as_blanks(row) if nul_as_blank else row
        if matching_rules(added, compared):
            found += [rule for rule in takers if matches(rule, compared)][:1]
    if not found:
        found = [rule for rule in takers if _covers_one_of(rule, added)]
    return min(found, key=lambda rule: rule.ordinal, default=None)


def _covers_one_of(rule: Rule, added: RulesTable) -> bool:
    return any(rule_covers(rule, one) for one in added.rules)


def insert_rules(table_text: str, added_text: str, before: Rule | None) -> Insertion:
    """Insert rules before a rule of a table, or at its end; return the text of the whole table.

    The comment lines directly above a rule belong to the rule and stay with it. Comments at the
    beginning of the file belong to the file: the rules follow these comments.
    """
    lines = _lines(table_text)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += end
    place = len(lines) if before is None else _find_line(lines, before)
    added = [line.rstrip(_BLANKS) + end for line in _lines(added_text)]
    return Insertion("".join([*lines[:place], *added, *lines[place:]]), place + 1, len(added))


def diff_tables(name: str, old: str, new: str) -> str:
    """Return the unified diff of two texts of a table, which `git apply` and `patch -p1` read."""
    before, after = _lines(old), _lines(new)
    if before and not before[-1].endswith("\n"):
        before[-1] += "\n"
    return "".join(unified_diff(before, after, f"a/{name}", f"b/{name}"))


def _lines(text: str) -> list[str]:
    """Split a text at LF only, as tables are read; each line keeps its end."""
    return list(StringIO(text, newline="\n"))


def _find_line(lines: list[str], rule: Rule) -> int:
    """Return the number of lines before the rule's entry and the comments that belong to it."""
    start = rule.line - 1
    place = start
    while place and lines[place - 1].startswith(_COMMENT):
        place -= 1
    return start if place == 0 else place
