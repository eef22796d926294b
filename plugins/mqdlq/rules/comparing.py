"""Compare the meaning of two rules tables: control data, and rules in order."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from functools import partial
from typing import Final

from mqdlq.rules.table import ControlData, Rule, RulesTable, control_parameters, rule_parameters

_ALIKE: Final = 0.5
"""The share of common keywords from which one rule counts as a change of another."""
_MOST_COMPARISONS: Final = 100_000


class Change(StrEnum):
    """How a rule differs between two tables."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class RuleChange:
    """One difference between two tables: the old rule, the new rule, or both."""

    change: Change
    old: Rule | None
    new: Rule | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences: control data as (keyword, old, new), rules in the order of the new table.

    Values are as in the canonical print; "" is the default, which is not printed.
    """

    control: tuple[tuple[str, str, str], ...]
    rules: tuple[RuleChange, ...]

    @property
    def is_same(self) -> bool:
        return not self.control and not self.rules

    @property
    def in_words(self) -> Iterator[list[str]]:
        """Each difference: its words with the text of a rule, and the new text of a changed one."""
        for keyword, old, new in self.control:
            yield [f"{keyword}: {old or 'default'} -> {new or 'default'}"]
        for change in self.rules:
            rules = [rule for rule in (change.old, change.new) if rule]
            lines = " -> ".join(str(rule.line) for rule in rules)
            text, *others = dict.fromkeys(map(rule_text, rules))
            yield [f"{change.change}, line {lines}: {text}", *others]


def compare(old: RulesTable, new: RulesTable) -> Comparison:
    """Compare the meaning of two tables, regardless of how they are written.

    An equal rule at another position has moved. Among the other rules, two with the same patterns,
    or with most keywords in common, are a change.
    """
    control = tuple(_control_changes(old.control, new.control))
    gone, come = _differing(old, new)
    changes = [
        *_pairs(Change.MOVED, gone, come, rule_text),
        *_pairs(Change.CHANGED, gone, come, lambda rule: rule.patterns),
        *_alike(gone, come),
        *(RuleChange(Change.REMOVED, rule, None) for rule in gone),
        *(RuleChange(Change.ADDED, None, rule) for rule in come),
    ]
    return Comparison(control, tuple(sorted(changes, key=_place)))


def rule_text(rule: Rule) -> str:
    """Return a rule's canonical text on one line, however long."""
    return " ".join(rule_parameters(rule))


def action_text(rule: Rule) -> str:
    return rule_text(replace(rule, patterns=()))


def _control_changes(old: ControlData, new: ControlData) -> Iterator[tuple[str, str, str]]:
    before, after = _by_keyword(control_parameters(old)), _by_keyword(control_parameters(new))
    for keyword in sorted(before.keys() | after.keys()):
        if before.get(keyword) != after.get(keyword):
            yield keyword, before.get(keyword, ""), after.get(keyword, "")


def _by_keyword(parameters: Iterable[str]) -> dict[str, str]:
    return {
        keyword: value.removesuffix(")")
        for keyword, _, value in (parameter.partition("(") for parameter in parameters)
    }


def _differing(old: RulesTable, new: RulesTable) -> tuple[list[Rule], list[Rule]]:
    """Return the rules of each table that the other lacks, or has in another order."""
    before, after = ([rule_text(rule) for rule in table.rules] for table in (old, new))
    gone: list[Rule] = []
    come: list[Rule] = []
    for kind, i, j, k, m in _matcher(before, after).get_opcodes():
        if kind != "equal":
            gone += old.rules[i:j]
            come += new.rules[k:m]
    return gone, come


def _matcher(before: list[str], after: list[str]) -> SequenceMatcher[str]:
    """Return a matcher that aligns the rules of two tables at their common rules.

    If repeated rules make too many pairs, the first of equal rules is aligned with the first only,
    the second with the second, and so on.
    """
    counts = Counter(after)
    if sum(counts[text] for text in before) > _MOST_COMPARISONS:
        before, after = list(_numbered(before)), list(_numbered(after))
    return SequenceMatcher(None, before, after, autojunk=False)


def _numbered(texts: Iterable[str]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for text in texts:
        yield f"{seen[text]} {text}"
        seen[text] += 1


def _pairs(
    change: Change, gone: list[Rule], come: list[Rule], key: Callable[[Rule], object]
) -> list[RuleChange]:
    """Remove the pairs with the same key from both lists, and return them."""
    waiting: dict[object, deque[Rule]] = defaultdict(deque)
    for rule in gone:
        waiting[key(rule)].append(rule)
    pairs = [
        RuleChange(change, same.popleft(), rule) for rule in come if (same := waiting[key(rule)])
    ]
    _take_out(pairs, gone, come)
    return pairs


def _alike(gone: list[Rule], come: list[Rule]) -> list[RuleChange]:
    """Remove the pairs with most keywords in common from both lists, and return them."""
    pairs: list[RuleChange] = []
    left = gone if len(gone) * len(come) <= _MOST_COMPARISONS else []
    for new in come:
        old = max(left, key=partial(_likeness, new), default=None)
        if old and _likeness(new, old) >= _ALIKE:
            left = [rule for rule in left if rule is not old]
            pairs.append(RuleChange(Change.CHANGED, old, new))
    _take_out(pairs, gone, come)
    return pairs


def _take_out(pairs: Iterable[RuleChange], gone: list[Rule], come: list[Rule]) -> None:
    used = {id(rule) for pair in pairs for rule in (pair.old, pair.new)}
    gone[:] = [rule for rule in gone if id(rule) not in used]
    come[:] = [rule for rule in come if id(rule) not in used]


def _likeness(new: Rule, old: Rule) -> float:
    before, after = set(rule_parameters(old)), set(rule_parameters(new))
    return len(before & after) / max(len(before), len(after))


def _place(change: RuleChange) -> tuple[int, int]:
    rules = [rule.ordinal for rule in (change.new, change.old) if rule]
    return rules[0], rules[-1]
