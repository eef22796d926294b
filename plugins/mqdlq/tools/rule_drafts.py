"""A change of a rules table: added rules, their place, and a backtest over stored snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from io import StringIO
from typing import Final

from mqdlq import lake
from mqdlq.causes import Cause
from mqdlq.errors import LakeError
from mqdlq.evaluation.differences import Treatments, treatments_in
from mqdlq.lake import Snapshot, snapshot_stands
from mqdlq.ledger.tables import TakenSnapshot
from mqdlq.model import Action
from mqdlq.rules import (
    CheckResult,
    Diagnostic,
    Rule,
    RulesError,
    RulesTable,
    Severity,
    find_unstored,
    freeze,
    matches,
    matching_rules,
    parse,
    with_nuls_as_blanks,
)
from mqdlq.rules.lint import Code, review, rule_covers
from mqdlq.words import count, period, place, visible

# Describe a proposed change of a rules table for its reviewers.

_MOST_CELLS = 20


def describe_change(name: str, cause: Cause, proposal: Proposal, tested: Backtest) -> str:
    where = "" if cause.dest_q_name is None else place(cause.dest_q_name, cause.dest_q_mgr_name)
    subject = f"Handle {cause.reason_text}" + (f" at {where}" if where else "")
    at = f"at line {proposal.first}"
    if proposal.table.extensions:
        at = f"before rule {proposal.before.ordinal}" if proposal.before else "at the end"
    lines = [subject, "", f"Adds to {visible(name)}, {at}:", ""]
    lines += [f"    {line.rstrip()}" for line in proposal.added_text.splitlines()]
    lines += ["", *_describe_backtest(tested), ""]
    found = [f"- line {one.line}: {one.message} [{one.code}]" for one in proposal.new_findings]
    if found:
        lines += ["Warnings of the linter:", *found]
    else:
        lines.append("The rules bring no warning of the linter.")
    return "".join(f"{line}\n" for line in lines)


def _describe_backtest(tested: Backtest) -> Iterator[str]:
    used, found = tested.used, tested.treatments
    if not used:
        yield "Not backtested: there is no snapshot."
        return
    when = period(used[-1].manifest.taken_at, used[0].manifest.taken_at)
    result = f"{found.different:,} of {count(found.messages, 'message')} treated differently."
    yield f"Backtest over {count(len(used), 'snapshot')}, taken {when}: {result}"
    for cell in found.cells[:_MOST_CELLS]:
        yield f"- {cell.messages:,}: {cell.old} -> {cell.new}"
    if len(found.cells) > _MOST_CELLS:
        yield f"- and {count(len(found.cells) - _MOST_CELLS, 'other change')}"
    if tested.skipped:
        yield f"Skipped: {count(len(tested.skipped), 'snapshot')}."


# Insert rules into the text of a rules table, and keep every other line as it is.


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
    covering = [rule for rule in table.rules if any(rule_covers(rule, one) for one in added.rules)]
    takers = [rule for rule in table.rules if rule.action is not Action.IGNORE or rule in covering]
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
    found = found or covering
    return min(found, key=lambda rule: rule.ordinal, default=None)


def insert_rules(table_text: str, added_text: str, before: Rule | None) -> tuple[str, int, int]:
    """Insert rules before a rule of a table, or at its end.

    Return the text of the whole table, and the first and the last of the added lines (from 1).
    The comment lines directly above a rule belong to the rule and stay with it. Comments at the
    beginning of the file belong to the file: the rules follow these comments.
    """
    lines = _lines(table_text)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += end
    place = len(lines)
    if before is not None:
        place = before.line - 1
        while place and lines[place - 1].startswith("*"):
            place -= 1
        place = place or before.line - 1
    added = [line.rstrip(" \t\r\n") + end for line in _lines(added_text)]
    return "".join([*lines[:place], *added, *lines[place:]]), place + 1, place + len(added)


def diff_tables(name: str, old: str, new: str) -> str:
    """Return the unified diff of two texts of a table, which `git apply` and `patch -p1` read."""
    before, after = _lines(old), _lines(new)
    if before and not before[-1].endswith("\n"):
        before[-1] += "\n"
    return "".join(unified_diff(before, after, f"a/{name}", f"b/{name}"))


def _lines(text: str) -> list[str]:
    """Split a text at LF only, as tables are read; each line keeps its end."""
    return list(StringIO(text, newline="\n"))


# A proposed rules table: a table with added rules, its findings and its difference.


@dataclass(frozen=True, slots=True)
class Proposal:
    """The proposed table as text: `text`, with the added rules from line `first` to line `last`.

    The rules stand before the rule `before` of today's table, or at its end. `new_findings` are the
    warnings about the table that today's table does not have. `diff` is the unified diff from
    today's table. With extensions, `text` is frozen and no file may have it (ADR 0027): only the
    added rules are for people.
    """

    table: RulesTable
    text: str
    first: int
    last: int
    before: Rule | None
    new_findings: tuple[Diagnostic, ...]
    old_findings: tuple[Diagnostic, ...]
    diff: str

    @property
    def added_text(self) -> str:
        lines = self.text.split("\n")[self.first - 1 : self.last]
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class TableInUse:
    """The table of a handler's newest run: the name of its file, its text, and its queue."""

    name: str
    text: str
    table: RulesTable
    queue_manager: str
    queue: str
    nul_as_blank: bool = False

    def review(self, text: str) -> CheckResult:
        place = {"queue": self.queue, "queue_manager": self.queue_manager}
        return review(text, self.name, self.table.queue_kind, **place, frozen=True)


def propose(
    today: TableInUse, added_text: str, stored: Sequence[Snapshot], *, before: int | None = None
) -> Proposal:
    """Add rules to a table, and check the result.

    `before` is the ordinal of the rule that follows the added rules, 0 for the end of the table;
    without it, the messages of the snapshots decide (see `find_place`). Raises `LakeError`, and
    RulesError for added rules with errors, whose lines and columns count in the added text.
    """
    added_text = added_text.replace("\r\n", "\n").strip("\n") + "\n"
    added = parse(added_text, "<rule>")
    if before is None:
        place = find_place(today.table, added, stored, nul_as_blank=today.nul_as_blank)
    else:
        place = next((rule for rule in today.table.rules if rule.ordinal == before), None)
    text, first, last = insert_rules(today.text, added_text, place)
    result = today.review(text)
    if result.table is None:
        errors = (one for one in result.diagnostics if one.severity is Severity.ERROR)
        raise RulesError(tuple(replace(one, line=one.line - first + 1) for one in errors))
    known = Counter(map(_identity, today.review(today.text).diagnostics))
    new: list[Diagnostic] = []
    old: list[Diagnostic] = []
    for diagnostic in result.diagnostics:
        identity = _identity(diagnostic)
        (old if known[identity] else new).append(diagnostic)
        known[identity] -= bool(known[identity])
    diff = diff_tables(today.name, today.text, text)
    return Proposal(result.table, text, first, last, place, tuple(new), tuple(old), diff)


def _identity(diagnostic: Diagnostic) -> tuple[str, str]:
    """Return the same for a finding in both tables, whose lines differ.

    That a table has no catch-all rule is a finding about the whole table, at its last rule.
    """
    is_of_table = diagnostic.code == Code.NO_CATCH_ALL
    return diagnostic.code, "" if is_of_table else diagnostic.source


# Backtest a rules table: what it would have done with the messages of stored snapshots.
#
# The comparison is that of `mqdlq rules diff`, in this process. Nothing is written.

MOST_MESSAGES: Final = 50_000
"""The most messages that are compared while someone waits for a page."""


ChosenSnapshots = tuple[Sequence[Snapshot], Sequence[tuple[TakenSnapshot, str]]]
"""The snapshots of a backtest, the newest first, and each skipped one with why."""


@dataclass(frozen=True, slots=True)
class Backtest:
    """The messages of snapshots under two tables: today's and the proposed one.

    `used` are the snapshots, the newest first, and `skipped` the others with why. `unstored` has
    the comparisons of the tables that not all snapshots have: they match no message there.
    """

    used: Sequence[Snapshot]
    skipped: Sequence[tuple[TakenSnapshot, str]]
    treatments: Treatments
    unstored: tuple[str, ...] = ()


def choose_snapshots(
    taken: Iterable[TakenSnapshot], *, nul_as_blank: bool = False, most: int = MOST_MESSAGES
) -> ChosenSnapshots:
    """Choose the newest snapshots with at most `most` messages in all.

    A snapshot is skipped if it was pruned, is damaged, has too many messages, or compares NULs in
    another way than `nul_as_blank` says.
    """
    used: list[Snapshot] = []
    skipped: list[tuple[TakenSnapshot, str]] = []
    messages = 0
    for one in sorted(taken, key=lambda one: one.taken_at, reverse=True):
        why, snapshot = "", None
        if not snapshot_stands(one.location):
            why = "it was pruned"
        elif messages + one.messages > most:
            why = f"with it, there are more than {most:,} messages"
        else:
            try:
                snapshot = Snapshot.at(one.location)
            except LakeError as error:
                why = error.text
        if snapshot is not None and snapshot.manifest.nul_as_blank != nul_as_blank:
            why = f"nul_as_blank was {'off' if nul_as_blank else 'on'} when it was taken"
        if why or snapshot is None:
            skipped.append((one, why))
        else:
            used.append(snapshot)
            messages += one.messages
    return used, skipped


def backtest(today: RulesTable, proposed: RulesTable, snapshots: ChosenSnapshots) -> Backtest:
    """Compare two tables over snapshots; raise `LakeError` for a damaged one.

    A message that several snapshots hold counts once, as the newest shows it.
    """
    used, skipped = snapshots
    texts = [snapshot.manifest.rules_text for snapshot in used]
    unstored = {what for one in (today, proposed) for what in find_unstored(freeze(one), texts)}
    found = treatments_in(today, proposed, used, None)
    return Backtest(used, skipped, found, tuple(sorted(unstored)))
