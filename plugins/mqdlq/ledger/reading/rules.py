"""Rules tables in use: from when to when, and what each rule did in the runs that read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, func, select

from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.tables import (
    attempts,
    pruned_outcomes,
    pruned_runs,
    runs,
    snapshots,
    verdict_outcomes,
    verdicts,
)
from mqdlq.model import GIVEN_ACTION, AttemptState, Outcome


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


class RuleUse(NamedTuple):
    """How many messages a rule brought to an outcome in one run; rule 0 stands for no rule."""

    run_id: str
    started_at: datetime
    rule: int
    outcome: Outcome
    messages: int


class RulesInUse(Repository):
    """The rules tables that runs of a handler read, and the use of their rules.

    An action that was given for named messages is not a rules table, and does not count.
    """

    def periods(self, handler: str, limit: int = 200) -> list[TablePeriod]:
        """Return the periods of a handler's tables, the newest first, at most `limit`."""
        order = [runs.c.started_at, runs.c.run_id]
        before = func.lag(runs.c.rules_digest).over(order_by=order)
        numbered = (
            select(
                *_named("run_id", "rules_digest", "rules_source", "started_at"),
                before.label("before"),
            )
            .where(*_of(handler))
            .subquery("numbered")
        )
        is_change = numbered.c.before.is_(None) | (numbered.c.before != numbered.c.rules_digest)
        changes = self._all(
            select(numbered).where(is_change).order_by(numbered.c.started_at, numbered.c.run_id)
        )
        found: list[TablePeriod] = []
        until: datetime | None = None
        for row in reversed(changes[-limit:]):
            last = self._last_run(handler, row["started_at"], until)
            found.append(
                TablePeriod(
                    rules_digest=row["rules_digest"],
                    rules_source=row["rules_source"],
                    first_run=row["run_id"],
                    first_at=row["started_at"],
                    **last,
                )
            )
            until = row["started_at"]
        return found

    def newest_run(self, handler: str, rules_digest: str = "") -> str:
        """Return the last run of a handler that read a table, or this table; "" if none did."""
        query = select(runs.c.run_id).where(*_of(handler, rules_digest))
        return next(iter(self._values(query.order_by(runs.c.started_at.desc()).limit(1))), "")

    def counted(self, handler: str, rules_digest: str) -> dict[str, Any]:
        """Return how many runs read a table, and what is known of them.

        The `counted` runs have a report; those `without_report` have none, so that their rules are
        not counted. `messages` are those of the snapshots of the counted runs, the first of which
        started at `first_at`, the last at `last_at`; None without such a run.
        """
        reported = select(verdicts.c.run_id)
        has_report = runs.c.run_id.in_(reported)
        query = select(
            func.count().filter(has_report).label("counted"),
            func.count().filter(~has_report).label("without_report"),
            func.coalesce(func.sum(snapshots.c.messages).filter(has_report), 0).label("messages"),
            func.min(runs.c.started_at).filter(has_report).label("first_at"),
            func.max(runs.c.started_at).filter(has_report).label("last_at"),
        ).outerjoin_from(runs, snapshots, snapshots.c.run_id == runs.c.run_id)
        row = self._all(query.where(*_of(handler, rules_digest)))[0]
        return {**row, "messages": int(row["messages"])}

    def uses(self, handler: str, rules_digest: str) -> list[RuleUse]:
        """Return what the rules of a table did in each run, as the last reports counted it.

        Pruned runs are included. The oldest run comes first.
        """
        last = select(func.max(verdicts.c.seq)).group_by(verdicts.c.run_id)
        number = func.sum(verdict_outcomes.c.messages).label("messages")
        kinds = (verdict_outcomes.c.rule, verdict_outcomes.c.outcome)
        query = (
            select(runs.c.run_id, runs.c.started_at, *kinds, number)
            .join(runs, runs.c.run_id == verdict_outcomes.c.run_id)
            .where(verdict_outcomes.c.verdict_seq.in_(last), *_of(handler, rules_digest))
            .group_by(runs.c.run_id, runs.c.started_at, *kinds)
        )
        found = [_use(row) for row in self._all(query)] + self._of_pruned(handler, rules_digest)
        return sorted(found, key=lambda use: (use.started_at, use.run_id, use.rule))

    def newest_runs(self, handler: str, rules_digest: str, most_messages: int) -> list[str]:
        """Return the newest runs with a table whose snapshots have at most so many messages.

        There is always at least one, if any run took a snapshot.
        """
        query = (
            select(runs.c.run_id, snapshots.c.messages)
            .join(snapshots, snapshots.c.run_id == runs.c.run_id)
            .where(*_of(handler, rules_digest))
            .order_by(runs.c.started_at.desc())
            .limit(1000)
        )
        chosen: list[str] = []
        for row in self._all(query):
            most_messages -= row["messages"]
            if most_messages < 0 and chosen:
                break
            chosen.append(row["run_id"])
        return chosen

    def attempts(self, run_ids: Collection[str]) -> Counter[tuple[int, AttemptState, int]]:
        """Count the attempts in these runs that succeeded or failed: by rule, state and reason."""
        kinds = (attempts.c.rule, attempts.c.state, attempts.c.mqrc)
        ended = attempts.c.state.in_((AttemptState.CONFIRMED, AttemptState.FAILED))
        query = select(*kinds, func.count().label("number")).where(ended).group_by(*kinds)
        found: Counter[tuple[int, AttemptState, int]] = Counter()
        for some in in_parts(run_ids):
            for row in self._all(query.where(attempts.c.run_id.in_(some))):
                found[row["rule"], row["state"], row["mqrc"]] += int(row["number"])
        return found

    def _last_run(self, handler: str, since: datetime, until: datetime | None) -> dict[str, Any]:
        within = [*_of(handler), runs.c.started_at >= since]
        if until is not None:
            within.append(runs.c.started_at < until)
        query = select(runs.c.run_id, runs.c.started_at).where(*within)
        newest = self._all(query.order_by(runs.c.started_at.desc(), runs.c.run_id.desc()).limit(1))
        number = next(iter(self._values(select(func.count()).where(*within))))
        return {
            "last_run": newest[0]["run_id"],
            "last_at": newest[0]["started_at"],
            "runs": int(number),
        }

    def _of_pruned(self, handler: str, rules_digest: str) -> list[RuleUse]:
        number = func.sum(pruned_outcomes.c.messages).label("messages")
        kinds = (pruned_outcomes.c.rule, pruned_outcomes.c.outcome)
        own = (pruned_runs.c.run_id, pruned_runs.c.started_at)
        query: Select[Any] = (
            select(*own, *kinds, number)
            .join(pruned_runs, pruned_runs.c.run_id == pruned_outcomes.c.run_id)
            .where(
                pruned_runs.c.handler == handler,
                pruned_runs.c.rules_digest == rules_digest,
                pruned_runs.c.run_id.not_in(select(runs.c.run_id)),
            )
            .group_by(*own, *kinds)
        )
        return [_use(row) for row in self._all(query)]


def _use(row: Any) -> RuleUse:
    return RuleUse._make(row[name] for name in RuleUse._fields)._replace(
        messages=int(row["messages"])  # a sum is a Decimal in PostgreSQL
    )


def _named(*names: str) -> list[ColumnElement[Any]]:
    return [runs.c[name] for name in names]


def _of(handler: str, rules_digest: str = "") -> list[ColumnElement[bool]]:
    conditions = [runs.c.handler == handler, runs.c.rules_source != GIVEN_ACTION]
    return [*conditions, runs.c.rules_digest == rules_digest] if rules_digest else conditions
