"""The ledger's read side: a run's id in, its facts out; nothing here writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Row, Select, Table, func, select

from mqdlq.ledger import tables
from mqdlq.ledger.departures import has_departed
from mqdlq.ledger.facts import Attempt, OutcomeFact, Run, RunMessage, Sighting
from mqdlq.model import DEPARTED, GIVEN_ACTION, Action, AttemptState, Disposition, Outcome

_AT_ONCE = 500  # below every database's limit of bound parameters

COUNTED = (AttemptState.FAILED, AttemptState.CONFIRMED)
"""The states of an attempt that count against a rule's RETRY."""


class LedgerReader:
    """Views of the ledger, for reports and for whoever decides what is left to do."""

    def __init__(self, engine: Engine) -> None:
        """Read from a migrated database."""
        self.engine = engine

    def run(self, run_id: str) -> Run | None:
        """Return a run, or None."""
        runs = self._rows(select(tables.runs).where(tables.runs.c.run_id == run_id))
        return Run(**runs[0]) if runs else None

    def latest_run(self) -> Run | None:
        """Return the run that started last, or None."""
        started = tables.runs.c.started_at.desc()
        runs = self._rows(select(tables.runs).order_by(started).limit(1))
        return Run(**runs[0]) if runs else None

    def refusal(self, run_id: str, since: datetime | None = None) -> str:
        """Return why a run could not begin, or act, when it was last tried (since then), or ""."""
        table = tables.refusals
        query = select(table.c.why).where(table.c.run_id == run_id).order_by(table.c.seq.desc())
        if since is not None:
            query = query.where(table.c.at >= since)
        found = self._rows(query.limit(1))
        return str(found[0]["why"]) if found else ""

    def snapshot(self, run_id: str) -> Row[Any] | None:
        """Return (run_id, snapshot_id, location, messages, taken_at) of a run's snapshot."""
        return self._one(tables.snapshots, run_id)

    def runs_not_settled(self) -> dict[str, str]:
        """Return the snapshots of runs that have not made their last browse: id to run id."""
        table = tables.snapshots
        settled = select(tables.sightings.c.run_id)
        query = select(table.c.snapshot_id, table.c.run_id).where(table.c.run_id.not_in(settled))
        return {row["snapshot_id"]: row["run_id"] for row in self._rows(query)}

    def plan(self, run_id: str) -> Row[Any] | None:
        """Return (run_id, plan_id, plan_hash, location, accepted_at) of a run's plan, or None."""
        return self._one(tables.plans, run_id)

    def run_messages(self, run_id: str) -> list[RunMessage]:
        """Return the messages of a run's plan in browse order."""
        listed, table = tables.run_messages, tables.messages
        query = (
            select(
                table.c.message_id,
                listed.c.browse_seq,
                table.c.message_key,
                table.c.occurrence,
                table.c.residence,
                listed.c.disposition,
            )
            .join(table, table.c.message_id == listed.c.message_id)
            .where(listed.c.run_id == run_id)
            .order_by(listed.c.browse_seq)
        )
        return [
            RunMessage(**row | {"disposition": Disposition(row["disposition"])})
            for row in self._rows(query)
        ]

    def unsettled(self, queue_manager: str, *states: AttemptState) -> list[Attempt]:
        """Return the attempts on a queue manager that have come to these states, oldest first."""
        latest = tables.attempt_states
        query = _attempts().where(
            tables.messages.c.queue_manager == queue_manager,
            latest.c.state.in_([state.value for state in states]),
        )
        return self._attempts(query.order_by(latest.c.seq))

    def intended(self, queue_manager: str, queue: str) -> list[Attempt]:
        """Return the attempts on a queue whose unit of work nobody has settled, oldest first."""
        latest = tables.attempt_states
        query = _attempts().where(
            tables.messages.c.queue_manager == queue_manager,
            tables.messages.c.queue == queue,
            latest.c.state == AttemptState.INTENDED.value,
        )
        return self._attempts(query.order_by(latest.c.seq))

    def confirmed_units(self, units: Collection[str]) -> set[str]:
        """Return which of these units of work are known to have committed."""
        latest = tables.attempt_states
        query = select(latest.c.unit).where(
            latest.c.unit.in_(units), latest.c.state == AttemptState.CONFIRMED.value
        )
        return {row["unit"] for row in self._rows(query)}

    def moved_messages(self, message_ids: Collection[int]) -> set[int]:
        """Return which of these messages a unit of work is known to have moved."""
        latest = tables.attempt_states
        query = select(latest.c.message_id).where(
            latest.c.message_id.in_(message_ids), latest.c.state == AttemptState.CONFIRMED.value
        )
        return {row["message_id"] for row in self._rows(query)}

    def residents(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, int]:
        """Return by key how many messages have not departed from a queue, as far as known."""
        table = tables.messages
        query = (
            select(table.c.message_key, func.count().label("number"))
            .where(
                table.c.queue_manager == queue_manager,
                table.c.queue == queue,
                table.c.message_key.in_(keys),
                ~has_departed(table.c.message_id),
            )
            .group_by(table.c.message_key)
        )
        return {row["message_key"]: row["number"] for row in self._rows(query)}

    def departed_elsewhere(self, run_id: str, others: Sequence[int] = ()) -> dict[int, str]:
        """Return which of a run's messages have left by another run's doing: id to that run's id.

        By its booking, or by the proof that one of its units of work moved them. `others` are
        messages to look for besides those that the run lists.
        """
        listed = select(tables.run_messages.c.message_id)
        chosen: list[Any] = [listed.where(tables.run_messages.c.run_id == run_id)]
        chosen += [others[at : at + _AT_ONCE] for at in range(0, len(others), _AT_ONCE)]
        ended, tried = tables.outcomes, tables.attempts
        departed = ended.c.outcome.in_([outcome.value for outcome in DEPARTED])
        proven = tried.c.state == AttemptState.CONFIRMED.value
        found: dict[int, str] = {}
        for some in chosen:
            for table, has_left in ((tried, proven), (ended, departed)):
                query = select(table.c.message_id, table.c.run_id).where(
                    table.c.message_id.in_(some), table.c.run_id != run_id, has_left
                )
                found |= {row["message_id"]: row["run_id"] for row in self._rows(query)}
        return found

    def last_pass(self, run: Run) -> datetime | None:
        """Return when the last pass began; where attempts carry on, by any run on the queue."""
        table, runs = tables.passes, tables.runs
        query = select(func.max(table.c.started_at).label("at")).join(
            runs, runs.c.run_id == table.c.run_id
        )
        if run.carry_attempts:
            query = query.where(
                runs.c.queue_manager == run.queue_manager, runs.c.queue == run.queue
            )
        else:
            query = query.where(table.c.run_id == run.run_id)
        at: datetime | None = self._rows(query)[0]["at"]
        return at

    def newest_pass(self, queue_manager: str, state_queue: str) -> tuple[Run, datetime] | None:
        """Return the run behind a state queue that began a pass last, and when; None if none did.

        While the state queue is held, that is the run whose pass it is.
        """
        table, runs = tables.passes, tables.runs
        query = (
            select(table.c.run_id, table.c.started_at)
            .join(runs, runs.c.run_id == table.c.run_id)
            .where(runs.c.queue_manager == queue_manager, runs.c.state_queue == state_queue)
            .order_by(table.c.seq.desc())
            .limit(1)
        )
        for row in self._rows(query):
            run = self.run(row["run_id"])
            return (run, row["started_at"]) if run is not None else None
        return None

    def other_runs_with_plan(self, plan_id: str, run_id: str) -> list[str]:
        """Return the other runs that have begun a pass by this very plan, in their order."""
        table, runs, passes = tables.plans, tables.runs, tables.passes
        begun = select(passes.c.seq).where(passes.c.run_id == table.c.run_id)
        query = (
            select(table.c.run_id)
            .join(runs, runs.c.run_id == table.c.run_id)
            .where(table.c.plan_id == plan_id, table.c.run_id != run_id, begun.exists())
            .order_by(runs.c.started_at)
        )
        return [row["run_id"] for row in self._rows(query)]

    def attempts(self, run_id: str) -> list[Attempt]:
        """Return a run's attempts in the order made, each in its latest state."""
        states = tables.attempt_states
        query = _attempts().where(states.c.run_id == run_id)
        return self._attempts(query.order_by(states.c.seq))

    def attempts_made(self, run: Run) -> dict[int, tuple[int, datetime]]:
        """Return by message id how many attempts count, and when the last of them was made.

        Where attempts carry on, those of earlier runs count that had the same rules; an action
        given for named messages is none of them.
        """
        states, listed, runs = tables.attempt_states, tables.run_messages, tables.runs
        query = (
            select(
                states.c.message_id, func.count().label("made"), func.max(states.c.at).label("last")
            )
            .join(listed, listed.c.message_id == states.c.message_id)
            .join(runs, runs.c.run_id == states.c.run_id)
            .where(
                listed.c.run_id == run.run_id,
                states.c.state.in_([state.value for state in COUNTED]),
            )
            .group_by(states.c.message_id)
        )
        if run.carry_attempts:
            query = query.where(
                runs.c.rules_digest == run.rules_digest, runs.c.rules_source != GIVEN_ACTION
            )
        else:
            query = query.where(states.c.run_id == run.run_id)
        return {row["message_id"]: (row["made"], row["last"]) for row in self._rows(query)}

    def outcomes(self, run_id: str) -> dict[int, OutcomeFact]:
        """Return a run's outcomes by message id."""
        table = tables.outcomes
        columns = [column for column in table.c if column is not table.c.run_id]
        query = select(*columns).where(table.c.run_id == run_id)
        return {
            row["message_id"]: OutcomeFact(**row | {"outcome": Outcome(row["outcome"])})
            for row in self._rows(query)
        }

    def leases(self, run_id: str, now: datetime) -> dict[int, str]:
        """Return which run owns which of a run's messages now, by message id."""
        lease, later, listed = tables.leases, tables.leases.alias(), tables.run_messages
        newest = select(func.max(later.c.seq)).where(later.c.message_id == lease.c.message_id)
        query = (
            select(lease.c.message_id, lease.c.run_id)
            .join(listed, listed.c.message_id == lease.c.message_id)
            .where(
                listed.c.run_id == run_id,
                lease.c.seq == newest.scalar_subquery(),
                lease.c.until > now,
            )
        )
        return {row["message_id"]: row["run_id"] for row in self._rows(query)}

    def copies(self, run_id: str) -> dict[int, str]:
        """Return the digests of a run's archive copies by message id."""
        table = tables.archive
        query = select(table.c.message_id, table.c.digest).where(table.c.run_id == run_id)
        return {row["message_id"]: row["digest"] for row in self._rows(query)}

    def archives(self, run_id: str) -> list[str]:
        """Return where a run's archive copies stand, oldest first."""
        table = tables.archive
        query = select(table.c.location, func.min(table.c.at).label("at"))
        query = query.where(table.c.run_id == run_id).group_by(table.c.location).order_by("at")
        return [row["location"] for row in self._rows(query)]

    def sighting(self, run_id: str) -> Sighting | None:
        """Return what the last browse of a run found, or None."""
        table = tables.sightings
        columns = [column for column in table.c if column is not table.c.run_id]
        found = self._rows(select(*columns).where(table.c.run_id == run_id))
        return Sighting(**found[0]) if found else None

    def _one(self, table: Table, run_id: str) -> Row[Any] | None:
        with self.engine.connect() as connection:
            return connection.execute(select(table).where(table.c.run_id == run_id)).one_or_none()

    def _rows(self, query: Select[Any]) -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def _attempts(self, query: Select[Any]) -> list[Attempt]:
        return [
            Attempt(**row | {"action": Action(row["action"]), "state": AttemptState(row["state"])})
            for row in self._rows(query)
        ]


def _attempts() -> Select[Any]:
    states, table = tables.attempt_states, tables.messages
    columns = [column for column in states.c if column is not states.c.seq]
    return select(*columns, table.c.message_key).join(
        table, table.c.message_id == states.c.message_id
    )
