"""Forecast which messages expire before the next run, and count messages that expired since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from mqdlq import lake
from mqdlq.causes import CauseCounter, find_cause
from mqdlq.errors import HandlerError, LakeError
from mqdlq.handlers import load_handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Run, Sighting, TakenSnapshot
from mqdlq.reading.report.records import ExpiringCause, Expiry
from mqdlq.reading.run import Sources
from mqdlq.reading.run_messages import Message
from mqdlq.words import cause_in_words, count, moment

WITHOUT_SCHEDULE: Final = timedelta(days=1)
_KEYS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Horizon:
    """The time until which a report forecasts, and whether a schedule sets it.

    `known` counts the messages of the previous run's forecast by message key.
    """

    until: datetime
    has_schedule: bool
    known: Mapping[bytes, int] = field(default_factory=dict)


def find_horizon(sources: Sources, ledger: Ledger) -> Horizon | None:
    """Return when the next run starts after this one, or None if the run says nothing of a queue.

    The schedule is that of the handler's file now. Without a schedule, or without the file, the
    horizon is a day.
    """
    run = sources.run
    if run is None or sources.snapshot is None or sources.is_for_named:
        return None
    at = sources.sighting.at if sources.sighting is not None else sources.snapshot.taken_at
    following = _find_next_start(run, at)
    known = _find_earlier_forecast(run, ledger)
    return Horizon(following or at + WITHOUT_SCHEDULE, following is not None, known)


def _find_next_start(run: Run, at: datetime) -> datetime | None:
    try:
        return load_handler(run.handler).next_start(at)
    except HandlerError:
        return None


def _find_earlier_forecast(run: Run, ledger: Ledger) -> Mapping[bytes, int]:
    """Count the messages that expire until the horizon of the previous run, by message key."""
    if (before := _before(run, ledger)) is None:
        return {}
    taken, sighting = before
    until = _find_next_start(run, sighting.at) or sighting.at + WITHOUT_SCHEDULE
    try:
        return lake.expiring_keys(taken.location, sighting.at, until)
    except (LakeError, OSError, ValueError):  # all messages count as new
        return {}


def _before(run: Run, ledger: Ledger) -> tuple[TakenSnapshot, Sighting] | None:
    """Return the snapshot and the last browse of the run before that closed its account."""
    before = ledger.alerts.run_before(run, is_closed=True)
    taken = ledger.snapshots.of_run(before) if before is not None else None
    sighting = ledger.accounts.of_run(before) if before is not None else None
    return (taken, sighting) if taken is not None and sighting is not None else None


class ExpiryForecast:
    """Counts the remaining messages that expire until a horizon."""

    def __init__(self, horizon: Horizon | None) -> None:
        """Take in nothing yet."""
        self._horizon = horizon
        self._causes = CauseCounter()
        self._known = Counter(horizon.known if horizon else {})
        self._new = 0

    def add(self, message: Message) -> None:
        at, cls = message.expires_at, message.cls
        if self._horizon is None or cls is None or at is None or at > self._horizon.until:
            return
        key = bytes.fromhex(message.message_key)
        self._new += not self._known[key]
        self._known[key] -= self._known[key] > 0
        names = (message.dest_q_name, message.dest_q_mgr_name)
        self._causes.add(find_cause(cls, message.reason, *names), names[0], at)

    def result(self, expired: int | None) -> Expiry | None:
        if self._horizon is None:
            return None
        causes = tuple(
            ExpiringCause(
                one.cause.cause_id,
                cause_in_words(one.cause, one.queues),
                one.messages,
                one.first_at,
            )
            for one in self._causes.counted()
            if one.first_at is not None
        )
        return Expiry(
            self._horizon.until,
            self._horizon.has_schedule,
            sum(one.messages for one in causes),
            min((one.first_at for one in causes), default=None),
            causes,
            expired,
            self._new,
        )


def count_expired(sources: Sources, ledger: Ledger) -> int | None:
    """Count messages that the previous run left and that expired, or were taken, before this one.

    Their expiry has passed, they are not in this run's snapshot, and no run has moved them. Another
    application may have taken a message before its expiry; the ledger cannot know. Return None if
    the snapshots do not say.
    """
    run, snapshot = sources.run, sources.snapshot
    if run is None or snapshot is None or sources.is_for_named:
        return None
    before = _before(run, ledger)
    if before is None or before[1].at > snapshot.taken_at:
        return None
    taken, sighting = before
    try:
        expired = lake.expiring_keys(taken.location, sighting.at, snapshot.taken_at)
        gone = expired - lake.count_keys(snapshot.location, expired) if expired else expired
    except (LakeError, OSError, ValueError):  # the report names a snapshot that it cannot read
        return None
    keys, place = sorted(gone), (run.queue_manager, run.queue)
    return sum(
        min(gone[key], number)
        for start in range(0, len(keys), _KEYS_AT_ONCE)
        for key, number in ledger.messages.residents(
            *place, keys[start : start + _KEYS_AT_ONCE]
        ).items()
    )


def expiry_in_words(expiry: Expiry) -> str:
    """Say how many messages expire before the next run, and when the first does; "" for none."""
    if not expiry.messages:
        return ""
    verb = "expires" if expiry.messages == 1 else "expire"
    until = moment(expiry.until)
    when = f"before the next run at {until}" if expiry.has_schedule else f"before {until}"
    first = f"the first at {moment(expiry.first_at)}"
    return f"{count(expiry.messages, 'message')} {verb} {when}, {first}"


def expired_in_words(expiry: Expiry) -> str:
    """Say how many messages expired, or were taken, since the previous run; "" for none."""
    if not expiry.expired:
        return ""
    messages, were = count(expiry.expired, "message"), "was" if expiry.expired == 1 else "were"
    return f"{messages} of the previous run expired, or {were} taken, before this run"
