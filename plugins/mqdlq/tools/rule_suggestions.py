"""Draft a commented rules table from the messages of snapshots or dumps."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Final

from mqdlq.causes import GENERATED, Cause, CauseCounter, CountedCause, without_destination
from mqdlq.model import Action, MessageClass
from mqdlq.rules import ControlData, Pattern, Rule, RulesError, RulesTable, parse, print_table
from mqdlq.rules.diagnostics import counted
from mqdlq.rules.grammar import COLUMNS as MOST_COLUMNS

_RETRY_ATTEMPTS: Final = 5


Suggestion = tuple[Cause, int, tuple[Pattern, ...]]
"""A cause, the number of its messages, and the patterns of the rule that matches them."""


def rank_causes(rows: Iterable[Mapping[str, Any]], at_most: int) -> tuple[list[Suggestion], int]:
    """Return a rule for each cause, most frequent first, and the number of unprocessable messages.

    The first `at_most` causes get patterns for their destination, if these say exactly this cause:
    ``DESTQ(AMQ.*)`` only if no other message with the reason has a destination that it matches. The
    rules of the others come last, one for each reason. A row is a message, with `causes.COLUMNS`.
    """
    counter = CauseCounter()
    strays = 0
    for row in rows:
        if row["class"] == MessageClass.DEAD_LETTER:
            counter.add_row(row)
        else:
            strays += 1
    counted = counter.counted()
    exact: list[Suggestion] = []
    rest: Counter[Cause] = Counter()
    for one in counted:
        patterns = () if one.has_nuls else _exact_patterns(one.cause, counted)
        if patterns and len(exact) < at_most:
            exact.append((one.cause, one.messages, patterns))
        else:
            rest[without_destination(one.cause)] += one.messages
    by_reason = [(cause, number, _reason_patterns(cause)) for cause, number in rest.most_common()]
    # A rule without patterns matches every message.
    return [*exact, *sorted(by_reason, key=lambda one: not one[2])], strays


def draft_table(found: list[Suggestion], strays: int, *, source: str, parking_queue: str) -> str:
    """Return the text of a table; `parking_queue` takes messages that no retry can deliver."""
    dead_letters = counted(sum(messages for _, messages, _ in found), "dead letter")
    lines = [
        "* A draft, made from what was found on the queue. Read it before use.",
        f"* {dead_letters} in {source}.",
    ]
    if strays:
        without = f"{counted(strays, 'message')} without a valid MQDLH"
        lines.append(f"* {without}: no rule meets those.")
    for one in found:
        lines += ["*", *_draft_entry(*one, parking_queue)]
    lines += ["*", "* Everything else is left where it is.", "ACTION(IGNORE)"]
    return "".join(f"{line}\n" for line in lines)


def draft_rule(cause: Cause, messages: int, parking_queue: str) -> str:
    """Return the text of one rule for a cause of dead letters, with a comment above it."""
    patterns = _exact_patterns(cause, ()) or _reason_patterns(cause)
    return "".join(f"{line}\n" for line in _draft_entry(cause, messages, patterns, parking_queue))


def parking_queue_of(table: RulesTable) -> str:
    """Return the queue that most rules of a table forward to by name, the last one of several.

    It is "" if no rule forwards to a queue by its name.
    """
    names = [rule.fwd_q for rule in reversed(table.rules) if rule.fwd_q and rule.fwd_q[0] != "&"]
    counted = Counter(names).most_common(1)
    return counted[0][0] if counted else ""


def _exact_patterns(cause: Cause, others: Iterable[CountedCause]) -> tuple[Pattern, ...]:
    """Return the patterns that match the messages of a cause and of no other one; () if none do.

    Only causes with the same reason matter: every rule has a pattern for the reason. A control
    character in a name is never printed, since a terminal would obey it.
    """
    name = cause.dest_q_name
    if name is None:
        return ()
    same_reason = [one.cause for one in others if one.cause.reason == cause.reason]
    stem = name.removesuffix(GENERATED) if cause.is_generalized else None
    if stem is not None and any(_may_begin_with(one, stem) for one in same_reason):
        return ()
    patterns = [Pattern("DESTQ", "dlh_dest_q_name", name)]
    if any(one.dest_q_name == name and one != cause for one in same_reason):
        patterns.append(Pattern("DESTQM", "dlh_dest_q_mgr_name", cause.dest_q_mgr_name))
    patterns += _reason_patterns(cause)
    wild = [stem, cause.dest_q_mgr_name] if stem is not None else [name, cause.dest_q_mgr_name]
    is_literal = not any(set(text) & set("*?") for text in wild)
    can_be_printed = all(text.isprintable() for text in wild)
    return tuple(patterns) if is_literal and can_be_printed and _can_be_written(patterns) else ()


def _may_begin_with(cause: Cause, stem: str) -> bool:
    """Whether a message of another destination may have a name that begins with a stem."""
    name = cause.dest_q_name
    return name is None or (name != stem + GENERATED and name.startswith(stem))


def _reason_patterns(cause: Cause) -> tuple[Pattern, ...]:
    patterns = [Pattern("REASON", "dlh_reason", cause.reason)]
    return tuple(patterns) if _can_be_written(patterns) else ()


def _can_be_written(patterns: list[Pattern]) -> bool:
    try:
        text = _print_rule(patterns, {"action": Action.IGNORE})
        return list(parse(text).rules[0].patterns) == patterns
    except RulesError:
        return False


def _draft_entry(
    cause: Cause, messages: int, patterns: Sequence[Pattern], parking_queue: str
) -> Iterator[str]:
    advice = cause.explanation
    action: dict[str, Any] = {"action": Action.IGNORE}
    if advice.retry_until:
        what = f"{advice.meaning}; tried again until {advice.retry_until}"
        action = {"action": Action.RETRY, "retry": _RETRY_ATTEMPTS}
    else:
        what = "; ".join(filter(None, (advice.meaning, advice.advice)))
        if parking_queue:
            action = {"action": Action.FWD, "fwd_q": parking_queue}
    comment = f"{counted(messages, 'message')}: {what}."
    yield from (f"* {line}" for line in wrap(comment, MOST_COLUMNS - 2))
    yield from _print_rule(patterns, action).splitlines()


def _print_rule(patterns: Sequence[Pattern], action: Mapping[str, Any]) -> str:
    return print_table(RulesTable(ControlData(), (Rule(1, 1, tuple(patterns), **action),)))
