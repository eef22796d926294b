"""Totals of pruned runs, which stay in the ledger."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, literal, select

from mqdlq.ledger.audit import keep_approvals
from mqdlq.ledger.database import KEYS_AT_ONCE, add, in_parts
from mqdlq.ledger.tables.messages import learned, outcomes, settled_outcomes
from mqdlq.ledger.tables.retention import pruned_outcomes, pruned_runs
from mqdlq.ledger.tables.runs import runs, sightings
from mqdlq.model import Outcome


class PrunedOutcome(NamedTuple):
    """How many messages of a pruned run had this outcome by this rule.

    `is_settled` counts the settled messages of its snapshot.
    """

    run_id: str
    is_settled: bool
    outcome: Outcome
    rule: int
    action: str
    target_q: str
    target_q_mgr: str
    messages: int


class HistoryTotal(NamedTuple):
    """How many messages of a pruned run had an outcome, as the history of all runs has it."""

    run_id: str
    queue_manager: str
    queue: str
    rules_digest: str
    dry_run: bool
    rule: int
    action: str
    outcome: Outcome
    messages: int


def record_runs(connection: Connection, prune_id: int, run_ids: Sequence[str]) -> None:
    """Record runs and their totals as pruned; their approvals go to the audit, which stays."""
    if not run_ids:
        return
    own = {column.name for column in pruned_runs.c} - {"prune_id", "closed_at"}
    names = sorted(own)
    query = select(*(runs.c[name] for name in names), literal(prune_id), sightings.c.at).outerjoin(
        sightings, sightings.c.run_id == runs.c.run_id
    )
    connection.execute(
        insert(pruned_runs).from_select(
            [*names, "prune_id", "closed_at"], query.where(runs.c.run_id.in_(run_ids))
        )
    )
    keep_approvals(connection, run_ids)
    rows = [row._asdict() for row in count_outcomes(connection, run_ids)]
    for part in in_parts(rows):
        add(connection, pruned_outcomes, part)


def count_outcomes(connection: Connection, run_ids: Collection[str]) -> list[PrunedOutcome]:
    """Count the outcomes of runs; an outcome that was learned later replaces the booked one."""
    found: dict[tuple[Any, ...], int] = {}
    latest = {
        name: func.coalesce(learned.c[name], outcomes.c[name])
        for name in ("outcome", "target_q", "target_q_mgr")
    }
    kinds = [latest.get(name, outcomes.c[name]) for name in PrunedOutcome._fields[2:7]]
    own = (
        select(outcomes.c.run_id, *kinds, func.count())
        .outerjoin(
            learned,
            (learned.c.of_run == outcomes.c.run_id)
            & (learned.c.message_id == outcomes.c.message_id),
        )
        .group_by(outcomes.c.run_id, *kinds)
    )
    names = PrunedOutcome._fields[2:]
    settled = select(settled_outcomes.c.run_id, *(settled_outcomes.c[name] for name in names))
    for is_settled, query, run_id in (
        (False, own, outcomes.c.run_id),
        (True, settled, settled_outcomes.c.run_id),
    ):
        for some in in_parts(run_ids, KEYS_AT_ONCE):
            for row in connection.execute(query.where(run_id.in_(some))):
                first, *kind, number = row
                key = (first, is_settled, Outcome(kind[0]), *kind[1:])
                found[key] = found.get(key, 0) + int(number)
    return [PrunedOutcome._make([*key, number]) for key, number in found.items()]
