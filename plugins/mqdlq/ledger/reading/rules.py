"""Rules tables in use: from when to when, and what each rule did in the runs that read it."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from mqdlq.ledger import tables as t
from mqdlq.ledger.database import Condition, Repository, Row, is_last, total
from mqdlq.model import GIVEN_ACTION, AttemptState


@dataclass(frozen=True, slots=True)
class TablePeriod:
    """A time in which all runs of a handler read the same rules table.

    The times are those at which its first and its last run started. `first_run` has the text.
    """

    rules_digest: str
    rules_source: str
    first_run: str
    last_run: str
    first_at: datetime
    last_at: datetime
    runs: int


class RulesInUse(Repository):
    """The rules tables that runs of a handler read, and the use of their rules.

    An action that was given for named messages is not a rules table, and does not count.
    """

    def periods(self, handler: str, limit: int = 200) -> list[TablePeriod]:
        """Return the periods of a handler's tables, the newest first, at most `limit`."""
        order = [t.runs.c.started_at, t.runs.c.run_id]
        before = sa.func.lag(t.runs.c.rules_digest).over(order_by=order).label("before")
        names = ("rules_digest", "rules_source", "run_id", "started_at")
        numbered = sa.select(*t.runs.c[names], before).where(_of(handler)).subquery("numbered")
        one = numbered.c
        is_change = one.before.is_(None) | (one.before != one.rules_digest)
        changes = sa.select(*(one[name] for name in names)).where(is_change)
        newest = changes.order_by(one.started_at.desc(), one.run_id.desc()).limit(limit)
        found: list[TablePeriod] = []
        until: datetime | None = None
        for row in self._rows(newest):
            is_within = _of(handler) & (t.runs.c.started_at >= row.started_at)
            if until is not None:
                is_within &= t.runs.c.started_at < until
            last = sa.select(t.runs.c.run_id, t.runs.c.started_at).where(is_within)
            (last_run, last_at), *_ = self._rows(
                last.order_by(*(column.desc() for column in order)).limit(1)
            )
            number = self._count(sa.select(sa.func.count()).where(is_within))
            digest, source, first_run, first_at = row
            ends = (first_run, last_run, first_at, last_at)
            found.append(TablePeriod(digest, source, *ends, number))
            until = row.started_at
        return found

    def newest_run(self, handler: str, rules_digest: str = "") -> str:
        """Return the last run of a handler that read a table, or this table; "" if none did."""
        query = sa.select(t.runs.c.run_id).where(_of(handler, rules_digest))
        return str(self._value(query.order_by(t.runs.c.started_at.desc())) or "")

    def counted(self, handler: str, rules_digest: str) -> dict[str, Any]:
        """Return how many runs read a table, and how many messages their snapshots have.

        The `counted` runs have a report; those `without_report` have none, so that their rules are
        not counted. `messages` are those of the snapshots of the counted runs, the first of which
        started at `first_at`, the last at `last_at`; None without such a run.
        """
        has_report = t.runs.c.run_id.in_(sa.select(t.verdicts.c.run_id))
        messages = sa.case((has_report, t.snapshots.c.messages))
        numbers: tuple[Any, ...] = (
            sa.func.count().filter(has_report).label("counted"),
            sa.func.count().filter(~has_report).label("without_report"),
            total(messages).label("messages"),
            sa.func.min(t.runs.c.started_at).filter(has_report).label("first_at"),
            sa.func.max(t.runs.c.started_at).filter(has_report).label("last_at"),
        )
        query = sa.select(*numbers).outerjoin_from(
            t.runs, t.snapshots, t.snapshots.c.run_id == t.runs.c.run_id
        )
        return self._rows(query.where(_of(handler, rules_digest)))[0]._asdict()

    def uses(self, handler: str, rules_digest: str) -> list[Row]:
        """Return what rules did in each run, pruned or not, as last reported; oldest first.

        A row has `run_id`, `started_at`, `rule` (0 for no rule), `outcome` and `messages`.
        """
        reported = (
            _uses(t.runs, t.verdict_outcomes)
            .join(t.verdicts, t.verdicts.c.seq == t.verdict_outcomes.c.verdict_seq)
            .where(_of(handler, rules_digest), is_last(t.verdicts, "run_id"))
        )
        gone = t.pruned_runs.c
        pruned = _uses(t.pruned_runs, t.pruned_outcomes).where(
            gone.handler == handler,
            gone.rules_digest == rules_digest,
            gone.run_id.not_in(sa.select(t.runs.c.run_id)),
        )
        found = [*self._rows(reported), *self._rows(pruned)]
        return sorted(found, key=lambda use: (use.started_at, use.run_id, use.rule))

    def newest_runs(self, handler: str, rules_digest: str, most_messages: int) -> list[str]:
        """Return the newest runs with a table and at most so many messages, at least one if any."""
        query = (
            sa.select(t.runs.c.run_id, t.snapshots.c.messages)
            .join(t.snapshots, t.snapshots.c.run_id == t.runs.c.run_id)
            .where(_of(handler, rules_digest))
            .order_by(t.runs.c.started_at.desc())
            .limit(1000)
        )
        chosen: list[str] = []
        for run_id, messages in self._rows(query):
            most_messages -= messages
            if most_messages < 0 and chosen:
                break
            chosen.append(run_id)
        return chosen

    def attempts(self, run_ids: Collection[str]) -> Counter[tuple[int, AttemptState, int]]:
        """Count the attempts in these runs that succeeded or failed: by rule, state and reason."""
        made = t.attempts.c
        kinds = made["rule", "state", "mqrc"]
        ended = made.state.in_((AttemptState.CONFIRMED, AttemptState.FAILED))
        query = sa.select(*kinds, sa.func.count()).where(ended).group_by(*kinds)
        found: Counter[tuple[int, AttemptState, int]] = Counter()
        for rule, state, reason, number in self._among(query, made.run_id, run_ids):
            found[rule, state, reason] += number
        return found


def _uses(runs: sa.Table, outcomes: sa.Table) -> sa.Select[Any]:
    kinds = (*runs.c["run_id", "started_at"], *outcomes.c["rule", "outcome"])
    query = sa.select(*kinds, total(outcomes.c.messages).label("messages")).group_by(*kinds)
    return query.join_from(outcomes, runs, runs.c.run_id == outcomes.c.run_id)


def _of(handler: str, rules_digest: str = "") -> Condition:
    is_own = (t.runs.c.handler == handler) & (t.runs.c.rules_source != GIVEN_ACTION)
    return is_own & (t.runs.c.rules_digest == rules_digest) if rules_digest else is_own
