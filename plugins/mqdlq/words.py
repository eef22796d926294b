"""Outcomes, classes and names in words for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from mqdlq.causes import BY_CLASS, MOST_NAMES, Cause, CountedCause, advice_on
from mqdlq.constants import reason_text
from mqdlq.model import Disposition, MessageClass, Outcome, Trait
from mqdlq.rules.diagnostics import escaped

if TYPE_CHECKING:  # commands that need no ledger work without its packages
    from mqdlq.ledger.reading.later_outcomes import SettledSince
    from mqdlq.ledger.tables import AuditEvent, LearnedCount

MOST_NAMED: Final = 3
"""How many causes a line names."""
NO_OUTCOME: Final = "without an outcome"

CLASSES: Final = {
    MessageClass.DEAD_LETTER: "dead letter",
    **{cls: advice.meaning for cls, advice in BY_CLASS.items()},
}


def outcomes_in_words(outcomes: Mapping[Outcome, int]) -> str:
    """Return outcomes as one line: ``2 delivered, 1 unmatched; not selected: 4``."""
    parts = [
        f"{outcomes[outcome]:,} {outcome.words}"
        for outcome in Outcome
        if outcome is not Outcome.NOT_SELECTED and outcomes.get(outcome)
    ]
    others = outcomes.get(Outcome.NOT_SELECTED, 0)
    return "; ".join(filter(None, [", ".join(parts), not_selected(others)]))


def plan_in_words(
    dispositions: Mapping[str, int], settled: Mapping[Outcome, int], others: int
) -> str:
    """Return what a plan covers as one line, and what it does not cover.

    `settled` counts the messages that earlier runs have settled, `others` the messages that are
    not selected.
    """
    planned = ", ".join(
        f"{dispositions[disposition]:,} {disposition}"
        for disposition in Disposition
        if dispositions.get(disposition)
    )
    number = sum(settled.values())
    before = f"{number:,} settled by earlier runs: {outcomes_in_words(settled)}" if number else ""
    return "; ".join(filter(None, [planned, before, not_selected(others)])) or "no messages"


def untouched_in_words(messages: int) -> str:
    """Say why a run that has touched nothing has no account of its snapshot."""
    return f"none: no unit of work was begun, {count(messages, 'message')} in the snapshot"


def not_selected(messages: int) -> str:
    """Return in words how many messages a run for named messages was not started for."""
    return f"not selected: {messages:,}" if messages else ""


def outcome_in_words(outcome: Outcome | None) -> str:
    return NO_OUTCOME if outcome is None else outcome.words


_BY_NAME: Final = "move it with message_keys and action"
_BY_CLASS: Final[dict[MessageClass | None, str]] = {
    # Such a message is unprocessable on a backout queue only.
    MessageClass.DEAD_LETTER: f"it has an MQDLH: let a dead-letter queue have it; {_BY_NAME}",
    **{cls: f"{advice.advice}; {_BY_NAME}" for cls, advice in BY_CLASS.items()},
}


def next_step(
    outcome: Outcome | None,
    cls: MessageClass | None,
    reason: int,
    *,
    has_given_action: bool = False,
    has_repair: bool = False,
) -> str:
    """Return the next step in words; `reason` is the reason code of the obstacle, 0 if unknown.

    With `has_given_action` an action was given for the message, which no later run repeats, and
    with `has_repair` a repair, which needs an approval in Airflow.
    """
    advice = advice_on(reason).advice if reason else ""
    stays = outcome and Trait.STAYS in outcome.traits
    if has_given_action and outcome and stays and outcome.disposition is Disposition.PLANNED:
        again = "give the same action again"
        if has_repair:
            again = "give the same action and repair again, in a run that you start in Airflow"
        return f"{advice}; then {again}" if advice else again
    steps: dict[Outcome | None, str] = {
        None: "run the handler again: it settles interrupted units of work, and browses again",
        Outcome.UNMATCHED: f"add a rule for it, or {_BY_NAME}",
        Outcome.EXHAUSTED: f"{advice}; then run the handler again" if advice else "run it again",
        Outcome.QUARANTINED: f"find out why its destination returns it, then {_BY_NAME}",
        Outcome.RETRY_PENDING: f"{advice}; the next run tries again" if advice else "run it again",
        Outcome.UNPROCESSABLE: _BY_CLASS.get(cls, "look at the message on the queue"),
        Outcome.UNKNOWN: "look for in-doubt units of work, then at the target, before you put it",
        Outcome.NOT_ATTEMPTED: "run the handler again",
    }
    return steps[outcome]


def visible(name: str) -> str:
    r"""Return a name from a message so that no character of it acts on a terminal or a page.

    >>> print(visible("A\x1b[31mB"))
    A\x1b[31mB
    """
    return escaped(name) if name else "(blank)"


def place(queue: str, queue_manager: str) -> str:
    """Return a queue and its queue manager as people write them: ``ORDERS @ QM2``."""
    return f"{visible(queue)} @ {visible(queue_manager)}" if queue_manager else visible(queue)


def target(queue: str, queue_manager: str) -> str:
    return place(queue, queue_manager) if queue or queue_manager else ""


def destination_of(cause: Cause, queues: int | None = None) -> str:
    """Return the destination of a cause: ``AMQ.* @ QM1 (12 queues)``; "" if it has none.

    `queues` is the number of different queue names, as in `CountedCause`.
    """
    if cause.dest_q_name is None:
        where = "other destinations" if queues is not None else "destination not recorded"
    elif not cause.is_of_dead_letters:
        return ""
    else:
        where = place(cause.dest_q_name, cause.dest_q_mgr_name)
    is_one = cause.dest_q_name is not None and not cause.is_generalized
    return where if queues is None or is_one else f"{where} ({_queues(queues)})"


def _queues(number: int) -> str:
    return f"{number:,} or more queues" if number >= MOST_NAMES else count(number, "queue")


def cause_in_words(cause: Cause, queues: int | None = None) -> str:
    """Return a cause as one line: ``MQRC_Q_FULL (2053) for ORDERS @ QM1``."""
    where = destination_of(cause, queues)
    if not cause.is_of_dead_letters:
        return CLASSES[cause.cls]
    if cause.dest_q_name is None and queues is None:
        return f"{cause.reason_text}, {where}"
    return f"{cause.reason_text} for {where}"


def name_causes(found: Sequence[CountedCause]) -> str:
    """Return the first three causes in words, and how many more there are."""
    named = ", ".join(cause_in_words(one.cause, one.queues) for one in found[:MOST_NAMED])
    return f"{named}, and {len(found) - MOST_NAMED:,} more" if len(found) > MOST_NAMED else named


def reason_in_words(reason: int) -> str:
    """Return a reason code with its meaning: ``MQRC_Q_FULL (2053): the queue is full``."""
    return ": ".join(filter(None, (reason_text(reason), advice_on(reason).meaning)))


def moment(at: datetime | None) -> str:
    """Return a time to the second in UTC, "" for none."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def period(first: datetime | None, last: datetime | None) -> str:
    """Return the time between two moments: ``2026-11-21 01:19:29 to 01:21:49 UTC``."""
    if first is None or last is None or first == last:
        return moment(first)
    until = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    return f"{first:%Y-%m-%d %H:%M:%S} to {until} UTC"


def span(seconds: float) -> str:
    """Return a duration: ``7 s``, ``2 min 5 s``, ``3 h 0 min``."""
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 message``, ``2 messages``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def settled_in_words(since: Sequence[SettledSince]) -> str:
    """Say what later runs handled: ``667 were handled at 2026-11-23 08:58:00 UTC by admin``."""
    number = sum(one.messages for one in since)
    verb = "was" if number == 1 else "were"
    runs = f" by {count(len(since), 'run')}, the last" if len(since) > 1 else ""
    newest = since[0]
    who = f" by {visible(newest.who)}" if newest.who else ""
    return f"{number:,} {verb} handled{runs} at {moment(newest.at)}{who}"


def learned_in_words(learned: LearnedCount, run_id: str) -> str:
    """Return the line of a report about outcomes that were booked as unknown and are known now."""
    to = target(learned.target_q, learned.target_q_mgr)
    ended = learned.outcome.words + (f" to {to}" if to else "")
    messages, are = count(learned.messages, "message"), "is" if learned.messages == 1 else "are"
    if learned.of_run == run_id != learned.run_id:
        since = f"known since run {visible(learned.run_id)}"
        return f"{messages}, booked as unknown, {are} {since}: {ended}."
    of_run = "" if learned.of_run == run_id else f" of run {visible(learned.of_run)}"
    return f"{messages}{of_run}, booked as unknown, {are} now known: {ended}."


def stop_in_words(stop: AuditEvent) -> str:
    why = f": {visible(stop.why)}" if stop.why else ""
    return f"{visible(stop.who)} asked the run at {moment(stop.at)} to stop after its unit{why}"


def numbers(values: Iterable[int], shown: int = 8) -> str:
    """Return browse_seqs as people read them: ``3, 5-9, 12``; the rest is left out."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][-1] + 1:
            runs[-1][-1] = value
        elif len(runs) == shown:
            return ", ".join(_ends(runs)) + " ..."
        else:
            runs.append([value, value])
    return ", ".join(_ends(runs))


def _ends(runs: list[list[int]]) -> Iterator[str]:
    return (f"{first}" if first == last else f"{first}-{last}" for first, last in runs)
