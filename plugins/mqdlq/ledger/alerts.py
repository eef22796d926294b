"""Alerts: which were sent for a run, and which conditions last after it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, func, select

from mqdlq.ledger.database import Repository
from mqdlq.ledger.runs import Run, before_the_start, is_beside
from mqdlq.ledger.tables.runs import alerts, failures, runs, sightings


class Alerts(Repository):
    """Alerts of runs; an event is the name of one of `mqdlq.handlers.operation.Event`."""

    def record(
        self, run_id: str, sent: Sequence[str], lasting: Sequence[str], at: datetime
    ) -> None:
        """Record, once, the events with a sent alert and the events that last after a run."""
        known = {(event, True) for event in self.sent(run_id)}
        known |= {(event, False) for event in self.lasting(run_id)}
        new = [(event, True) for event in sent] + [(event, False) for event in lasting]
        rows = [
            {"run_id": run_id, "event": str(event), "is_sent": is_sent, "at": at}
            for event, is_sent in new
            if (event, is_sent) not in known
        ]
        self._add(alerts, *rows)

    def sent(self, run_id: str) -> set[str]:
        """Return the events of a run whose alerts were sent, by any try of its task."""
        query = select(alerts.c.event).where(alerts.c.run_id == run_id, alerts.c.is_sent)
        return set(self._values(query))

    def lasting(self, run_id: str) -> set[str]:
        """Return the events that last after a run."""
        query = select(alerts.c.event).where(alerts.c.run_id == run_id, ~alerts.c.is_sent)
        return set(self._values(query))

    def cannot_begin(self, handler: str, event: str, but: str) -> bool:
        """Whether `event` was sent for a run that could not start, and no run has started since.

        Considers the handler's runs except run `but`.
        """
        notified = select(alerts.c.run_id).where(alerts.c.event == event, alerts.c.is_sent)
        latest = select(func.max(failures.c.at)).where(
            failures.c.handler == handler,
            failures.c.run_id != but,
            failures.c.run_id.in_(notified),
            before_the_start(),
        )
        at = self._moment(latest)
        if at is None:
            return False
        begun = select(runs.c.run_id).where(runs.c.handler == handler, runs.c.started_at > at)
        return self._first(begun) is None

    def could_not_begin_since(self, before: str | None, run: Run) -> bool:
        """Whether an alert said that an earlier run of this handler could not start.

        Only failures since run `before` started count, if there is one.
        """
        query = (
            select(failures.c.run_id)
            .join(alerts, alerts.c.run_id == failures.c.run_id)
            .where(
                failures.c.handler == run.handler,
                failures.c.at <= run.started_at,
                ~alerts.c.is_sent,
                before_the_start(),
            )
        )
        if before is not None:
            since = select(runs.c.started_at).where(runs.c.run_id == before).scalar_subquery()
            query = query.where(failures.c.at > since)
        return self._first(query) is not None

    def run_before(self, run: Run, *, is_closed: bool = False) -> str | None:
        """Return the run of this queue that ended last before this one, with an account or failed.

        With `is_closed` it is the last one that closed its account of the whole queue. Runs
        overlap: the one that started last need not be the one that ended last.
        """
        own_end = self._moment(select(_end()).where(runs.c.run_id == run.run_id))
        has_ended = _end().is_not(None) if own_end is None else _end() < own_end
        query = select(runs.c.run_id).where(is_beside(run), has_ended)
        if is_closed:
            closed = runs.c.run_id.in_(select(sightings.c.run_id))
            query = query.where(closed, runs.c.message_keys == ())
        return next(iter(self._values(query.order_by(_end().desc()).limit(1))), None)


def _end() -> ColumnElement[datetime | None]:
    """When a run closed its account or, without one, had its first alert; null if neither."""
    closed = select(sightings.c.at).where(sightings.c.run_id == runs.c.run_id)
    alerted = select(func.min(alerts.c.at)).where(alerts.c.run_id == runs.c.run_id)
    return func.coalesce(
        closed.correlate(runs).scalar_subquery(), alerted.correlate(runs).scalar_subquery()
    )
