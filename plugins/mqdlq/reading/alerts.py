"""Decide which alerts to send for a run.

An alert is sent when an event begins, and not again while the event lasts. The event is over when
a run has observed its end; a run that found nothing to do, or broke off, has observed nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from mqdlq.failures import left_no_word
from mqdlq.handlers.operation import Alerts, Event
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Run
from mqdlq.model import Outcome
from mqdlq.reading.standings import Quiet, find_quiet
from mqdlq.words import cause_in_words, count, name_causes

if TYPE_CHECKING:  # templates: not at parse time
    from mqdlq.reading.report.building import Report

_LOUD: Final = Quiet()
LASTING: Final[tuple[str, ...]] = tuple(event for event in Event if event.lasts)


@dataclass(frozen=True, slots=True)
class Alert:
    """An event with its words: a title of one line, and the report's short text."""

    event: Event
    title: str
    text: str


Notify = Callable[[Sequence[Alert]], Sequence[Event]]
"""Sends alerts; returns the events whose alerts reached every recipient."""


def send(
    run: Run, report: Report, thresholds: Alerts, notify: Notify, *, ledger: Ledger, now: datetime
) -> None:
    """Send the alerts of a run that has ended; a second call for a run sends nothing twice."""
    run_id = run.run_id
    before = ledger.alerts.sent(run_id)
    found, holds = alerts_of(run, report, thresholds, ledger=ledger, now=now)
    new = [alert for alert in found if alert.event not in before]
    sent = notify(new)
    # The next run sends an alert again that did not reach every recipient.
    unsent = {alert.event for alert in new} - set(sent)
    ledger.alerts.record(run_id, sent, [event for event in holds if event not in unsent], now)


def send_start_failure(
    handler: str, run_id: str, short: str, notify: Notify, *, ledger: Ledger, now: datetime
) -> None:
    """Send the alert of a run that could not start, with the short text of its report.

    If its failure is not recorded, because it was stopped, that is recorded. Nothing is sent if the
    alert was sent for an earlier run and no run of the handler has started since.
    """
    if not ledger.runs.failures(run_id):
        ledger.runs.record_failure(run_id, handler, left_no_word("sense"), now)
    before = ledger.alerts.sent(run_id)
    is_told = Event.FAILED in before or ledger.alerts.cannot_begin(
        handler, Event.FAILED, but=run_id
    )
    alert = Alert(Event.FAILED, f"{handler}: the run could not start", short)
    sent = notify([] if is_told else [alert])
    ledger.alerts.record(run_id, sent, [] if before else [Event.FAILED], now)


def alerts_of(
    run: Run, report: Report, thresholds: Alerts, *, ledger: Ledger, now: datetime
) -> tuple[list[Alert], list[str]]:
    """Return the alerts of a run that has ended, and the lasting events that hold after it.

    Both are in the order of `Event`. An event holds, alerted before or not, also if it held before
    and the run cannot observe it. `expiring` is among them, so that the next run does not send it
    again for the same messages; it has no recovery. Messages of muted causes raise no alert; an
    event that is due to them alone neither holds nor is over.
    """
    before, quiet = ledger.alerts.run_before(run), find_quiet(run, ledger, now)
    lasted = ledger.alerts.lasting(before) if before is not None else set()
    found = there = dict(_found(run, report, thresholds, ledger, now))
    if quiet.muted:
        found = dict(_found(run, _without(quiet, report), thresholds, ledger, now, quiet=quiet))
    if quiet.ended:
        named = ", ".join(cause_in_words(one.cause) for one in quiet.ended)
        found[Event.MUTE_ENDED] = f"a mute has ended: {named}"
    observable = _observable_events(run, ledger)
    observed = observable | ({Event.EXPIRING} if observable and not run.is_for_some else set())
    holds = found.keys() | (lasted - observed)
    if Event.FAILED not in lasted and ledger.alerts.could_not_begin_since(before, run):
        lasted.add(Event.FAILED)
        observable.add(Event.FAILED)  # this run has started
    if report.expiry is not None and report.expiry.new:
        lasted.discard(Event.EXPIRING)
    new = {event: words for event, words in found.items() if event not in lasted}
    over = sorted(lasted & observable - there.keys())
    if over and not any(event in there for event in LASTING):
        new[Event.RECOVERY] = f"over: {', '.join(over)}"
    place = f"{run.queue} @ {run.queue_manager}"
    text = "\n".join(filter(None, (report.short, quiet.words)))
    alerts = [
        Alert(event, f"{run.handler}: {new[event]} ({place})", text)
        for event in Event
        if event in new
    ]
    may_hold = (event for event in Event if event.lasts or event is Event.EXPIRING)
    return alerts, [event for event in may_hold if event in holds]


def unreported_alert(handler: str, text: str) -> Alert:
    return Alert(Event.FAILED, f"{handler}: the run failed, and has no report", text)


def build_approval_alert(run: Run, asked: Iterable[str]) -> Alert:
    title = f"{run.handler}: a plan waits for approval ({run.queue} @ {run.queue_manager})"
    return Alert(Event.APPROVAL, title, "\n".join(asked))


def _without(quiet: Quiet, report: Report) -> Report:
    """Return a report without what is due to muted causes, as far as alerts read it."""
    expiry = report.expiry
    if expiry is not None:
        causes = (one for one in expiry.causes if one.cause.cause_id not in quiet.muted)
        expiry = replace(expiry, causes=tuple(causes))
    ramps = tuple(row for row in report.ramps if row.cause_id not in quiet.muted)
    return replace(report, expiry=expiry, ramps=ramps, oldest_left=quiet.oldest_left)


def _found(
    run: Run,
    report: Report,
    thresholds: Alerts,
    ledger: Ledger,
    now: datetime,
    *,
    quiet: Quiet = _LOUD,
) -> Iterator[tuple[Event, str]]:
    before = ledger.alerts.run_before(run, is_closed=True)
    sighting = ledger.accounts.of_run(before) if before is not None else None
    messages, had = (_messages(one, quiet, ledger) for one in (run.run_id, before))
    is_whole = not run.is_for_some  # such a run says nothing about the queue
    if is_whole and messages and (sighting is None or not sighting.depth):
        yield Event.FIRST_ARRIVAL, f"{count(messages, 'message')} arrived on an empty queue"
    causes = ledger.snapshots.new_causes(run)
    if new := [one for one in causes if one.cause.cause_id not in quiet.muted]:
        named = name_causes(new)
        yield Event.NEW_CAUSE, f"{'new causes' if len(new) > 1 else 'new cause'}: {named}"
    if is_whole and had and messages - had >= thresholds.growth:
        yield Event.GROWTH, f"{count(messages - had, 'more message')} than in the last run"
    yield from _about_remaining_messages(run.run_id, report, thresholds, ledger, now, quiet=quiet)
    if not report.adds_up:
        yield Event.UNACCOUNTED, "the account does not add up"
    elif report.failed:
        yield Event.FAILED, "the run failed"


def _about_remaining_messages(
    run_id: str,
    report: Report,
    thresholds: Alerts,
    ledger: Ledger,
    now: datetime,
    *,
    quiet: Quiet,
) -> Iterator[tuple[Event, str]]:
    outcomes = Counter({str(one): number for one, number in ledger.outcomes.counts(run_id).items()})
    outcomes[Outcome.QUARANTINED] += len(ledger.outcomes.quarantine_forwards(run_id))
    for one in report.causes if quiet.muted else ():
        outcomes -= one.outcomes if one.cause.cause_id in quiet.muted else Counter()
    strays = (one for one in quiet.muted.values() if not one.cause.is_of_dead_letters)
    outcomes[Outcome.UNPROCESSABLE] -= sum(one.messages for one in strays)
    outcomes = +outcomes
    oldest = report.oldest_left
    if oldest is not None and now - oldest >= thresholds.oldest_age:
        yield Event.OLDEST_AGE, f"a message has been on the queue since {oldest:%Y-%m-%d %H:%M} UTC"
    if expiring := report.expiring:
        yield Event.EXPIRING, expiring
    if report.breakers:
        others = len(report.breakers) - 1
        yield Event.BREAKER, report.breakers[0] + (f", and {others:,} more" if others else "")
    for event in Event:
        if number := outcomes.get(event.value):
            yield event, f"{count(number, 'message')} {event}"


def _messages(run_id: str | None, quiet: Quiet, ledger: Ledger) -> int:
    snapshot = ledger.snapshots.of_run(run_id) if run_id else None
    if snapshot is None or run_id is None:
        return 0
    causes = ledger.snapshots.causes(run_id) if quiet.muted else ()
    muted = (one.messages for one in causes if one.cause.cause_id in quiet.muted)
    return snapshot.messages - sum(muted)


def _observable_events(run: Run, ledger: Ledger) -> set[str]:
    """Return the lasting events of which a run knows whether they hold.

    A run for some messages does not know enough about events that messages cause.
    """
    if ledger.accounts.of_run(run.run_id) is None:
        return set()
    if run.is_for_some:
        return {Event.UNACCOUNTED, Event.FAILED}
    approval = ledger.plans.last_approval(run.run_id)
    acts = not run.dry_run and (approval is None or approval.decision == "approved")
    return set(LASTING) if acts else set(LASTING) - {Event.EXHAUSTED}
