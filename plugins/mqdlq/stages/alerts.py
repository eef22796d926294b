"""What a run found in, what a person should be told of it out.

An event is told when it begins, not at every run while it lasts: what people were told of before is
no news. It is over when a run has seen that it is: a run that found nothing to do, or broke off,
has seen nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, func, insert, select

from mqdlq.constants import reason_text
from mqdlq.handlers.operation import Alerts, Event
from mqdlq.ledger import (
    Ledger,
    Run,
    causes_of,
    earlier_reasons,
    last_approval,
    outcome_counts,
    parking,
    tables,
)
from mqdlq.ledger.tables import alerts as table
from mqdlq.model import Outcome

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
    before = told_before(run_id, ledger)
    found = alerts_of(facts, thresholds, ledger=ledger, now=now)
    news = [alert for alert in found if alert.event not in before]
    told = notify(news)
    # What did not reach everybody is news to the next run, too.
    untold = {alert.event for alert in news} - set(told)
    holds = standing(facts, thresholds, ledger=ledger, now=now)
    record(run_id, told, [event for event in holds if event not in untold], ledger, now)


def send_of_no_run(refusal: Refusal, notify: Notify, *, ledger: Ledger, now: datetime) -> None:
    """Tell people of a run that could not begin; record why, where its wait has failed."""
    handler, run_id = refusal.handler, refusal.run_id
    if not ledger.refusal(run_id):
        ledger.record_refusal(run_id, handler, refusal.why, now)
    before = told_before(run_id, ledger)
    found = of_no_run(handler, run_id, refusal.short, ledger)
    told = notify([alert for alert in found if alert.event not in before])
    record(run_id, told, [] if before else [Event.FAILED], ledger, now)


def alerts_of(facts: Facts, thresholds: Alerts, *, ledger: Ledger, now: datetime) -> list[Alert]:
    """Return what a person is to be told of a run that has ended, in the order of `Event`."""
    run = facts.run
    before = _run_before(run, ledger)
    lasted = _standing(before, ledger) if before is not None else set()
    can_tell_of = _can_tell_of(run, ledger)
    if Event.FAILED not in lasted and _could_not_begin_since(run, before, ledger):
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
    runs, refused = tables.runs, tables.refusals
    told = select(table.c.run_id).where(table.c.event == Event.FAILED.value, table.c.is_told)
    latest = select(func.max(refused.c.at)).where(
        refused.c.handler == handler, refused.c.run_id != run_id, refused.c.run_id.in_(told)
    )
    with ledger.engine.connect() as connection:
        at = connection.scalar(latest)
        if at is not None:
            begun = select(runs.c.run_id).where(runs.c.handler == handler, runs.c.started_at > at)
            if connection.execute(begun.limit(1)).first() is None:
                return []
    return [Alert(Event.FAILED, f"{handler}: the run could not begin", short)]


def standing(facts: Facts, thresholds: Alerts, *, ledger: Ledger, now: datetime) -> list[str]:
    """Return the lasting events that hold after a run, told before or not.

    What a run cannot tell of is as it was.
    """
    before = _run_before(facts.run, ledger)
    lasted = _standing(before, ledger) if before is not None else set()
    holds: set[str] = set(dict(_found(facts, thresholds, ledger, now)))
    holds |= lasted - _can_tell_of(facts.run, ledger)
    return [event for event in LASTING if event in holds]


def record(
    run_id: str, told: Sequence[str], lasting: Sequence[str], ledger: Ledger, at: datetime
) -> None:
    """Record what was told of a run, and what holds after it and people know of; each once."""
    known = {(event, True) for event in told_before(run_id, ledger)}
    known |= {(event, False) for event in _standing(run_id, ledger)}
    new = [(event, True) for event in told] + [(event, False) for event in lasting]
    rows = [
        {"run_id": run_id, "event": str(event), "is_told": is_told, "at": at}
        for event, is_told in new
        if (event, is_told) not in known
    ]
    with ledger.engine.begin() as connection:
        if rows:
            connection.execute(insert(table), rows)


def told_before(run_id: str, ledger: Ledger) -> set[str]:
    """Return the events that were told of a run already, by an earlier run of its task."""
    query = select(table.c.event).where(table.c.run_id == run_id, table.c.is_told)
    with ledger.engine.connect() as connection:
        return set(connection.scalars(query))


def _found(
    facts: Facts, thresholds: Alerts, ledger: Ledger, now: datetime
) -> Iterator[tuple[Event, str]]:
    run = facts.run
    before = _run_before(run, ledger, is_closed=True)
    sighting = ledger.sighting(before) if before is not None else None
    messages, had = _messages(run.run_id, ledger), _messages(before, ledger)
    is_whole = not run.message_keys  # a run for named messages says nothing about the queue
    if is_whole and messages and (sighting is None or not sighting.depth):
        yield Event.FIRST_ARRIVAL, f"{messages} messages on a queue that was empty"
    new = {cause.reason for cause in causes_of(ledger, run.run_id)} - {0}
    new -= earlier_reasons(ledger, run)
    if new:
        yield Event.NEW_CAUSE, f"first {', '.join(reason_text(reason) for reason in sorted(new))}"
    if is_whole and had and messages - had >= thresholds.growth:
        yield Event.GROWTH, f"{messages - had} messages more than at the last run"
    yield from _about_what_stays(facts, thresholds, ledger, now)
    if not facts.adds_up:
        yield Event.CONSERVATION, "the account does not add up"
    elif facts.failed:
        yield Event.FAILED, "the run failed"


def _about_what_stays(
    facts: Facts, thresholds: Alerts, ledger: Ledger, now: datetime
) -> Iterator[tuple[Event, str]]:
    outcomes = {str(outcome): n for outcome, n in outcomes_of(facts.run, ledger).items()}
    oldest = facts.oldest_left
    if oldest is not None and now - oldest >= thresholds.oldest_age:
        yield Event.OLDEST_AGE, f"a message is there since {oldest:%Y-%m-%d %H:%M} UTC"
    for event in Event:
        if number := outcomes.get(event.value):
            yield event, f"{number} messages {event}"


def outcomes_of(run: Run, ledger: Ledger) -> Counter[Outcome]:
    """Count the outcomes of a run, those of parked messages included."""
    counted = outcome_counts(ledger, run.run_id)
    for settled, number in parking.outcomes_of_parked(ledger, run.run_id).items():
        counted[settled.outcome] += number
    return counted


def _could_not_begin_since(run: Run, before: str | None, ledger: Ledger) -> bool:
    """Whether people were told of a run of this handler that could not begin since the last one."""
    runs, refused = tables.runs, tables.refusals
    query = (
        select(refused.c.run_id)
        .join(table, table.c.run_id == refused.c.run_id)
        .where(refused.c.handler == run.handler, refused.c.at <= run.started_at, ~table.c.is_told)
    )
    if before is not None:
        since = select(runs.c.started_at).where(runs.c.run_id == before).scalar_subquery()
        query = query.where(refused.c.at > since)
    with ledger.engine.connect() as connection:
        return connection.execute(query.limit(1)).first() is not None


def _messages(run_id: str | None, ledger: Ledger) -> int:
    snapshot = ledger.snapshot(run_id) if run_id else None
    return int(snapshot.messages) if snapshot is not None else 0


def _can_tell_of(run: Run, ledger: Ledger) -> set[str]:
    """Return the lasting events of which a run knows whether they hold.

    Of events that messages cause, a run for named messages knows too little.
    """
    if ledger.sighting(run.run_id) is None:
        return set()
    if run.message_keys:
        return {Event.CONSERVATION, Event.FAILED}
    approval = last_approval(ledger, run.run_id)
    acts = not run.dry_run and (approval is None or approval.decision == "approved")
    return set(LASTING) if acts else set(LASTING) - {Event.EXHAUSTED}


def _run_before(run: Run, ledger: Ledger, *, is_closed: bool = False) -> str | None:
    """Return the run of this queue that ended last before this one, with an account or failed.

    With `is_closed` it is the last one that closed its account of the whole queue. Runs overlap:
    the one that started last need not be the one that ended last.
    """
    runs = tables.runs
    with ledger.engine.connect() as connection:
        own_end = connection.scalar(select(_end()).where(runs.c.run_id == run.run_id))
        query = select(runs.c.run_id).where(
            runs.c.queue_manager == run.queue_manager,
            runs.c.queue == run.queue,
            runs.c.run_id != run.run_id,
            _end().is_not(None) if own_end is None else _end() < own_end,
        )
        if is_closed:
            closed = runs.c.run_id.in_(select(tables.sightings.c.run_id))
            query = query.where(closed, runs.c.message_keys == ())
        found: str | None = connection.scalar(query.order_by(_end().desc()).limit(1))
    return found


def _end() -> ColumnElement[datetime | None]:
    """When a run closed its account or, without one, was first told of; null if neither."""
    seen, run_id = tables.sightings, tables.runs.c.run_id
    closed = select(seen.c.at).where(seen.c.run_id == run_id)
    told = select(func.min(table.c.at)).where(table.c.run_id == run_id)
    return func.coalesce(
        closed.correlate(tables.runs).scalar_subquery(),
        told.correlate(tables.runs).scalar_subquery(),
    )


def _standing(run_id: str, ledger: Ledger) -> set[str]:
    query = select(table.c.event).where(table.c.run_id == run_id, ~table.c.is_told)
    with ledger.engine.connect() as connection:
        return set(connection.scalars(query))
