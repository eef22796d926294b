"""Accounts of queues: last browses, the age of remaining messages, and the verdicts of reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import func, select, update

from mqdlq.ledger.database import Repository, add, columns_of, inserted
from mqdlq.ledger.outcomes import Outcomes
from mqdlq.ledger.runs import Run, Runs, is_on_queue, last_pass_of
from mqdlq.ledger.settled_messages import Settled
from mqdlq.ledger.tables.messages import leases, outcomes
from mqdlq.ledger.tables.runs import runs, sightings, verdict_outcomes, verdicts
from mqdlq.model import Outcome


@dataclass(frozen=True, slots=True)
class Sighting:
    """The counts of a run's last browse, compared with its bookings.

    `seen` messages of the run were on the queue; `returned` messages were on it although booked as
    departed; `arrived` messages were on it and are not the run's. `next_pass_at` is when the pass
    that the run left to the next run was due, None if it left none.
    """

    depth: int
    seen: int
    returned: int
    arrived: int
    at: datetime
    next_pass_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LastAccount:
    """The last account of a whole queue: the remaining messages, the rules, and the time.

    `left` counts the booked messages that are still there, `pending` the ones among them that wait
    for a retry. `others_until` is the end of the last lease of another run, None without one.
    `next_pass_at` is that of the `Sighting`.
    """

    run_id: str
    rules_digest: str
    left: int
    at: datetime
    pending: int
    last_pass: datetime | None
    others_until: datetime | None
    next_pass_at: datetime | None


@dataclass(frozen=True, slots=True)
class RecordedVerdict:
    """The verdict of a run's report, and its numbers, so that a list of runs need not count.

    `verdict`, `headline` and `why` are those of the report. `messages` (of the snapshot) and
    `adds_up` are None without a snapshot. `attention` messages need attention. The times are those
    from arrival to departure of the messages that departed, in seconds, None if none did.
    """

    verdict: str
    headline: str
    why: str
    messages: int | None
    adds_up: bool | None
    attention: int
    resolution_median_s: float | None
    resolution_p90_s: float | None
    at: datetime


class Accounts(Repository):
    """The accounts that runs close, the age of remaining messages, and the verdicts of reports."""

    def record(self, run_id: str, sighting: Sighting) -> None:
        """Record the counts of a run's last browse: this closes the run's account.

        Raises sqlalchemy.exc.IntegrityError if the account is closed already.
        """
        self._add(sightings, {"run_id": run_id, **asdict(sighting)})

    def of_run(self, run_id: str) -> Sighting | None:
        """Return the counts of a run's last browse, or None."""
        query = select(*columns_of(sightings, Sighting)).where(sightings.c.run_id == run_id)
        return self._one(Sighting, query)

    def last(self, queue_manager: str, queue: str) -> LastAccount | None:
        """Return the last account of a queue by a run for all of its messages, or None.

        Dry runs do not count.
        """
        query = (
            select(
                runs.c.run_id,
                runs.c.rules_digest,
                (sightings.c.depth - sightings.c.arrived).label("left"),
                sightings.c.at,
                sightings.c.next_pass_at,
            )
            .join(runs, runs.c.run_id == sightings.c.run_id)
            .where(is_on_queue(queue_manager, queue), ~runs.c.dry_run, runs.c.message_keys == ())
            .order_by(sightings.c.at.desc())
        )
        row = self._first(query)
        if row is None:
            return None
        return LastAccount(
            **row,
            pending=Outcomes(self._engine).counts(row["run_id"])[Outcome.RETRY_PENDING],
            last_pass=self._moment(last_pass_of(is_on_queue(queue_manager, queue))),
            others_until=self._others_until(row["run_id"]),
        )

    def oldest_that_stays(self, run: Run, found: datetime | None) -> datetime | None:
        """Return the time since when the oldest message is on a run's queue, None if it is empty.

        If the run has closed its account, this is the time its report `found`, which is recorded
        once. A run that saw nothing new has read no message: the messages of the last account are
        still there, settled or not.
        """
        if self.of_run(run.run_id) is not None:
            is_open = (sightings.c.run_id == run.run_id) & sightings.c.oldest_left.is_(None)
            with self._engine.begin() as connection:
                connection.execute(update(sightings).where(is_open).values(oldest_left=found))
            return found
        look = Runs(self._engine).last_look(run.run_id)
        if look is None or look.is_work or not look.depth or run.run_type == "backfill":
            return found
        account = self.last(run.queue_manager, run.queue)
        if account is None:
            return found
        is_last = sightings.c.run_id == account.run_id
        return self._moment(select(sightings.c.oldest_left).where(is_last))

    def record_verdict(
        self, run_id: str, verdict: RecordedVerdict, outcomes: Mapping[Settled, int]
    ) -> None:
        """Record the verdict of a run's report, and its outcomes by rule; the last one counts.

        `outcomes` includes those of settled messages.
        """
        with self._engine.begin() as connection:
            seq = inserted(connection, verdicts, {"run_id": run_id, **asdict(verdict)})
            own = {"verdict_seq": seq, "run_id": run_id}
            rows = [{**own, **asdict(how), "messages": number} for how, number in outcomes.items()]
            add(connection, verdict_outcomes, rows)

    def verdict_of(self, run_id: str) -> RecordedVerdict | None:
        """Return the verdict of a run's last report; None if no report was written."""
        query = select(*columns_of(verdicts, RecordedVerdict)).where(verdicts.c.run_id == run_id)
        return self._one(RecordedVerdict, query.order_by(verdicts.c.seq.desc()))

    def _others_until(self, run_id: str) -> datetime | None:
        """Return the end of the last lease on messages that a run skipped.

        A lease that was released has ended.
        """
        later = leases.alias()
        newest = select(func.max(later.c.seq)).where(later.c.message_id == leases.c.message_id)
        query = (
            select(func.max(leases.c.until))
            .join(outcomes, outcomes.c.message_id == leases.c.message_id)
            .where(
                outcomes.c.run_id == run_id,
                outcomes.c.outcome == Outcome.LEASED_BY_RUN,
                leases.c.seq == newest.scalar_subquery(),
            )
        )
        return self._moment(query)
