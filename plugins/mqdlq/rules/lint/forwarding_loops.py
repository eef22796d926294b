"""Find rules that forward messages in a loop."""

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
class InputQueue:
    """The queue that the messages come from, and its queue manager; "" if unknown."""

    queue: str
    queue_manager: str


def input_queue_of(table: RulesTable, queue: str, queue_manager: str) -> InputQueue:
    """Return the queue that the table is for; arguments override INPUTQ and INPUTQM."""
    return InputQueue(queue or table.control.input_q, queue_manager or table.control.input_q_mgr)


def find_forward_to_input_queue(rule: Rule, input_queue: InputQueue) -> Iterator[Finding]:
    """Find a FWDQ that is the dead-letter queue itself, on which IBM's handler loops."""
    if input_queue.queue and rule.fwd_q == input_queue.queue and _is_local(rule, input_queue):
        yield Finding(
            Code.FORWARD_TO_INPUT_QUEUE,
            rule,
            "FWDQ",
            f"FWDQ({shortened(rule.fwd_q)}) is the queue that the messages come from, so each would"
            " return at once; forward them to another queue",
        )


def find_loops(table: RulesTable, input_queue: InputQueue, effort: Effort) -> Iterator[Finding]:
    """Find two rules that forward to each other's source queues.

    Only literal names of queues on the local queue manager count. A rule whose target is among
    its own sources, such as DESTQ(A.*) FWDQ(A.PARKED), parks messages beside their queue and is
    skipped.
    """
    earlier: list[Rule] = []
    for rule in table.rules:
        if not _is_forward(rule, input_queue) or _is_source(rule, rule.fwd_q, input_queue):
            continue
        for first in earlier:
            if not effort.spend():
                return
            if _is_source(first, rule.fwd_q, input_queue) and _is_source(
                rule, first.fwd_q, input_queue
            ):
                yield _loop(rule, first)
                break
        earlier.append(rule)


def _loop(rule: Rule, first: Rule) -> Finding:
    return Finding(
        Code.FORWARD_LOOP,
        rule,
        "FWDQ",
        f"the rule at line {first.line} forwards messages for {shortened(rule.fwd_q)} to"
        f" {shortened(first.fwd_q)} and this rule sends them back;"
        " forward them to a queue that neither rule forwards from",
    )


def _is_local(rule: Rule, input_queue: InputQueue) -> bool:
    return rule.fwd_q_mgr in ("", input_queue.queue_manager)


def _is_forward(rule: Rule, input_queue: InputQueue) -> bool:
    has_source = any(pattern.keyword == "DESTQ" for pattern in rule.patterns)
    is_literal = rule.action is Action.FWD and not rule.fwd_q.startswith("&")
    return has_source and is_literal and _is_local(rule, input_queue)


def _is_source(rule: Rule, queue: str, input_queue: InputQueue) -> bool:
    """Whether the rule matches messages for this queue of the local queue manager."""
    names = {"DESTQ": queue, "DESTQM": input_queue.queue_manager}
    return all(
        bool(names[pattern.keyword]) and pattern.matches(names[pattern.keyword])
        for pattern in rule.patterns
        if pattern.keyword in _SOURCE_KEYWORDS
    )
