"""Draft a commented rules table from stored snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final

from mqdlq import causes, lake
from mqdlq.causes import advice_on
from mqdlq.errors import LakeError
from mqdlq.lake import Snapshot
from mqdlq.model import Action, MessageClass
from mqdlq.rules import ControlData, Pattern, Rule, RulesError, RulesTable, parse, print_table
from mqdlq.rules.syntax.lines import COLUMNS

_COLUMNS: Final = ("message_key", "class", "dlh_reason", "dlh_dest_q_name")
_RETRY_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Cause:
    """Why messages are dead letters; `dest_q_name` is None if the destination does not matter.

    With `is_pattern`, it stands for all generated names with a stem, such as ``AMQ.*``.
    """

    reason: int
    dest_q_name: str | None
    messages: int
    is_pattern: bool = False


def rank_causes(stored: Iterable[Snapshot], at_most: int) -> tuple[list[Cause], int]:
    """Return the causes, the most frequent first, and the number of messages without a valid MQDLH.

    Causes beyond the first `at_most` are merged by reason. A message that is in several snapshots
    counts once.
    """
    counts: Counter[tuple[int, str]] = Counter()
    strays = 0
    for _, row in lake.newest_rows(stored, _COLUMNS):
        if row["class"] == MessageClass.DEAD_LETTER:
            counts[_find_cause(row)] += 1
        else:
            strays += 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest: Counter[int] = Counter()
    for (reason, _), number in ranked[at_most:]:
        rest[reason] += number
    found = [Cause(*cause, number) for cause, number in ranked[:at_most]]
    return [*found, *(Cause(reason, None, number) for reason, number in rest.most_common())], strays


def draft_table(found: list[Cause], strays: int, *, snapshots: int, parking_queue: str) -> str:
    """Return the text of a table; `parking_queue` takes messages that no retry can deliver."""
    messages = sum(cause.messages for cause in found)
    lines = [
        "* A draft, made from what was found on the queue. Read it before use.",
        f"* {_format_count(messages, 'dead letter')} in {_format_count(snapshots, 'snapshot')}.",
    ]
    if strays:
        lines.append(
            f"* {_format_count(strays, 'message')} without a valid MQDLH: no rule meets those."
        )
    for cause in found:
        lines += ["*", *_draft_entry(cause, parking_queue)]
    lines += ["*", "* Everything else is left where it is.", "ACTION(IGNORE)"]
    return "".join(f"{line}\n" for line in lines)


def draft_rule(cause: causes.Cause, messages: int, parking_queue: str) -> str:
    """Return the text of one rule for a cause of dead letters, with a comment above it."""
    found = Cause(cause.reason, cause.dest_q_name, messages, cause.is_generalized)
    return "".join(f"{line}\n" for line in _draft_entry(found, parking_queue))


def parking_queue_of(table: RulesTable) -> str:
    """Return the queue that most rules of a table forward to by name, the last one of several.

    It is "" if no rule forwards to a queue by its name.
    """
    names = [rule.fwd_q for rule in reversed(table.rules) if rule.fwd_q and rule.fwd_q[0] != "&"]
    counted = Counter(names).most_common(1)
    return counted[0][0] if counted else ""


def _find_cause(row: Mapping[str, Any]) -> tuple[int, str]:
    return row["dlh_reason"] or 0, (row["dlh_dest_q_name"] or "").rstrip(" ")


def _draft_entry(cause: Cause, parking_queue: str) -> Iterator[str]:
    advice = advice_on(cause.reason)
    share = _format_count(cause.messages, "message")
    if advice.retry_until:
        yield from _comment(f"{share}: {advice.meaning}; tried again until {advice.retry_until}.")
        action = {"action": Action.RETRY, "retry": _RETRY_ATTEMPTS}
    else:
        what = "; ".join(filter(None, (advice.meaning, advice.advice)))
        yield from _comment(f"{share}: {what}.")
        action = (
            {"action": Action.FWD, "fwd_q": parking_queue}
            if parking_queue
            else {"action": Action.IGNORE}
        )
    yield from _print_rule(cause, action).splitlines()


def _comment(text: str) -> Iterator[str]:
    """Yield a comment in lines that every platform reads."""
    return (f"* {line}" for line in wrap(text, COLUMNS - 2))


def _print_rule(cause: Cause, action: Mapping[str, Any]) -> str:
    """Print the rule, by reason alone if the queue name cannot be written as a pattern.

    Control characters in a name are never printed, since a terminal would obey them.
    """
    reason = Pattern("REASON", "dlh_reason", cause.reason)
    name = cause.dest_q_name or ""
    named = cause.dest_q_name is not None and name.isprintable()
    patterns: tuple[list[Pattern], ...] = (
        [Pattern("DESTQ", "dlh_dest_q_name", name), reason] if named else [reason],
        [reason],
        [],
    )
    for some in patterns:
        text = print_table(RulesTable(ControlData(), (Rule(1, 1, tuple(some), **action),)))
        if _is_read_back_unchanged(text, some, may_be_wild=cause.is_pattern):
            return text
    raise LakeError("MQDLQ-433", f"no rule can be written for reason {cause.reason}")


def _is_read_back_unchanged(text: str, patterns: list[Pattern], *, may_be_wild: bool) -> bool:
    is_wild = any(isinstance(p.value, str) and set(p.value) & set("*?") for p in patterns)
    try:
        return (may_be_wild or not is_wild) and list(parse(text).rules[0].patterns) == patterns
    except RulesError:
        return False


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
