"""Find rules that send messages in a circle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mqdlq.model import Action
from mqdlq.rules.diagnostics import shortened
from mqdlq.rules.lint.findings import Code, Effort, Finding
from mqdlq.rules.records import Rule
from mqdlq.rules.table import RulesTable

_SOURCE_KEYWORDS: Final = ("DESTQ", "DESTQM")


@dataclass(frozen=True, slots=True)
class Home:
    """The queue the messages come from and its queue manager, "" where not known."""

    queue: str
    queue_manager: str


def home_of(table: RulesTable, queue: str, queue_manager: str) -> Home:
    """Return where the table's messages come from; what is named beside it overrides INPUTQ."""
    return Home(queue or table.control.input_q, queue_manager or table.control.input_q_mgr)


def find_forward_home(rule: Rule, home: Home) -> Iterator[Finding]:
    """Find a FWDQ that is the dead-letter queue itself: IBM's handler would do it, for ever."""
    if home.queue and rule.fwd_q == home.queue and _is_local(rule, home):
        yield Finding(
            Code.FORWARD_TO_INPUT_QUEUE,
            rule,
            "FWDQ",
            f"FWDQ({shortened(rule.fwd_q)}) is the queue the messages come from, each would come"
            " back at once; forward them to another queue",
        )


def find_loops(table: RulesTable, home: Home, effort: Effort) -> Iterator[Finding]:
    """Find two rules of which each forwards to a queue whose dead letters the other forwards.

    Only queues named literally on the local queue manager count. A rule whose target is also
    among its own sources, such as DESTQ(A.*) FWDQ(A.PARKED), parks messages beside their queue; it
    is passed by.
    """
    earlier: list[Rule] = []
    for rule in table.rules:
        if not _is_forward(rule, home) or _is_source(rule, rule.fwd_q, home):
            continue
        for first in earlier:
            if not effort.spend():
                return
            if _is_source(first, rule.fwd_q, home) and _is_source(rule, first.fwd_q, home):
                yield _loop(rule, first)
                break
        earlier.append(rule)


def _loop(rule: Rule, first: Rule) -> Finding:
    return Finding(
        Code.FORWARD_LOOP,
        rule,
        "FWDQ",
        f"the rule at line {first.line} forwards messages for {shortened(rule.fwd_q)} to"
        f" {shortened(first.fwd_q)}, this one sends them back;"
        " forward them to a queue that neither rule forwards from",
    )


def _is_local(rule: Rule, home: Home) -> bool:
    return rule.fwd_q_mgr in ("", home.queue_manager)


def _is_forward(rule: Rule, home: Home) -> bool:
    has_source = any(pattern.keyword == "DESTQ" for pattern in rule.patterns)
    is_literal = rule.action is Action.FWD and not rule.fwd_q.startswith("&")
    return has_source and is_literal and _is_local(rule, home)


def _is_source(rule: Rule, queue: str, home: Home) -> bool:
    """Say whether the rule asks for messages to this queue of the local queue manager."""
    names = {"DESTQ": queue, "DESTQM": home.queue_manager}
    return all(
        bool(names[pattern.keyword]) and pattern.matches(names[pattern.keyword])
        for pattern in rule.patterns
        if pattern.keyword in _SOURCE_KEYWORDS
    )
