"""What a run found in, what a person should be told of it out.

An event is told when it begins, not at every run while it lasts: what people were told of before is
no news. It is over when a run has seen that it is: a run that found nothing to do, or broke off,
has seen nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mqdlq.constants import reason_text
from mqdlq.handlers.operation import Alerts, Event
from mqdlq.ledger import Ledger, Run

LASTING: Final[tuple[str, ...]] = tuple(event for event in Event if event.lasts)


@dataclass(frozen=True, slots=True)
class Alert:
    """An event with its words: a title of one line, and the report's short text."""

    event: Event
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a run at its end.

    `short` is the report's short text, `failed` and `adds_up` what the report says of run and
    account, `oldest_left` since when the oldest message that stays is there.
    """

    run: Run
    short: str
    failed: bool
    adds_up: bool
    oldest_left: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A run that could not begin: why, and the short text of its report."""

    handler: str
    run_id: str
    why: str
    short: str


Notify = Callable[[Sequence[Alert]], Sequence[Event]]
"""Tells people of alerts; returns the events that have reached all of them."""


def send(
    facts: Facts, thresholds: Alerts, notify: Notify, *, ledger: Ledger, now: datetime
) -> None:
    """Tell people of a run that has ended; of nothing twice, however often this is called."""
    run_id = facts.run.run_id
    before = ledger.alerts.sent(run_id)
    found = alerts_of(facts, thresholds, ledger=ledger, now=now)
    news = [alert for alert in found if alert.event not in before]
    told = notify(news)
    # What did not reach everybody is news to the next run, too.
    untold = {alert.event for alert in news} - set(told)
    holds = standing(facts, thresholds, ledger=ledger, now=now)
    ledger.alerts.record(run_id, told, [event for event in holds if event not in untold], now)


def send_of_no_run(refusal: Refusal, notify: Notify, *, ledger: Ledger, now: datetime) -> None:
    """Tell people of a run that could not begin; record why, where its wait has failed."""
    handler, run_id = refusal.handler, refusal.run_id
    if not ledger.runs.refusal(run_id):
        ledger.runs.record_refusal(run_id, handler, refusal.why, now)
    before = ledger.alerts.sent(run_id)
    found = of_no_run(handler, run_id, refusal.short, ledger)
    told = notify([alert for alert in found if alert.event not in before])
    ledger.alerts.record(run_id, told, [] if before else [Event.FAILED], now)


def alerts_of(facts: Facts, thresholds: Alerts, *, ledger: Ledger, now: datetime) -> list[Alert]:
    """Return what a person is to be told of a run that has ended, in the order of `Event`."""
    run = facts.run
    before = ledger.alerts.run_before(run)
    lasted = ledger.alerts.lasting(before) if before is not None else set()
    can_tell_of = _can_tell_of(run, ledger)
    if Event.FAILED not in lasted and ledger.alerts.could_not_begin_since(before, run):
        lasted.add(Event.FAILED)
        can_tell_of.add(Event.FAILED)  # it has begun
    found = dict(_found(facts, thresholds, ledger, now))
    news = {event: words for event, words in found.items() if event not in lasted}
    over = sorted(lasted & can_tell_of - set(found))
    if over and not any(event in found for event in LASTING):
        news[Event.RECOVERY] = f"no more {', '.join(over)}"
    place = f"{run.queue} @ {run.queue_manager}"
    return [
        Alert(event, f"{run.handler}: {news[event]} ({place})", facts.short)
        for event in Event
        if event in news
    ]


def of_no_run(handler: str, run_id: str, short: str, ledger: Ledger) -> list[Alert]:
    """Return what a person is to be told of a run that could not begin: that it failed.

    Nobody is told again while the runs after it cannot begin either.
    """
    if ledger.alerts.cannot_begin(handler, Event.FAILED, but=run_id):
        return []
    return [Alert(Event.FAILED, f"{handler}: the run could not begin", short)]


def standing(facts: Facts, thresholds: Alerts, *, ledger: Ledger, now: datetime) -> list[str]:
    """Return the lasting events that hold after a run, told before or not.

    What a run cannot tell of is as it was.
    """
    before = ledger.alerts.run_before(facts.run)
    lasted = ledger.alerts.lasting(before) if before is not None else set()
    holds: set[str] = set(dict(_found(facts, thresholds, ledger, now)))
    holds |= lasted - _can_tell_of(facts.run, ledger)
    return [event for event in LASTING if event in holds]


def _found(
    facts: Facts, thresholds: Alerts, ledger: Ledger, now: datetime
) -> Iterator[tuple[Event, str]]:
    run = facts.run
    before = ledger.alerts.run_before(run, is_closed=True)
    sighting = ledger.accounts.of_run(before) if before is not None else None
    messages, had = _messages(run.run_id, ledger), _messages(before, ledger)
    is_whole = not run.message_keys  # a run for named messages says nothing about the queue
    if is_whole and messages and (sighting is None or not sighting.depth):
        yield Event.FIRST_ARRIVAL, f"{messages} messages on a queue that was empty"
    new = {cause.reason for cause in ledger.snapshots.causes(run.run_id)} - {0}
    new -= ledger.snapshots.earlier_reasons(run)
    if new:
        yield Event.NEW_CAUSE, f"first {', '.join(reason_text(reason) for reason in sorted(new))}"
    if is_whole and had and messages - had >= thresholds.growth:
        yield Event.GROWTH, f"{messages - had} messages more than at the last run"
    yield from _about_what_stays(facts, thresholds, ledger, now)
    if not facts.adds_up:
        yield Event.UNACCOUNTED, "the account does not add up"
    elif facts.failed:
        yield Event.FAILED, "the run failed"


def _about_what_stays(
    facts: Facts, thresholds: Alerts, ledger: Ledger, now: datetime
) -> Iterator[tuple[Event, str]]:
    outcomes = {str(outcome): n for outcome, n in ledger.outcomes.counts(facts.run.run_id).items()}
    oldest = facts.oldest_left
    if oldest is not None and now - oldest >= thresholds.oldest_age:
        yield Event.OLDEST_AGE, f"a message is there since {oldest:%Y-%m-%d %H:%M} UTC"
    for event in Event:
        if number := outcomes.get(event.value):
            yield event, f"{number} messages {event}"


def _messages(run_id: str | None, ledger: Ledger) -> int:
    snapshot = ledger.snapshots.of_run(run_id) if run_id else None
    return snapshot.messages if snapshot is not None else 0


def _can_tell_of(run: Run, ledger: Ledger) -> set[str]:
    """Return the lasting events of which a run knows whether they hold.

    Of events that messages cause, a run for named messages knows too little.
    """
    if ledger.accounts.of_run(run.run_id) is None:
        return set()
    if run.message_keys:
        return {Event.UNACCOUNTED, Event.FAILED}
    approval = ledger.plans.last_approval(run.run_id)
    acts = not run.dry_run and (approval is None or approval.decision == "approved")
    return set(LASTING) if acts else set(LASTING) - {Event.EXHAUSTED}
